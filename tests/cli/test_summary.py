"""`flatlab summary`: a table of what is built, and the claims of what is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from flatlab.cli import main
from flatlab.core import store
from flatlab.lab.claims.records import FigureVerdicts
from tests.synthetic.verdicts import claim, verdicts, write_verdicts

DEMO = "results/demo"


def judged(key: str, verdict: str = "undecided") -> FigureVerdicts:
    record = claim(f"chen2026_{key}/c1", verdict, "stand-in", reason="why", p=0.3)
    return verdicts(f"chen2026_{key}", record)


def test_figures_whose_verdicts_differ_from_the_published_ones_are_marked(
    project: Path, capsys: pytest.CaptureFixture
) -> None:
    for key, before, after in (("figH8", "holds", "holds"), ("figH9", "holds", "fails")):
        write_verdicts("results/published/demo", judged(key, before))
        write_verdicts(DEMO, judged(key, after), picture=True)
    assert main(["summary"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    rows = [line.split() for line in lines if line.startswith("chen2026_") and "stand-in" in line]
    assert [row[:2] for row in rows] == [["chen2026_figH8", "stand-in"], ["chen2026_figH9", "*"]]
    assert "* verdicts differ from the published ones" in lines


def test_the_summary_is_a_table_that_fits_a_terminal_and_says_where_to_look(
    project: Path, capsys: pytest.CaptureFixture
) -> None:
    write_verdicts(DEMO, judged("figH8"), picture=True)
    assert main(["summary"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    [row] = (line.split() for line in text.splitlines() if line.startswith("  chen2026_figH8 "))
    assert row == ["chen2026_figH8", "stand-in", "1"]
    for part in (
        "results/demo/figures",
        "1 targets built, 10 not",
        "not built: chen2026_fig2,",
        "build one with: snakemake chen2026_fig2",
        "flatlab summary chen2026_figH8",
    ):
        assert part in " ".join(text.split())


def test_the_summary_of_a_figure_or_a_paper_has_its_claims(
    project: Path, capsys: pytest.CaptureFixture
) -> None:
    write_verdicts(DEMO, judged("figH8"), picture=True)
    assert main(["summary", "chen2026_figH8"]) == 0
    text = capsys.readouterr().out
    for part in (
        "mlp-grid: 99 mlp (width 64) networks on digits; ",
        "; 1 left out (diverged or did not fit); evidence: ",
        "undecided  c1",
        "why",
        "results/demo/figures/chen2026/figH8.pdf",
        "results/demo/verdicts/chen2026/figH8.json",
    ):
        assert part in text
    assert main(["summary", "chen2026"]) == 0
    assert capsys.readouterr().out == text


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("chen2026_fig2", "chen2026_fig2 is not built; build it with: snakemake chen2026_fig2"),
        ("petzka2021", "petzka2021 is not built; build it with: snakemake petzka2021"),
        ("chen2026_figH88", "unknown target 'chen2026_figH88'; did you mean 'chen2026_figH8'?"),
    ],
)
def test_a_summary_of_what_is_not_there_is_a_sentence(
    name: str, sentence: str, project: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["summary", name]) == 1
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert told.err.startswith(f"flatlab: {sentence}")


def test_a_figure_without_measured_packs_is_refused_with_the_experiments_that_have_none(
    project: Path, capsys: pytest.CaptureFixture
) -> None:
    """Of the three grids of beyond_fig2, one has a measured pack."""
    (project / "config.yaml").write_text("packs: measured\n")
    store.replace(
        project / "results/demo/metrics/mlp-grid/accuracy+geometry" / "lr0.05-b20-s0-4.zarr.zip",
        b"",
    )
    reason = "needs packs of these experiments, of which none is measured"
    for name, lacking in (
        ("beyond_fig2", "vgg-grid, lenet-grid"),
        ("petzka2021_fig3", "locally-constant-labels"),
        ("petzka2021", "locally-constant-labels, representativeness, minima-grid"),
    ):
        assert main(["summary", name]) == 1
        assert capsys.readouterr().err.startswith(f"flatlab: {name} {reason}: {lacking}")
    for name in ("chen2026_figH8", "chen2026_fig4"):  # the latter has panels of each grid
        assert main(["summary", name]) == 1
        assert f"{name} is not built" in capsys.readouterr().err
