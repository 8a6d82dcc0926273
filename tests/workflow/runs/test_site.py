"""The site: every published figure has a page, local links lead somewhere, pages are legible."""

import functools
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pandas as pd
import pytest

from flatlab.core import store
from flatlab.core.registry import imported, keys_of
from flatlab.lab import plan
from flatlab.lab.figures import render as plotting

ROOT = Path(__file__).parents[3]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PHONE, DESK = 390, 1280
SHOWN = [
    "index",
    "measures",
    "generated/tutorials/plot_1_which_sharpness",
    "figures/gallery",
    "figures/scoreboard",
    "figures/chen2026_figH9",
]


class Links(HTMLParser):
    """The targets of links and images of a page, and the places in it that links may name."""

    def __init__(self, page):
        super().__init__()
        self.targets, self.anchors = [], set()
        self.feed(page.read_text())

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        self.targets += [found[key] for key in ("href", "src") if found.get(key)]


@functools.cache
def links(page):
    return Links(page)


def broken(folder):
    """Every local link of the pages in a folder that leads nowhere, as `page: link`."""
    lost = []
    for page in sorted(folder.rglob("*.html")):
        for target in links(page).targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            there = page if not parts.path else (page.parent / unquote(parts.path)).resolve()
            there = there / "index.html" if there.is_dir() else there
            anchor = unquote(parts.fragment)
            reached = there.is_file() and (
                not anchor or there.suffix != ".html" or anchor in links(there).anchors
            )
            lost += [] if reached else [f"{page.relative_to(folder)}: {target}"]
    return lost


@pytest.mark.more
def test_the_site(tmp_path):
    """One test, since building the site takes a minute or two."""
    site = tmp_path / "site"
    build(site)
    assert not broken(site)
    no_page_asks_another_machine_for_anything_that_it_shows(site)
    each_published_figure_has_a_page_with_its_picture_claims_and_command(site)
    measured_invariances_are_those_of_the_published_figure(site)
    the_tutorials_have_printed_and_drawn(site)
    every_measure_is_in_the_index_and_on_the_page_of_its_family(site)
    if CHROMIUM is None:
        pytest.skip("the widths of pages: Chromium is not installed (Debian: chromium)")
    for width in (PHONE, DESK):
        pages_fit(site, tmp_path, width)


def build(folder):
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "docs", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_lost_page_picture_or_place_is_a_broken_link(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#here">b</a><a href="a.html">a</a>')
    (tmp_path / "b.html").write_text('<p id="there"><img src="c.png"><a href="d.html"></a></p>')
    assert broken(tmp_path) == ["a.html: b.html#here", "b.html: c.png", "b.html: d.html"]


def no_page_asks_another_machine_for_anything_that_it_shows(site):
    for page in site.rglob("*.html"):
        assert not re.findall(r'(?:src|<link[^>]*href)="https?://[^"]*', page.read_text()), page


def each_published_figure_has_a_page_with_its_picture_claims_and_command(site):
    shown = 0
    for scale in plan.published_scales():
        for figure in plan.published_figures(scale):
            text = (site / "figures" / f"{figure.target}.html").read_text()
            assert f"snakemake {figure.target}" in re.sub("<[^>]*>", "", text)
            verdicts = plan.published_at(scale).verdicts(figure.paper, figure.key)
            for claim in json.loads((ROOT / verdicts).read_text())["claims"]:
                assert claim["id"] in text
                shown += 1
    assert shown > 200


@pytest.mark.more
def test_captions_have_at_most_eighty_words_and_the_rest_is_on_the_page():
    load = functools.cache(store.load_dataset)
    lengths = {}
    for scale in plan.published_scales():
        for figure in plan.published_figures(scale):
            places = {key: plan.published_at(scale).table(key) for key in figure.experiments}
            tables = {key: load(str(ROOT / place)) for key, place in places.items()}
            caption = plotting.caption(figure.settings, tables)
            lengths[f"{figure.target}, {scale}"] = len(caption.split())
    assert len(lengths) > 100
    assert not {name: length for name, length in lengths.items() if length > 80}


def measured_invariances_are_those_of_the_published_figure(site):
    text = (site / "figures" / "invariances.html").read_text()
    places = [plan.published_at(scale) for scale in plan.published_scales()]
    files = [place.figure("beyond", "fig6", "csv") for place in places]
    published = [pd.read_csv(ROOT / file) for file in files if (ROOT / file).is_file()]
    assert published
    for name, change in zip(
        *(pd.concat(published)[key] for key in ("measure", "change")), strict=True
    ):
        assert f">{name}</span>" in text
        assert f"<p>{change}</p>" in text


def pages_fit(site, tmp_path, width):
    """Photographs: no page is blank, and none is wider than the screen."""
    from PIL import Image

    for name in SHOWN:
        # A frame, since a window of Chromium has at least 500 pixels.
        frame = site / f"frame-{width}.html"
        frame.write_text(
            f'<body style="margin:0"><iframe src="{name}.html" width="{width}" height="900" '
            'style="border:0" onload="document.title = '
            'this.contentDocument.documentElement.scrollWidth"></iframe>'
        )
        photograph = tmp_path / "page.png"
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu"]
        flags += ["--allow-file-access-from-files", f"--user-data-dir={tmp_path / 'profile'}"]
        flags += ["--virtual-time-budget=5000", f"--window-size={max(width, 500)},900"]
        run = functools.partial(subprocess.run, capture_output=True, text=True, timeout=120)
        dom = run([CHROMIUM, *flags, "--dump-dom", frame.as_uri()]).stdout
        run([CHROMIUM, *flags, f"--screenshot={photograph}", frame.as_uri()])
        needed = int(re.search(r"<title>(\d+)</title>", dom)[1])
        assert needed <= width, f"{name} is {needed} pixels wide on a screen of {width}"
        left = Image.open(photograph).convert("L").crop((0, 0, width, 900))
        low, high = left.getextrema()
        assert high - low > 100, f"{name} is blank"


def test_the_first_page_asks_and_answers_as_the_readme_does():
    first, readme = (
        " ".join((ROOT / n).read_text().split()) for n in ("docs/index.md", "README.md")
    )
    lead = re.search(r"\*\*Do flat .*? that one compares\.", readme)[0]
    assert lead in first


def the_tutorials_have_printed_and_drawn(site):
    """And their pages are shown by the functions that they use."""
    folder = site / "generated" / "tutorials"
    pages = {path.stem: path.read_text() for path in folder.glob("plot_*.html")}
    assert len(pages) == 6
    for name, text in pages.items():
        assert "sphx-glr-script-out" in text, name
        assert "_images/sphx_glr_plot" in text, name
    assert "plot_1_which_sharpness" in (site / "generated/api/flatlab.measure.html").read_text()


def every_measure_is_in_the_index_and_on_the_page_of_its_family(site):
    index = (site / "measures.html").read_text()
    for key in keys_of("families"):
        page = "measures" if key == "prediction" else f"measures/{key}"
        text = (site / f"{page}.html").read_text()
        for name in imported("families", key).QUANTITIES:
            assert f"<code>{name}</code>" in index, name
            assert name in text, name
