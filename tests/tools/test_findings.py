"""FINDINGS.md: every number is looked up in the published results, and none of them is stale."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
from scipy.stats import kendalltau

from flatlab.core.schema import EVIDENCE
from flatlab.core.store import StoreError
from flatlab.lab import plan
from flatlab.lab.publish.scoreboard import group_of
from flatlab.lab.tables.eligibility import NotEligible
from flatlab.lab.tables.networks import Networks
from flatlab.lab.verdict_files import read_verdicts
from tests.lab.publish.made_up import ROOT
from tools import findings
from tools.findings import Interval, PublishedNetworks

TYPED = {
    "2/η": "a bound of theory",
    "|f − y|²/2": "a definition",
    "1/σ_min": "a factor in an equation",
    "95 % interval": "the level of all intervals",
}
"""What may be typed, and why. Settings, and numbers of figures, equations and rows, are below."""

SETTING = re.compile(r"\b(rates?|batch|size|smoothing|ρ)( of| =|) [\d.]+( to [\d.]+)?|at 0\.008")
ROW = re.compile(r"^\| \d+ \|", re.MULTILINE)
PLACE = r"(Figs?\.|Figures?|Tables?|Sec\.|App\.|Eq\.|Prop\.|Def\.|Thm\.)"
PLACES = re.compile(rf"\b{PLACE} [A-Z]?\.?\d[\d.]*((-|, | and | to )(?!0\.)[A-Z]?\.?\d[\d.]*)*")
NUMBER = re.compile(r"(?<![\w.−-])[−-]?\.?\d[\d.,]*")


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


def prose(template):
    """A template without its look-ups, the names of places in papers, and what may be typed."""
    text = re.sub(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", " ", template.read_text(), flags=re.S)
    for phrase in TYPED:
        text = text.replace(phrase, " ")
    for pattern in (PLACES, SETTING, ROW):
        text = pattern.sub(" ", text)
    return text


@pytest.mark.first(1)
@pytest.mark.parametrize("path", findings.pages(), ids=str)
def test_the_pages_show_the_published_results_and_say_what_is_so(path):
    text = findings.page(path)
    assert path.read_text() == text, f"{path} is stale; render it with: python -m tools.findings"
    told = f"a sentence of {path} is no longer so: rewrite it in {findings.pages()[path]}"
    assert findings.CHANGED not in text, told


def test_the_findings_are_one_page_of_ten_sentences_with_links_to_pages_of_one_form():
    text = findings.PAGE.read_text()
    assert len(text.splitlines()) <= 90
    rows = re.findall(r"^\| \d+ \| \[[^]]+\]\((docs/results/[\w-]+\.md)#([\w-]+)\) \|", text, re.M)
    assert len(rows) == 10
    for name, anchor in rows:
        heads = re.findall(r"^## (.+)", Path(name).read_text(), flags=re.MULTILINE)
        assert anchor in {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}
    parts = ["`snakemake ", "**In one sentence.**", "**Why.**", "**Not tested.**"]
    templates, pages = (sorted(folder.iterdir()) for folder in findings.BY_QUESTION)
    assert [path.name for path in templates] == [path.name for path in pages]
    for path in pages:
        sections = path.read_text().split("\n## ")[1:] if path.stem != "limits" else []
        for section in sections:
            places = [section.find(part) for part in parts]
            assert [-1, *places] == sorted({-1, *places}), (path, section[:60])


def test_the_readme_counts_each_finding_once_and_has_at_most_110_lines():
    [counts] = [counts for paper, counts in findings.judged() if "Petzka" in paper]
    ids = {c["id"] for s in ("paper", "short", "demo") for c in petzka(s)}
    assert sum(sum(of.values()) for of in counts.values()) == len(ids)
    assert sum(counts["own"].values()) == len({c["id"] for c in petzka("paper")})
    text = findings.README.read_text()
    assert len(text.splitlines()) <= 110
    before, rendered, after = re.split("|".join(findings.MARKS), text)
    assert "[0." in rendered
    assert "[0." not in before + after  # no interval is typed


def petzka(scale):
    """The findings of a paper that were judged at this scale."""
    folder = plan.published_at(scale).verdicts("petzka2021", "").parent
    found = [c for path in folder.glob("*.json") for c in read_verdicts(path)["claims"]]
    return [c for c in found if group_of(c) in (*EVIDENCE, "not run")]


@pytest.mark.parametrize("template", [*findings.pages().values(), Path("report/form.md")], ids=str)
def test_no_result_is_typed(template):
    lines = [line for line in prose(template).splitlines() if NUMBER.search(line)]
    assert not lines, lines


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.894, "0.89"),
        (-0.5, "−0.50"),
        (-0.001, "0.00"),
        (60000, "60,000"),
        (4871.99, "4,871.99"),
        (float("nan"), "undefined"),
        (Interval(-0.43, -0.72, -0.04), "−0.43 [−0.72, −0.04]"),
        (Interval(0.002, 0.0007, 0.013), "0.002 [0.001, 0.01]"),
        (Interval(0.002, -0.2, 0.2), "0.00 [−0.20, 0.20]"),
        (Interval(0.5, np.nan, np.nan), "0.50 (no interval)"),
        (Interval(np.nan, np.nan, np.nan), "undefined"),
        ("holds", "holds"),
    ],
)
def test_numbers_are_printed_in_one_way(value, text):
    assert findings.as_text(value) == text


def made_up():
    """Two settings of three networks and one that diverged; the first checkpoint is small."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 7, 2)) + 5
    dims = ("run", "checkpoint", "samples")
    return xr.Dataset(
        {name: (dims, values[i][:, :, None]) for i, name in enumerate(("mls", "sharpness"))},
        coords={
            "checkpoint": [0, 100],
            "samples": ["train"],
            "setting": ("run", ["a"] * 3 + ["b"] * 4),
            "lr": ("run", [0.1] * 3 + [0.2] * 4),
            "seed": ("run", [0, 1, 2, 0, 1, 2, 3]),
            "diverged": ("run", [False] * 6 + [True]),
        },
    )


@pytest.fixture
def networks():
    return PublishedNetworks(Networks.of("made-up", made_up().assign_attrs(experiment="made-up")))


def test_correlations_are_those_of_the_networks_that_did_not_diverge(networks):
    """Over all pairs, or those of a setting."""
    x, y = (made_up()[name].values[:6, -1, 0].reshape(2, 3) for name in ("mls", "sharpness"))
    inside = [(v - v.mean(1, keepdims=True)).ravel() for v in (x, y)]
    taus = [kendalltau(*pair).statistic for pair in zip(x, y, strict=True)]
    for kind, rho, tau in (
        ("pooled", np.corrcoef(x.ravel(), y.ravel())[0, 1], kendalltau(x, y).statistic),
        ("within", np.corrcoef(*inside)[0, 1], np.mean(taus)),
    ):
        found = networks.rho("mls", "sharpness", kind)
        assert found.value == pytest.approx(rho)
        assert found.low <= found.value <= found.high
        assert networks.tau("mls", "sharpness", kind).value == pytest.approx(tau)


def test_quantities_at_the_end_and_at_an_iteration_and_their_spread(networks):
    mls = made_up()["mls"].values[:6, :, 0]
    assert networks.mean("mls") == networks.mean("mls", at=100) == pytest.approx(mls[:, 1].mean())
    assert networks.mean("root mls", at=0) == pytest.approx(np.sqrt(mls[:, 0]).mean())
    assert networks.mean("mls", at="growth") == pytest.approx((mls.max(1) / mls[:, 0]).mean())
    assert networks.least("mls") == mls[:, 1].min()
    squares = sum(((part - part.mean()) ** 2).sum() for part in (mls[:3, 1], mls[3:, 1]))
    assert networks.spread("mls") == pytest.approx(np.sqrt(squares / (6 - 2)))
    fitted = made_up().assign_coords(fitted=("run", [0.0, 100, np.nan, 0, 0, 100, 0]))
    early = PublishedNetworks(Networks.of("fitted", fitted))
    expected = [mls[0, 0], mls[1, 1], np.nan, mls[3, 0], mls[4, 0], mls[5, 1]]
    np.testing.assert_array_equal(early.values("mls", at="first fit"), expected)
    a, b = networks.where(lr=0.1), networks.where(lr=0.2)
    assert (a.count, b.count, b.left_out) == (3, 3, 1)
    assert findings.over(a, b, "mls").value == pytest.approx(mls[:3, 1].mean() - mls[3:, 1].mean())


@pytest.fixture
def published_csv(tmp_path, monkeypatch):
    """Where the CSV of every published figure is."""
    path = tmp_path / "fig1.csv"
    monkeypatch.setattr(
        findings.plan, "published_at", lambda _: SimpleNamespace(figure=lambda *_: path)
    )
    return path


def test_a_number_with_its_interval_and_cells_that_are_empty(published_csv):
    published_csv.write_text("group,tau,low,high\n,0.2,0.1,0.3\nmixup,-0.2,-0.4,0\nnone,,,\n")

    def tau(group: str) -> str:
        return findings.as_text(findings.estimate("short", "made_fig1", "tau", group=group))

    assert tau("mixup") == "−0.20 [−0.40, 0.00]"
    assert tau("") == "0.20 [0.10, 0.30]"
    assert tau("none") == "undefined"


def test_sides_of_zero_on_which_intervals_are(published_csv):
    published_csv.write_text(
        "measure,grid,low,high,outcome\n"
        "both-up,a,0.1,0.2,error\nboth-up,b,0.3,0.4,error\n"
        "both-down,a,-0.2,-0.1,error\nboth-down,b,-0.4,-0.1,error\n"
        "opposite,a,-0.2,-0.1,error\nopposite,b,0.1,0.4,error\n"
        "open,a,-0.2,0.1,error\nopen,b,0.1,0.4,error\n"
        "undefined,a,,,error\nundefined,b,0.1,0.4,error\n"
        "in one,a,0.1,0.4,error\n"
        "elsewhere,a,0.1,0.4,gap\nelsewhere,b,0.1,0.4,gap\n"
    )
    found = findings.sides("short", "made_fig1", "measure", "grid", outcome="error")
    assert found == findings.SignCounts(compared=6, same=2, opposite=1)
    with pytest.raises(StoreError, match="no column 'gird'; did you mean 'grid'"):
        findings.sides("short", "made_fig1", "measure", "gird")


def test_a_claim_is_quoted_with_its_verdicts_on_all_evidence_and_by_other_readings():
    row = findings.claims("chen2026_figH8 chen2026_figH7", "c6")
    [record] = [c for c in _records("paper", "figH8") if c["id"].endswith("/c6")]
    assert f"| {record['quote']} (" in row
    assert f"| {record['text']} `c6` | " in row
    of = record["evidence"][0]
    number = findings.as_text(Interval(of["value"], of["low"], of["high"])) + f", n = {of['n']}"
    assert f"figH8: **{record['verdict']}** (own; {number}; by *accuracies* " in row
    assert row.count("(reduced") == 2
    assert "stand-in" not in row
    with pytest.raises(StoreError, match="no claim c99 of chen2026_figH8 is published"):
        findings.claims("chen2026_figH8", "c99")


def _records(scale, figure):
    return read_verdicts(plan.published_at(scale).verdicts("chen2026", figure))["claims"]


@pytest.mark.parametrize(
    ("value", "side", "agrees"),
    [
        (Interval(0.2, 0.1, 0.3), "+", True),
        (Interval(0.2, 0.1, 0.3), "-", False),
        (Interval(0.2, -0.1, 0.3), "0", True),
        (Interval(0.2, -0.1, 0.3), "+", False),
        (Interval(0.2, np.nan, np.nan), "+", False),
        (-0.2, "-", True),
        ("holds", "holds", True),
        ("undecided", "holds", False),
    ],
)
def test_what_is_no_longer_as_a_sentence_says_is_marked(value, side, agrees):
    told = findings.said(value, side)
    assert told == findings.as_text(value) + ("" if agrees else findings.CHANGED)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda n: n.mean("msl"), "made-up has no msl$"),
        (lambda n: n.mean("mls", samples="test"), "has no samples test$"),
        (lambda n: n.mean("mls[last-layer]"), "has no labels in mls last-layer$"),
        (lambda n: n.where(lr=0.3), r"no network has \{'lr': 0.3\}"),
        (lambda n: n.rho("mls", "sharpness", "inside"), "no kind of correlation 'inside'"),
        (lambda _: findings.table("demo", "mpl-grid"), "did you mean 'mlp-grid'"),
        (
            lambda _: findings.verdict("demo", "chen2026_figH7/c99"),
            "no claim .* at scale demo; did",
        ),
        (
            lambda _: findings.evidence("demo", "chen2026_figH7/c6", "nonsense"),
            "0 quantities contain",
        ),
        (lambda _: findings.cell("short", "chen2026_fig2", "men"), "no column 'men'"),
    ],
)
def test_what_is_not_there_is_named(networks, ask, sentence):
    with pytest.raises((StoreError, NotEligible), match=sentence):
        ask(networks)


def test_a_mistake_in_the_text_is_named_with_its_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="run flatlab in the project's folder"):
        findings.render(findings.TEMPLATE)
    (tmp_path / "report").mkdir()
    for mistake in ("{{ verdict('demo', 'chen1999_fig1/c1') }}", "{{ nonsense }}", "{% if %}"):
        findings.TEMPLATE.write_text(f"# Findings\n\n{mistake}\n")
        with pytest.raises(StoreError, match=r"report/findings\.md:3: "):
            findings.render(findings.TEMPLATE)
