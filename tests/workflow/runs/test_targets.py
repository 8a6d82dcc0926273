"""Every figure and paper is a target; any other name is refused in one sentence."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.workflow
ROOT = Path(__file__).resolve().parents[3]


def test_the_targets_are_all_the_papers_and_the_figures(fresh):
    listed = fresh.snakemake("--list-target-rules").output.splitlines()
    targets = [line.split()[0] for line in listed if not line.startswith("Using ")]
    assert targets == ["all", "chen2026", "chen2026_figH8", "published"]


def test_a_paper_and_a_figure_build_all_that_they_need(fresh):
    """From nothing: the data, the networks, their table, the figure and its verdicts."""
    targets = ("chen2026", "chen2026_figH8")
    everything = {"prepare digits", *fresh.jobs_from_training(*fresh.PACKS)}
    fresh.plans_exactly(*(everything - {"all", "score"}), *targets, targets=targets)


REFUSED = {
    "figure that is not built": (
        ["petzka2021_fig5"],
        "petzka2021_fig5 is not part of this version",
    ),
    "figure that needs more": (
        ["macdonald2023_fig13"],
        "not part of this version; it needs CIFAR-100",
    ),
    "misspelt paper": (
        ["chen2062_figH8"],
        "unknown target 'chen2062_figH8'; did you mean 'chen2026_figH8'?",
    ),
    "misspelt figure": (
        ["chen2026_figH18"],
        "unknown target 'chen2026_figH18'; did you mean 'chen2026_figH8'?",
    ),
    "misspelt name of a paper": (
        ["chen2027"],
        "unknown target 'chen2027'; did you mean 'chen2026'?",
    ),
    "figure without its paper": (
        ["figH8"],
        "unknown target 'figH8'; did you mean 'chen2026_figH8'?",
    ),
    "underscore too many": (["all_"], "unknown target 'all_'; did you mean 'all'?"),
    "configuration": (
        ["--config", "scale=huge"],
        "scale: unknown value 'huge'; Known: demo, paper, short",
    ),
    "file of a figure": (
        ["results/demo/figures/chen2026/figH9.pdf"],
        "unknown figure 'chen2026_figH9'; did you mean 'chen2026_figH8'?",
    ),
    "file of a pack": (
        ["results/demo/models/mlp-grid/lr0.05-b20-s0-2.safetensors"],
        "unknown pack 'lr0.05-b20-s0-2' of mlp-grid; did you mean 'lr0.05-b20-s0-1'?",
    ),
}
ALIKE = (
    *("figure that needs more", "misspelt paper", "file of a figure"),
    *("figure without its paper", "underscore too many"),
)
"""Each is refused where another one is, by the same function."""


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.long] * (case in ALIKE)) for case in REFUSED]
)
def test_what_is_unknown_is_refused_in_a_sentence(fresh, case):
    arguments, sentence = REFUSED[case]
    output = fresh.snakemake("--dry-run", *arguments, succeeds=False).output
    [line] = [line for line in output.splitlines() if line.startswith("flatlab: ")]
    assert sentence in line
    assert "Traceback" not in output
    assert "Exception" not in output


def test_a_paper_that_the_configuration_does_not_name_is_still_a_target(fresh):
    (fresh / "config.yaml").write_text("papers: [petzka2021]\n")
    fresh.declare("petzka2021", "fig4")
    shutil.copy2(ROOT / "experiments/representativeness.yaml", fresh / "experiments")
    assert "draw figH8" in fresh.snakemake("--dry-run", "chen2026").jobs
    assert "draw figH8" not in fresh.snakemake("--dry-run").jobs


def test_the_report_shows_the_figure(lab):
    lab.snakemake("--report", "report.zip")
    with zipfile.ZipFile(lab / "report.zip") as archive:
        pictures = [archive.read(name) for name in archive.namelist() if name.endswith(".svg")]
    assert (lab / f"{lab.FIGURE}.svg").read_bytes() in pictures
