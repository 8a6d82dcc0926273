"""A figure of a simulation: its table and its verdicts."""

import json
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.workflow
ROOT = Path(__file__).resolve().parents[3]
FILE = "papers/petzka2021/experiments/representativeness.yaml"
TABLE = "results/demo/tables/representativeness.zarr.zip"
TARGET = "petzka2021_fig4"
ANALYSIS = ("table representativeness", "draw fig4", "verify fig4", TARGET)
JOBS = ("measure representativeness representativeness all", *ANALYSIS)


def repeat(lab, count):
    """Let the laboratory's simulation repeat so often, at two separations."""
    content = yaml.safe_load((ROOT / FILE).read_text())
    settings = {"repeats": count, "separations": [0.5, 5.0]}
    content["scales"]["demo"] = {"settings": settings}
    (lab / FILE).write_text(yaml.safe_dump(content, sort_keys=False))


@pytest.fixture
def with_simulation(fresh):
    """The laboratory with the figure of a small simulation in the place of that of a grid."""
    fresh.declare("chen2026")
    repeat(fresh, 2)
    fresh.declare("petzka2021", "fig4")
    (fresh / "config.yaml").write_text("papers: [petzka2021]\n")
    return fresh


@pytest.mark.long
def test_a_figure_of_a_simulation_needs_its_table_and_no_network(with_simulation):
    lab = with_simulation
    lab.plans_exactly(*JOBS[:2], targets=(TABLE,))
    lab.runs_exactly(*JOBS, targets=(TARGET,))
    verdicts = json.loads((lab / "results/demo/verdicts/petzka2021/fig4.json").read_text())
    assert verdicts["tables"]["representativeness"]["extent"].startswith("2 class separations")
    repeat(lab, 3)
    lab.plans_exactly(*JOBS, targets=(TARGET,))
