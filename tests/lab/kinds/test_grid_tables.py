"""Tables of a grid: definitions of sharpness, further test sets, families at the end alone."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import xarray as xr
from torch.nn import functional

import flatlab
from flatlab.core import store
from flatlab.data import corruptions, load
from flatlab.data._tensors import prepare
from flatlab.families.sharpness import SMALLEST_RADII
from flatlab.lab.kinds.grid import measure, tabulate
from flatlab.lab.plan.fingerprint import closure
from flatlab.lab.train import train_packs
from flatlab.networks import build
from tests.lab.kinds import experiments
from tests.lab.kinds.experiments import changed, content_of, table_of, written

SETS = {
    "hard": {"severity": 5, "size": 56, "seed": 2},
    "foggy": {"corruptions": ["fog", "snow"], "severity": 1, "size": 20},
}
HOW = {"sharpness_steps": 3, "sharpness_draws": 2}
SCALED = {"classes": "all", "scaling": "unit"}
DEFAULTS = {"corruptions": "all", "source": "made", "seed": 0}


def grid_of(folder, **measure):
    """The perceptrons of the demo, trained for a few steps."""
    content = content_of("mlp-grid")
    content |= {"seeds": ["0-1"], "settings": [{"lr": 0.05, "batch_size": 20}]}
    content["checkpoints"] = {"dense": [0], "seeds": "all"}
    families = ["accuracy", "geometry", "sharpness"]
    content["measure"] |= {"families": families, "diverged_below": 0, **HOW, **measure}
    demo = content["scales"]["demo"]
    demo |= {"checkpoints": {}, "measure": {}, "training": {"iterations": 40}}
    return experiments.load(written(folder, "mlp-grid", content))


@pytest.fixture(scope="module")
def grids(tmp_path_factory):
    """The same grid with further test sets and without."""
    plain, more = (tmp_path_factory.mktemp(name) for name in ("plain", "more"))
    return grid_of(plain, more=["gaps"]), grid_of(more, more=["gaps"], test_sets=SETS)


@pytest.fixture(scope="module")
def results(grids):
    """The weights of the grid, and the tables with further test sets and without."""
    (plain, _), (more, trained) = (table_of(grid, load("digits")) for grid in grids)
    [pack] = trained.values()
    return pack.weights[0], plain, more


def network_of(arrays, run):
    """One as it was at the end."""
    model = build({"name": "mlp", "options": {"width": 64, "activation": "relu"}}, (1, 8, 8), 10)
    model = model.double()
    model.load_state_dict({name: torch.from_numpy(a[run, -1]) for name, a in arrays.items()})
    return model


def test_a_table_has_every_definition_of_sharpness_and_radius_of_every_run(results):
    arrays, _, table = results
    found = table["sharpness_at_radius"]
    assert found.dims == ("run", "checkpoint", "samples", "definition", "radius_index")
    assert list(table["definition"].values) == list(SMALLEST_RADII)
    assert found.shape == (2, 2, 1, 12, 4)
    assert np.isfinite(found).all()
    assert found.attrs["units"] == "loss"
    assert table["sharpness"].dims == ("run", "checkpoint", "samples")  # of geometry
    subset = prepare(load("digits"), SCALED).train.subset(100, 0)
    given = network_of(arrays, 1), subset.inputs, subset.labels
    alone = flatlab.measure(*given, families=["sharpness"], **HOW)["sharpness_at_radius"]
    np.testing.assert_allclose(found.values[1, -1, 0], alone.values, rtol=1e-9, atol=1e-12)


def test_the_table_has_the_losses_and_errors_of_each_test_set(results):
    arrays, _, table = results
    raw = load("digits")
    further = {
        name: corruptions.test_set(raw, DEFAULTS | chosen, "all", None)
        for name, chosen in SETS.items()
    }
    splits = prepare(raw, SCALED, further=further)
    assert table["test_set"].values.tolist() == ["test", "hard", "foggy"]

    def losses_and_errors(model, split):
        outputs = model(split.inputs).detach()
        loss = functional.mse_loss(outputs, split.targets, reduction="sum") / (2 * len(split))
        return float(loss), float((outputs.argmax(1) != split.labels).double().mean())

    for run in range(2):
        model, here = network_of(arrays, run), table.isel(run=run, checkpoint=-1)
        _, of_training = losses_and_errors(model, splits.train)
        for name, split in {"test": splits.test, **splits.further}.items():
            loss, wrong = losses_and_errors(model, split)
            found = here.sel(test_set=name)
            assert float(found["test_set_loss"]) == pytest.approx(loss, rel=1e-12)
            assert float(found["test_set_error"]) == pytest.approx(100 * wrong, rel=1e-12)
            gap = wrong - of_training
            assert float(found["test_set_error_gap"]) == pytest.approx(gap, rel=0, abs=1e-12)
    of_test = table["test_set_error_gap"].sel(test_set="test")
    assert np.array_equal(of_test, table["error_gap"])
    errors = table["test_set_error"].isel(checkpoint=-1)
    assert (errors.sel(test_set="hard") > errors.sel(test_set="test")).all()


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
    assert "flatlab.data.corruptions" not in closure("flatlab.measuring.grid")
    assert "flatlab.data.corruptions.images" in closure("flatlab.data.corruptions")


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


# Families that are measured on the final weights alone

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


class Files(dict):
    """Paths by name, as a job is given them."""

    __getattr__ = dict.__getitem__


@pytest.fixture
def pair(tmp_path, monkeypatch):
    """The grid, and one that measures all on every checkpoint."""
    monkeypatch.chdir(tmp_path)
    found = []
    for key, at_the_end in (("some-grid", ["jacobian"]), ("other-grid", [])):
        measured = {**SMALL["measure"], "at_the_end": at_the_end}
        content = changed("scales.demo", {**SMALL, "measure": measured})
        content |= {"settings": [{"lr": 0.1, "batch_size": 20}], "seeds": ["0-1", 2]}
        found.append(experiments.load(written(tmp_path, key, content)))
    return found


def metric_file(grid, raw, pack, family):
    job = grid.measuring(pack, family)
    [trained] = train_packs(raw, [grid.training(pack).settings])
    for name in ("weights", "dense"):
        store.save_weights(grid.weights(pack)[name], *getattr(trained, name))
    store.save_dataset(job.inputs["data"], raw)
    params = SimpleNamespace(settings=job.settings)
    running = SimpleNamespace(input=Files(job.inputs), params=params, config={}, device="cpu")
    return measure(running)


def test_they_have_the_values_of_the_last_checkpoint(pair):
    raw = load("digits")
    ours, all_of_them = (metric_file(grid, raw, "lr0.1-b20-s0-1", "jacobian") for grid in pair)
    assert all_of_them["checkpoint"].values.tolist() == [0, 4, 9]
    assert ours["checkpoint"].values.tolist() == [9]
    xr.testing.assert_identical(ours, all_of_them.sel(checkpoint=[9]))
    grid, full = pair
    parts = [
        metric_file(grid, raw, pack, family) for pack in grid.packs for family in grid.families
    ]
    table = tabulate(parts, grid.tabulating(full).settings)
    there = table["jacobian_norm"].notnull().values.reshape(3, 3)
    assert there.tolist() == [[False, False, True]] * 3
    assert np.isfinite(table["root_sharpness"].values[:2]).all()


def test_packs_without_dense_checkpoints_keep_their_jobs(pair):
    """So that files that exist stay valid; the other jobs do not read dense checkpoints."""
    for pack in pair[0].packs:
        for family in pair[0].families:
            job, other = (grid.measuring(pack, family) for grid in pair)
            assert (job.settings, job.code) == (other.settings, other.code)
            alone = (pack, family) == ("lr0.1-b20-s0-1", "jacobian")
            assert ("dense" in job.inputs) != alone
            assert "dense" in other.inputs
            assert (job.work < other.work) == alone
