"""Further test sets as a dimension of a grid's table."""

from __future__ import annotations


import numpy as np
import pytest
import torch
from torch.nn import functional

from flatlab.data import corruptions, load
from flatlab.data._tensors import prepare
from flatlab.lab import plan
from flatlab.lab.plan.fingerprint import closure
from flatlab.lab.tables.runs import collect
from flatlab.lab.train import train_packs
from flatlab.metrics._measure_pack import measure_pack
from flatlab.networks import build
from tests.lab.kinds import experiments
from tests.lab.kinds.experiments import content_of, written

SETS = {
    "hard": {"severity": 5, "size": 56, "seed": 2},
    "foggy": {"corruptions": ["fog", "snow"], "severity": 1, "size": 20},
}

DEFAULTS = {"corruptions": "all", "source": "made", "seed": 0}


def grid_of(folder, scale="demo", **measure):
    """The perceptrons of the demo, trained for a few steps."""
    content = content_of("mlp-grid")
    content |= {"seeds": ["0-1"], "settings": [{"lr": 0.05, "batch_size": 20}]}
    content["checkpoints"] = {"dense": [0], "seeds": "all"}
    content["measure"] |= {"families": ["accuracy", "geometry"], "diverged_below": 0, **measure}
    demo = content["scales"]["demo"]
    demo |= {"checkpoints": {}, "measure": {}, "training": {"iterations": 40}}
    return experiments.load(written(folder, "mlp-grid", content), scale)


@pytest.fixture(scope="module")
def grids(tmp_path_factory):
    """The same grid with further test sets and without."""
    plain, more = (tmp_path_factory.mktemp(name) for name in ("plain", "more"))
    return grid_of(plain, more=["gaps"]), grid_of(more, more=["gaps"], test_sets=SETS)


@pytest.fixture(scope="module")
def results(grids):
    """The weights of the grid, and the tables with further test sets and without."""
    raw = load("digits")
    (pack,) = grids[0].packs
    (trained,) = train_packs(raw, [grids[0].training(pack).settings], "cpu")
    weights = [trained.weights, trained.dense]
    tables = []
    for grid in grids:
        stages = [grid.measuring(pack, family) for family in grid.families]
        parts = [measure_pack(weights, raw, stage.settings) for stage in stages]
        tables.append(collect(parts, grid.tabulating(grid).settings))
    return trained.weights[0], *tables


def test_the_table_has_the_losses_and_errors_of_each_test_set(results):
    arrays, _, table = results
    raw = load("digits")
    further = {
        name: corruptions.test_set(raw, DEFAULTS | chosen, "all", None)
        for name, chosen in SETS.items()
    }
    splits = prepare(raw, {"classes": "all", "scaling": "unit"}, further=further)
    model = build({"name": "mlp", "options": {"width": 64, "activation": "relu"}}, (1, 8, 8), 10)
    model = model.double()
    assert table["test_set"].values.tolist() == ["test", "hard", "foggy"]
    for number in range(2):
        model.load_state_dict({k: torch.from_numpy(a[number, -1]) for k, a in arrays.items()})
        here = table.isel(run=number, checkpoint=-1)
        for name, split in {"test": splits.test, **splits.further}.items():
            outputs = model(split.inputs).detach()
            loss = functional.mse_loss(outputs, split.targets, reduction="sum") / (2 * len(split))
            wrong = float((outputs.argmax(1) != split.labels).double().mean())
            found = here.sel(test_set=name)
            assert float(found["test_set_loss"]) == pytest.approx(float(loss), rel=1e-12)
            assert float(found["test_set_error"]) == pytest.approx(100 * wrong, rel=1e-12)
            outputs = model(splits.train.inputs).detach()
            of_training = float((outputs.argmax(1) != splits.train.labels).double().mean())
            gap = wrong - of_training
            assert float(found["test_set_error_gap"]) == pytest.approx(gap, rel=0, abs=1e-12)
    of_test = table["test_set_error_gap"].sel(test_set="test")
    assert np.array_equal(of_test, table["error_gap"])
    errors = table["test_set_error"].isel(checkpoint=-1)
    assert (errors.sel(test_set="hard") > errors.sel(test_set="test")).all()
    clean = table.isel(checkpoint=-1)["test_accuracy"]
    assert np.allclose(errors.sel(test_set="test"), 100 - clean, rtol=0, atol=1e-10)


def test_everything_else_is_as_without_them(results):
    _, plain, table = results
    further = {"test_set_loss", "test_set_error", "test_set_error_gap"}
    assert set(table.data_vars) - set(plain.data_vars) == further
    for name, array in plain.data_vars.items():
        assert table[name].drop_vars("test_set", errors="ignore").identical(array), name


def test_only_what_measures_them_depends_on_them(grids):
    plain, more = grids
    (pack,) = plain.packs
    assert plain.training(pack) == more.training(pack)
    assert plain.measuring(pack, "geometry") == more.measuring(pack, "geometry")
    stages = [grid.measuring(pack, "accuracy") for grid in grids]
    assert "test_sets" not in stages[0].settings
    assert stages[0].code != stages[1].code
    assert "flatlab.data.corruptions" not in closure("flatlab.metrics._measure_pack")
    assert "flatlab.data.corruptions.blur" in closure("flatlab.data.corruptions")


def test_other_test_sets_reduce_the_evidence(grids, tmp_path):
    plain, more = grids
    assert more.tabulating(plain).settings["about"]["evidence"] == "own"
    published = {**SETS, "hard": SETS["hard"] | {"source": "published", "size": 10_000}}
    found = more.tabulating(grid_of(tmp_path, test_sets=published)).settings["about"]
    assert found["evidence"] == "reduced"
    assert found["differs"] == [
        "hard test set, size: 56 instead of 10,000",
        "hard test set, source: made instead of published",
    ]
    lacking = plain.tabulating(more).settings["about"]["differs"]
    assert lacking == ["no hard test set", "no foggy test set"]
