"""What was published before all tables had the same attributes is read as if they had."""

from __future__ import annotations

from pathlib import Path

import pytest

from flatlab import estimate, plan, plotting, store
from flatlab.tables.published import with_current_names, with_tables

PUBLISHED = Path(plan.__file__).parents[2] / "results" / "published"
TABLES = sorted(
    path for path in PUBLISHED.glob("*/tables/*.zarr.zip") if "correlations" not in path.name
)
VERDICTS = sorted(PUBLISHED.glob("*/verdicts/*/*.json"))


@pytest.mark.parametrize("path", TABLES, ids=lambda path: f"{path.parts[-3]}-{path.name}")
def test_every_published_table_says_what_it_holds(path):
    key = path.name.removesuffix(".zarr.zip")
    before = store.load_dataset(path)
    table = with_current_names(before, key)
    assert table.attrs["experiment"] == key
    assert table.attrs["extent"]
    text = plotting.about(table)
    assert text.count("stands in") == bool(table.attrs["stands_in_for"])
    assert with_current_names(table, "another") is table
    rest = table.data_vars.keys() - ({"train_loss"} if "classification_loss" in table else set())
    assert table[sorted(rest)].equals(before[sorted(rest)])
    if "diverged" in table.coords:
        diverged = int(table["diverged"].sum())
        assert f"{table.sizes['run'] - diverged} {table.attrs['network']} networks" in text
        assert f"{diverged} diverged and left out" in text


@pytest.mark.parametrize("path", VERDICTS, ids=lambda path: "-".join(path.parts[-4:]))
def test_every_published_verdict_names_its_tables(path):
    before = store.load_json(path)
    now = with_tables(before)
    assert now["claims"] == before["claims"]
    assert now["tables"]
    assert {about["experiment"] for about in now["tables"].values()} == {*now["tables"]}
    assert {about["scale"] for about in now["tables"].values()} == {path.parts[-4]}
    assert with_tables(now) == now


@pytest.mark.parametrize("scale", plan.published_scales())
def test_every_network_that_was_timed_is_one_of_its_scale_today(scale):
    """So that `flatlab estimate` finds what is published, under today's labels."""
    chosen = plan.Plan({"scale": scale}, PUBLISHED.parents[1] / "experiments")
    grids = (each for each in chosen.experiments.values() if each.kind == "grid")
    labels = {label for grid in grids for label in grid.networks}
    records = store.load_json(PUBLISHED / scale / estimate.PUBLISHED)
    timed = {network for _, network, _ in estimate.from_records(records) if network}
    assert timed
    assert timed <= labels
    seconds = sum(record["seconds"] for record in records)
    found = sum(seconds for seconds, _, _ in estimate.from_records(records).values())
    assert found == pytest.approx(seconds)
