"""The section of FINDINGS.md on inner layers, which appears once its figures are published."""

import re
from pathlib import Path

import pytest

from flatlab.lab.publish import findings
from flatlab.lab.publish.findings import Interval, PublishedNetworks
from flatlab.lab.tables.networks import Networks, ResultTables
from flatlab.papers.beyond import fig9
from flatlab.papers.beyond._bottleneck import GRID
from flatlab.papers.beyond.claims import CLAIMS
from papers.beyond.tests.bottleneck_tables import table

ROOT = Path(__file__).resolve().parents[3]
TITLE = "## Inner layers and neural collapse"
OF_LAYERS = {figure: CLAIMS[figure] for figure in ("fig7", "fig8", "fig9")}


@pytest.fixture
def page(monkeypatch):
    """FINDINGS.md as if a made-up table of the grid were published."""
    monkeypatch.chdir(ROOT)
    made = table().assign_attrs(samples="10,000")
    rows = fig9.frame({}, ResultTables({GRID: made}))
    tables, verdicts, estimates = findings.table, findings.verdict, findings.estimate

    def table_of(scale, experiment):
        if experiment != GRID:
            return tables(scale, experiment)
        return PublishedNetworks(Networks.of(GRID, made))

    def verdict(scale, claim):
        figure, key = claim.removeprefix("beyond_").split("/")
        if figure not in OF_LAYERS:
            return verdicts(scale, claim)
        return OF_LAYERS[figure][key].judge(ResultTables({GRID: made})).outcome

    def estimate(scale, target, column, **row):
        if target != "beyond_fig9":
            return estimates(scale, target, column, **row)
        chosen = rows
        for name, value in row.items():
            chosen = chosen[chosen[name] == value]
        assert len(chosen) == 1, row
        return Interval(*chosen.iloc[0][[column, "low", "high"]])

    monkeypatch.setattr(findings, "published", lambda scale, *targets: True)
    monkeypatch.setattr(findings, "table", table_of)
    monkeypatch.setattr(findings, "verdict", verdict)
    monkeypatch.setattr(findings, "estimate", estimate)
    return findings.render()


def test_it_is_there_with_the_results(page):
    assert page.count(TITLE) == 1
    section = page[page.index(TITLE) :].split("\n## ")[0]
    assert "These are 120 perceptrons on 10,000 images" in section
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + 8 + 1 + 17 + 1 + 6 + 1 + 6
    assert "| 4, cross-entropy | 15 | 15 |" in section
    assert "| 128, cross-entropy | 15 | 15 |" in section
    judged = re.findall(r"\| (holds|fails|undecided) \|", section)
    assert len(judged) == 17
    assert judged.count("holds") >= 14  # what is made up follows one trait
    assert "undefined" not in section


def test_every_statement_has_a_row():
    text = (ROOT / findings.TEMPLATE).read_text()
    for figure, claims in OF_LAYERS.items():
        for key in claims:
            assert f'"{figure}/{key}"' in text, (figure, key)


def test_it_is_not_there_before(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert findings.published("short", "beyond_fig4", "beyond_fig5")
    assert not findings.published("short", "beyond_fig4", "beyond_fig99")
    there = findings.published("short", "beyond_fig7", "beyond_fig8", "beyond_fig9")
    assert (TITLE in findings.PAGE.read_text()) == there
