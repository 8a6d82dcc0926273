"""A figure of a study: its table, its verdicts and its place among what is published."""

from __future__ import annotations

import json
import re
import shutil

import pytest

pytestmark = pytest.mark.workflow
STUDY = "flatlab/simulations/representativeness.py"
TABLE = "results/demo/tables/representativeness.zarr.zip"


@pytest.fixture
def with_study(fresh):
    """The laboratory with one more figure, of a small study, in the place of that of a grid."""
    shutil.rmtree(fresh / "flatlab/papers/chen2026")
    fresh.declare("petzka2021", "fig4")
    small = '"demo": {"repeats": 2, "separations": [0.5, 5.0]}'
    text, count = re.subn(r'"demo": \{[^}]*\}', small, (fresh / STUDY).read_text())
    assert count == 1
    (fresh / STUDY).write_text(text)
    return fresh


def test_a_figure_of_a_study_needs_its_table_and_no_network(with_study):
    lab = with_study
    jobs = ["study representativeness", "draw fig4", "verify fig4"]
    lab.runs_exactly(*jobs, "petzka2021_fig4", targets=("petzka2021_fig4",))
    verdicts = json.loads((lab / "results/demo/verdicts/petzka2021/fig4.json").read_text())
    assert verdicts["tables"]["representativeness"]["extent"].startswith("2 class separations")
    # Without one of the settings that it has, a study's table is another one.
    text = (lab / STUDY).read_text()
    (lab / STUDY).write_text(text.replace('"demo": {"repeats": 2', '"demo": {"repeats": 3'))
    lab.runs_exactly(*jobs, "petzka2021_fig4", targets=("petzka2021_fig4",))
    # A damaged table is named, and so is what makes it again.
    lab.damage(TABLE)
    shutil.rmtree(lab / "results/demo/figures")
    run = lab.snakemake("--cores", "1", "petzka2021_fig4", succeeds=False)
    assert f"{TABLE} is damaged" in run.output
    # Published and drawn again.
    lab.snakemake("--cores", "1", *run.remedy)
    lab.snakemake("--cores", "2")
    lab.finish(lab.start("summary", program="flatlab"))
    lab.finish(lab.start("publish", program="flatlab"))
    published = lab / "results/published/demo"
    assert (
        "study"
        in json.loads((published / "provenance.json").read_text())["representativeness"]["code"]
    )
    assert lab.snakemake("--cores", "1", "published").jobs == ["published", "redraw fig4"]
    redrawn = lab / "results/redrawn/demo/petzka2021/fig4.png"
    assert redrawn.read_bytes() == (published / "figures/petzka2021/fig4.png").read_bytes()


def test_a_study_is_no_grid(fresh):
    """The table of a study is made by the study; that of a grid with no such name, by none."""
    assert fresh.snakemake("--dry-run", TABLE).jobs == ["study representativeness"]
    unknown = "results/demo/tables/representativenes.zarr.zip"
    output = fresh.snakemake("--dry-run", unknown, succeeds=False).output
    assert "unknown grid 'representativenes'" in output
