"""Families that a grid measures on the final weights alone."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
import yaml

from flatlab.core import store
from flatlab.data import load
from flatlab.lab import plan
from flatlab.lab.execution import grid as execution
from flatlab.lab.jobs.standalone import Named
from flatlab.lab.train import train_packs
from tests.lab.kinds.grid.grids import GRID

SMALL = {
    "data": {"set": "digits"},
    "network": {"width": 8, "depth": 2},
    "training": {"iterations": 9},
    "checkpoints": {"dense": [0, 4], "seeds": ["0-1"]},
    "measure": {
        "families": ["accuracy", "geometry", "jacobian"],
        "samples": {"train": {"split": "train", "size": 20, "seed": 0}},
        "diverged_below": None,
    },
}


@pytest.fixture
def grids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[plan.Experiment]:
    """The grid, and one that measures all on every checkpoint."""
    monkeypatch.chdir(tmp_path)
    found = []
    for key, at_the_end in (("some-grid", ["jacobian"]), ("other-grid", [])):
        measure = {**SMALL["measure"], "at_the_end": at_the_end}
        scales = {**GRID["scales"], "demo": {**SMALL, "measure": measure}}
        content = {**GRID, "settings": [{"lr": 0.1, "batch_size": 20}], "seeds": ["0-1", 2]}
        Path(f"{key}.yaml").write_text(yaml.safe_dump({**content, "scales": scales}))
        found.append(plan.load_experiment(tmp_path, key, "demo", find=None))
    return found


def measured(grid: plan.Experiment, raw: xr.Dataset, pack: str, family: str) -> xr.Dataset:
    job = grid.measuring(pack, family)
    [trained] = train_packs(raw, [grid.training(pack).settings])
    for name in ("weights", "dense"):
        store.save_weights(grid.weights(pack)[name], *getattr(trained, name))
    store.save_dataset(job.inputs["data"], raw)
    params = SimpleNamespace(settings=job.settings)
    running = SimpleNamespace(input=Named(job.inputs), params=params, config={}, device="cpu")
    return execution.measure(running)


def test_they_have_the_values_of_the_last_checkpoint(grids: list[plan.Experiment]) -> None:
    raw = load("digits")
    ours, all_of_them = (measured(grid, raw, "lr0.1-b20-s0-1", "jacobian") for grid in grids)
    assert all_of_them["checkpoint"].values.tolist() == [0, 4, 9]
    assert ours["checkpoint"].values.tolist() == [9]
    xr.testing.assert_identical(ours, all_of_them.sel(checkpoint=[9]))
    grid, full = grids
    parts = [measured(grid, raw, pack, family) for pack in grid.packs for family in grid.families]
    table = execution.tabulate(parts, grid.tabulating(full).settings)
    there = table["jacobian_norm"].notnull().values.reshape(3, 3)
    assert there.tolist() == [[False, False, True]] * 3
    assert np.isfinite(table["root_sharpness"].values[:2]).all()


def test_packs_without_dense_checkpoints_keep_their_jobs(grids: list[plan.Experiment]) -> None:
    """So that files that exist stay valid; the other jobs do not read dense checkpoints."""
    for pack in grids[0].packs:
        for family in grids[0].families:
            job, other = (grid.measuring(pack, family) for grid in grids)
            assert (job.settings, job.code) == (other.settings, other.code)
            alone = (pack, family) == ("lr0.1-b20-s0-1", "jacobian")
            assert ("dense" in job.inputs) != alone
            assert "dense" in other.inputs
            assert (job.work < other.work) == alone
