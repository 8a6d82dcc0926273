"""A Sphinx extension: pages of the gallery, the scoreboard and each figure, from published results.

They are written to `docs/figures/` before Sphinx reads the sources, and nothing else is read than
`results/published` and the declarations of the papers.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from sphinx.application import Sphinx

from flatlab.core import store
from flatlab.lab import plan
from flatlab.lab.figures.labels import extent_of, two_digits
from flatlab.lab.publish.scoreboard import OUTCOMES, Board, numbers
from flatlab.lab.verdict_files import read_verdicts
from flatlab.papers.beyond import fig5, fig6
from flatlab.papers.beyond._joint import NETWORKS

DOCS = Path(__file__).parent
PAGES = DOCS / "figures"
ENDINGS = {"png": "png", "csv.gz": "csv", "csv": "csv"}
"""Of the files that a page shows, and what it calls them."""
SCALES = {
    "paper": "As published",
    "short": "Real data, reduced to what two cores can pay",
    "demo": "Small networks on embedded data",
}
MEANINGS = {
    "own": "the paper's own networks and data",
    "reduced": "the paper's data; fewer, smaller or shorter-trained networks",
    "stand-in": "other networks or data than the paper's",
}


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", lambda *_: write())
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write() -> None:
    """Write all generated pages anew; pages that are unchanged are not touched."""
    PAGES.mkdir(exist_ok=True)  # paths of published files start there
    runs = published()
    papers = {
        name: (paper, [figure for figure in plan.figures() if figure.paper == name])
        for name, paper in plan.papers().items()
    }
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(DOCS / "_templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        quantities=quantities,
        coefficients={"beyond_fig5": by_networks(runs.get("beyond_fig5", {}), "varies", taus)},
        scales=SCALES,
        meanings=MEANINGS,
        numbers=numbers,
        outcomes=OUTCOMES,
        sentences=sentences,
        extent_of=extent_of,
    )
    contents = {
        f"{target}.md": environment.get_template("figure.md.jinja").render(
            target=target, figure=figure, paper=papers[figure.paper][0], runs=runs.get(target, {})
        )
        for figure in plan.figures()
        for target in [figure.target]
    }
    about = {
        "papers": papers,
        "runs": runs,
        "boards": boards(runs),
        "invariances": by_networks(runs.get("beyond_fig6", {}), "change", changes),
    }
    for name in ("gallery", "scoreboard", "invariances"):
        template = environment.get_template(f"{name}.md.jinja")
        contents[f"{name}.md"] = template.render(**about)
    for gone in {path.name for path in PAGES.iterdir()} - set(contents):
        (PAGES / gone).unlink()
    for name, content in contents.items():
        path = PAGES / name
        if not path.is_file() or path.read_text() != content:
            path.write_text(content)


def published() -> dict[str, dict[str, dict[str, Any]]]:
    """target -> scale -> the published files, verdicts and origins, the largest scale first.

    Of a demo whose figure a larger scale has, no picture is published.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for scale in plan.published_scales():
        place = plan.published_at(scale)
        origins = store.load_json(place.folder / "provenance.json")
        for figure in plan.published_figures(scale):
            verdicts = read_verdicts(place.verdicts(figure.paper, figure.key))
            named = {place.figure(figure.paper, figure.key, end): ENDINGS[end] for end in ENDINGS}
            found.setdefault(figure.target, {})[scale] = {
                "files": {name: f"../../{path}" for path, name in named.items() if path.is_file()},
                "verdicts": verdicts,
                "tables": {key: f"../../{place.table(key)}" for key in figure.experiments},
                "origins": {key: origins[key] for key in figure.experiments},
            }
    return found


def sentences(declared: str | tuple[str, ...]) -> str:
    """A caption or details as one paragraph, in which nothing is marked up."""
    text = declared if isinstance(declared, str) else " ".join(declared)
    return text.replace("_", "\\_").replace("|", "\\|").replace("*", "\\*")


def boards(runs: dict[str, dict[str, dict[str, Any]]]) -> dict[str, Board]:
    """scale -> the counted verdicts."""
    return {
        scale: Board(run[scale]["verdicts"] for run in runs.values() if scale in run)
        for scale in plan.published_scales()
    }


def by_networks(
    runs: dict[str, dict[str, Any]], column: str, words: Callable[[pd.DataFrame], pd.Series]
) -> dict[str, dict[str, pd.DataFrame]]:
    """scale -> networks -> a row per measure, a column per value of one, of published numbers.

    runs: those of a figure, by scale.  words: of each row; NaN of rows that are not shown.
    """
    found: dict[str, dict[str, pd.DataFrame]] = {}
    for scale, run in runs.items():
        if "csv" not in run["files"]:
            continue
        rows = pd.read_csv(PAGES / run["files"]["csv"])
        rows = rows.assign(words=words(rows)).dropna(subset="words")
        found[scale] = {
            NETWORKS[grid]: part.pivot_table(
                index="measure", columns=column, values="words", aggfunc="first", sort=False
            ).fillna("")
            for grid, part in rows.groupby("grid", sort=False)
        }
    return found


def changes(rows: pd.DataFrame) -> pd.Series:
    """How much a measure changes, bold where a paper says that it does not."""
    mark = rows["claimed"].map({True: "**", False: ""})
    return mark + rows["median"].map(fig6.in_short) + mark


def taus(rows: pd.DataFrame) -> pd.Series:
    """Tau with the test error at the end of training."""
    shown = (rows["at"] == fig5.END) & (rows["outcome"] == "test_error") & rows["low"].notna()
    numbers = rows[["tau", "low", "high"]].map(two_digits)
    return (numbers["tau"] + " [" + numbers["low"] + ", " + numbers["high"] + "]").where(shown)


def quantities(figure: plan.Figure) -> list[str]:
    """The quantities that a figure shows, as names of classes."""
    declared = figure.declared
    of_quantities = getattr(declared, "panel", "") in ("measure", ("x", "y"))
    shown = [*declared.columns_shown, *(declared.panels if of_quantities else ())]
    names = (name for column in shown for name in column.partition("[")[0].split())
    return list(dict.fromkeys(name.replace("_", "-") for name in names))
