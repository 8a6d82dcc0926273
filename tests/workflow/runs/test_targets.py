"""Every figure and paper is a target; any other name is refused in one sentence."""

import shutil
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.workflow
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def planned(sources, tmp_path_factory):
    """A laboratory without results, in which nothing is run."""
    return sources.copy(tmp_path_factory.mktemp("planned") / "lab")


@pytest.mark.more
def test_the_targets_are_all_the_papers_and_the_figures_and_build_what_they_need(planned):
    """From nothing: the data, the networks, their table, the figure and its verdicts."""
    listed = planned.snakemake("--list-target-rules").output.splitlines()
    names = [line.split()[0] for line in listed if not line.startswith("Using ")]
    targets = ("chen2026", "chen2026_figH8")
    assert names == ["all", *targets, "published"]
    everything = {"prepare digits", *planned.jobs_from_training(*planned.PACKS)}
    planned.plans_exactly(*(everything - {"all", "score"}), *targets, targets=targets)


PACK = "results/demo/models/mlp-grid/lr0.05-b20-s0-2.safetensors"
REFUSED = {
    "petzka2021_fig5": "petzka2021_fig5 is not part of this version",
    "chen2026_figH18": "unknown target 'chen2026_figH18'; did you mean 'chen2026_figH8'?",
    "chen2027": "unknown target 'chen2027'; did you mean 'chen2026'?",
    "--config scale=huge": "scale: unknown value 'huge'; Known: demo, paper, short",
    PACK: "unknown pack 'lr0.05-b20-s0-2' of mlp-grid; did you mean 'lr0.05-b20-s0-1'?",
}
"""Files of unknown figures and experiments are refused where this pack is, by the same function."""


@pytest.mark.first(1)
@pytest.mark.parametrize("asked", REFUSED)
def test_what_is_unknown_is_refused_in_a_sentence(planned, asked):
    output = planned.snakemake("--dry-run", *asked.split(), succeeds=False).output
    [line] = [line for line in output.splitlines() if line.startswith("flatlab: ")]
    assert REFUSED[asked] in line
    assert "Traceback" not in output
    assert "Exception" not in output


@pytest.mark.more
def test_a_paper_that_the_configuration_does_not_name_is_still_a_target(fresh):
    (fresh / "config.yaml").write_text("papers: [petzka2021]\n")
    fresh.declare("petzka2021", "fig4")
    path = "papers/petzka2021/experiments/representativeness.yaml"
    shutil.copy2(ROOT / path, fresh / path)
    assert "draw figH8" in fresh.snakemake("--dry-run", "chen2026").jobs
    assert "draw figH8" not in fresh.snakemake("--dry-run").jobs


@pytest.mark.more
def test_the_report_shows_the_figure(lab):
    lab.snakemake("--report", "report.zip")
    with zipfile.ZipFile(lab / "report.zip") as archive:
        pictures = [archive.read(name) for name in archive.namelist() if name.endswith(".svg")]
    assert (lab / f"{lab.FIGURE}.svg").read_bytes() in pictures
