"""The claims of all papers: each of a figure of its own."""

from __future__ import annotations

import importlib
import os
import re
import unicodedata
from pathlib import Path

import pytest
import xarray as xr

from flatlab.lab import plan
from flatlab.lab.claims import verify

ROOT = Path(__file__).resolve().parents[3]
FIGURES: dict[str, set[str]] = {}
for _figure in plan.figures():
    FIGURES.setdefault(_figure.paper, set()).add(_figure.key)
WITH_CLAIMS = sorted(
    paper for paper in FIGURES if (ROOT / "papers" / paper / "claims.py").is_file()
)
PUBLICATIONS = [paper for paper in WITH_CLAIMS if paper != "beyond"]
"""The statements of `beyond` are this project's own."""


def test_claims_are_of_papers_that_have_figures():
    assert {"chen2024", "chen2026", "beyond"} <= {*WITH_CLAIMS} <= {*FIGURES}


@pytest.mark.parametrize("paper", WITH_CLAIMS)
def test_claims_are_of_figures_that_the_paper_has_here(paper):
    claims = importlib.import_module(f"flatlab.papers.{paper}.claims").CLAIMS
    assert claims
    assert {*claims} <= FIGURES[paper]


@pytest.mark.parametrize("figure", sorted(plan.targets()))
def test_without_tables_no_claim_of_any_figure_is_run_and_each_says_why(figure):
    for claim in verify(figure, {})["claims"]:
        assert claim["verdict"] == "not run"
        assert "not among the tables" in claim["reason"]


@pytest.mark.parametrize("target", ["beyond_fig1", "chen2026_fig99"])
def test_a_figure_without_claims_has_verdicts_on_nothing(target):
    table = xr.Dataset(attrs={"scale": "demo"})
    expected = {"target": target, "claims": [], "tables": {"mlp-grid": {"scale": "demo"}}}
    assert verify(target, {"mlp-grid": table}) == expected


def claims_of(*papers):
    """Claims by their ids."""
    return {
        f"{paper}_{figure}/{key}": claim
        for paper in papers
        for figure, claims in importlib.import_module(
            f"flatlab.papers.{paper}.claims"
        ).CLAIMS.items()
        for key, claim in claims.items()
    }


THEOREMS = {
    "andriushchenko2023_fig1/c4",
    *("chen2024_figD4/c1", "chen2026_figH6/c1"),
    *("chen2026_fig4/c3", "chen2026_figH8/theorem"),
    *(f"petzka2021_fig7/c1{reading}" for reading in ("", "-standardized", "-code")),
    "chen2026_figH8/inequalities",
    *("beyond_fig8/c1", "beyond_fig8/c2", "beyond_fig8/c3", "beyond_fig10/figH6-c1"),
}


def test_findings_theorems_and_repetitions_are_told_apart():
    claims = claims_of(*WITH_CLAIMS)
    assert {name for name, claim in claims.items() if claim.nature == "theorem"} == THEOREMS
    assert {claim.nature for claim in claims.values()} == {"finding", "theorem", "check"}
    repeated = {name: claim.repeats.split(", ") for name, claim in claims.items() if claim.repeats}
    assert len(repeated) > 10
    for name, others in repeated.items():
        for other in others:
            assert other != name
            assert claims[other].nature == claims[name].nature
    # a finding that is counted once: repetitions do not go in circles
    assert not {other for others in repeated.values() for other in others} & {*repeated}


@pytest.mark.parametrize("paper", PUBLICATIONS)
def test_every_claim_quotes_the_paper_and_says_where(paper):
    for name, claim in claims_of(paper).items():
        assert claim.text, name
        assert len(claim.quote.replace("[...]", "").split()) >= 5, name
        assert re.search(r"^(Sec|App|Eq|Prop)\. |^caption of Fig\. |^abstract", claim.source), name


def letters(text):
    """A text without white space, markup and notation of mathematics: letters and digits."""
    plain = unicodedata.normalize("NFKC", text)
    return re.sub(r"\\(?!max)[A-Za-z]+|[^A-Za-z0-9]", "", plain)


@pytest.mark.skipif("FLATLAB_PAPERS" not in os.environ, reason="FLATLAB_PAPERS names no folder")
@pytest.mark.parametrize("paper", PUBLICATIONS)
def test_quotes_are_the_papers_own_words(paper):
    """In the order of the text; "[...]" stands for what is left out."""
    text = letters((Path(os.environ["FLATLAB_PAPERS"]) / f"{paper}.txt").read_text())
    for name, claim in claims_of(paper).items():
        pieces = [letters(piece) for piece in claim.quote.split("[...]")]
        assert any(pieces), name
        assert re.search(".*?".join(pieces), text), f"{name}: {claim.quote}"
