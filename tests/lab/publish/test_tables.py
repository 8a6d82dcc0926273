"""The published tables say what they hold, and run times belong to networks of today."""

from __future__ import annotations

from pathlib import Path

import pytest

from flatlab.core import store
from flatlab.lab import figures as plotting
from flatlab.lab import plan
from flatlab.lab.publish import forecast

PUBLISHED = Path(plan.__file__).parents[2] / "results" / "published"
TABLES = sorted(
    path for path in PUBLISHED.glob("*/tables/*.zarr.zip") if "correlations" not in path.name
)


@pytest.mark.parametrize("path", TABLES, ids=lambda path: f"{path.parts[-3]}-{path.name}")
def test_every_published_table_says_what_it_holds(path):
    table = store.load_dataset(path)
    about = table.attrs
    assert (about["experiment"], about["scale"]) == (path.name.split(".")[0], path.parts[-3])
    assert (about["evidence"] == "own") == (about["differs"] == [])
    text = plotting.about(table)
    words = {
        "own": "",
        "reduced": "; reduced from the paper's ",
        "stand-in": "; they stand in for ",
    }
    assert words[about["evidence"]] in text
    assert ("paper's" in text) == (about["evidence"] != "own")
    if "diverged" in table.coords:
        diverged = int(table["diverged"].sum())
        assert text.startswith(f"{table.sizes['run'] - diverged} ")
        slow = about.get("not_converged", 0)
        for reason, count in {
            "diverged or did not fit": diverged - slow,
            "did not converge": slow,
        }.items():
            assert (f"{count} left out ({reason})" in text) == (count > 0)


@pytest.mark.parametrize("scale", plan.published_scales())
def test_every_network_that_was_timed_is_one_of_its_scale_today(scale):
    """So that `flatlab estimate` finds what is published, under today's labels."""
    chosen = plan.Plan({"scale": scale}, PUBLISHED.parents[1] / "experiments")
    grids = (each for each in chosen.experiments.values() if each.kind == "grid")
    labels = {label for grid in grids for label in grid.networks}
    records = store.load_json(PUBLISHED / scale / forecast.PUBLISHED)
    timed = {network for _, network, _ in forecast.from_records(records) if network}
    assert timed
    assert timed <= labels
    seconds = sum(record["seconds"] for record in records)
    found = sum(seconds for seconds, _, _ in forecast.from_records(records).values())
    assert found == pytest.approx(seconds)
