"""Networks that are measured again after changes of their weights that keep their function."""

import numpy as np
import pytest
import torch
import yaml

from flatlab.api.measure import measure
from flatlab.core.registry import experiment_files
from flatlab.data import load
from flatlab.data._tensors import prepare
from flatlab.lab import plan
from flatlab.lab.plan.fingerprint import closure
from flatlab.lab.tables.runs import of_grid
from flatlab.lab.tables.selection import end_of_training
from flatlab.lab.train import train_packs
from flatlab.measuring import transformed as _measure_transformed
from flatlab.measuring.grid import measure_pack
from flatlab.measuring.transformed import measure_transformed
from flatlab.networks import _transformations, build

GRID = experiment_files()["mlp-grid"]
FAMILIES = ["accuracy", "flatness+geometry", "capacity"]
KINDS = ["last-layer", "batch-norm", "neurons"]


def grid_of(folder, activation="relu", **measure):
    """The perceptrons of the demo, trained for a few steps."""
    content = yaml.safe_load(GRID.read_text())
    content |= {"seeds": ["0-1"], "settings": [{"lr": 0.05, "batch_size": 20}]}
    content["checkpoints"] = {"dense": [0], "seeds": "all"}
    content["network"]["activation"] = activation
    content["measure"] |= {"families": FAMILIES, "diverged_below": 0, **measure}
    content["measure"] |= {"capacity": ["fisher-rao", "distances"], "flatness_layers": "all"}
    content["scales"]["demo"] |= {"checkpoints": {}, "measure": {}, "training": {"iterations": 40}}
    path = folder / GRID.name
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return plan.read_experiment(path, "demo", find=None)


def table_of(grid, activation="relu"):
    """The final weights and the table of a grid of one pack."""
    raw = load("digits")
    (pack,) = grid.packs
    (trained,) = train_packs(raw, [grid.training(pack).settings], "cpu")
    parts = []
    for family in grid.families:
        settings = grid.measuring(pack, family).settings
        how = measure_transformed if "transformations" in settings else measure_pack
        parts.append(how([trained.weights, trained.dense], raw, settings))
    return trained.weights[0], of_grid(parts, grid.tabulating(grid).settings)


@pytest.fixture(scope="module")
def grids(tmp_path_factory):
    chosen = {"kinds": KINDS, "families": ["flatness", "capacity"]}
    plain, more = (tmp_path_factory.mktemp(name) for name in ("plain", "more"))
    return grid_of(plain), grid_of(more, transformations=chosen)


@pytest.fixture(scope="module")
def results(grids):
    """The final weights, and the table without and with transformations."""
    (_, plain), (arrays, more) = map(table_of, grids)
    return arrays, plain, more


def test_every_transformed_network_is_that_which_is_measured_alone(results):
    arrays, _, table = results
    splits = prepare(load("digits"), {"classes": "all", "scaling": "unit"})
    model = build({"name": "mlp", "options": {"width": 64, "activation": "relu"}}, (1, 8, 8), 10)
    chosen = splits.train.subset(100, 0)
    for number in range(2):
        here = table.isel(run=number, checkpoint=-1).sel(samples="train")
        state = {name: torch.from_numpy(array[number, -1]) for name, array in arrays.items()}
        squares = float(here["squared_norm"].sel(transformation="none"))
        weights = [w.double().square().sum() for name, w in state.items() if "weight" in name]
        assert squares == pytest.approx(float(sum(weights)), rel=1e-10)
        first, last = (state[f"{name}.weight"].double() for name in _ends(state))
        after = here.sel(transformation="last-layer")
        rest = sum(weights) - first.square().sum() - last.square().sum()
        norm = pytest.approx(float(after["squared_norm"]), rel=1e-10)
        size, end = first.square().sum(), last.square().sum()
        (r,) = [r for r in range(5, 26) if float(rest + size / r**2 + end * r**2) == norm]
        before, behind = _ends(state)
        state = {name: tensor.double() for name, tensor in state.items()}
        for name in (f"{before}.weight", f"{before}.bias"):
            state[name] /= r
        state[f"{behind}.weight"] *= r
        model.double().load_state_dict(state)
        own = measure(model, chosen.inputs, chosen.labels, families=["flatness", "capacity"])
        for name in ("kappa_trace", "fisher_rao", "squared_norm"):
            np.testing.assert_allclose(after[name].values, own[name].values, rtol=1e-9)


def _ends(state):
    """The names of the last two layers."""
    return [name.removesuffix(".weight") for name in state if "weight" in name][-2:]


def test_nothing_else_of_the_table_changes(results):
    _, plain, more = results
    for name in plain:
        array = more[name]
        if "transformation" in array.dims:
            array = array.sel(transformation="none", drop=True)
        np.testing.assert_array_equal(plain[name].values, array.transpose(*plain[name].dims))
    assert "transformation" not in more["root_sharpness"].dims
    assert end_of_training(more)[[*plain]].identical(end_of_training(plain))


def test_function_and_flatness_stay_and_norms_change(results):
    *_, table = results
    end = table.isel(checkpoint=-1).sel(samples="train")
    assert end["transformation"].values.tolist() == ["none", *KINDS]
    none = end.sel(transformation="none")
    for kind in ("last-layer", "neurons"):
        after = end_of_training(table, transformation=kind)
        assert (after["output_change"] > 0).all()
        assert (after["output_change"] < 1e-12).all()
        for name in ("fisher_rao", "normalized_kappa_trace"):
            np.testing.assert_allclose(after[name], none[name], rtol=1e-9)
        assert (abs(after["squared_norm"] / none["squared_norm"] - 1) > 0.1).all()
    first, second = end["squared_norm"].sel(transformation="last-layer") / none["squared_norm"]
    assert abs(first - second) > 0.1  # every network has its own factor


def test_distances_are_from_the_initial_weights_as_they_were(results):
    _arrays, _, table = results
    end = table.isel(run=0, checkpoint=-1).sel(samples="train")
    distance = end["parameter_distance"].sel(transformation="last-layer")
    assert float(distance) > 1.3 * float(end["parameter_distance"].sel(transformation="none"))


def test_what_does_not_apply_is_missing(results, tmp_path, capsys):
    *_, table = results
    capsys.readouterr()
    no_norms = table.sel(transformation="batch-norm")
    assert no_norms["fisher_rao"].isnull().all()
    assert no_norms["output_change"].isnull().all()
    earlier = table.isel(checkpoint=0).sel(transformation=["last-layer", "neurons"])
    assert earlier["fisher_rao"].isnull().all()
    chosen = {"kinds": ["last-layer"], "families": ["flatness"]}
    _, tanh = table_of(grid_of(tmp_path, "tanh", transformations=chosen))
    assert "last-layer: Sequential has no layers to which" in capsys.readouterr().err
    assert tanh["kappa_trace"].sel(transformation="last-layer").isnull().all()
    assert tanh["kappa_trace"].sel(transformation="none").notnull().any()


def test_a_change_of_the_outputs_is_kept_and_what_is_measured_is_not(grids, monkeypatch):
    def wrong(model, kind, seed):
        model = transformed(model, kind, seed)
        with torch.no_grad():
            [*model.parameters()][-1].add_(1e-3)
        return model

    transformed = _transformations.transformed
    monkeypatch.setattr(_measure_transformed, "transformed", wrong)
    _, table = table_of(grids[1])
    after = table.isel(checkpoint=-1).sel(transformation="last-layer")
    assert (after["output_change"] > 1e-5).all()
    assert after["kappa_trace"].isnull().all()


def test_only_jobs_that_transform_depend_on_it(grids):
    plain, more = ([g.measuring(p, f) for f in g.families] for g in grids for p in g.packs)
    for before, after, family in zip(plain, more, FAMILIES, strict=True):
        again = family != "accuracy"
        assert (before.settings == after.settings, before.code == after.code) == (not again,) * 2
    assert "flatlab.networks._transformations" not in closure("flatlab.measuring.grid")
    assert "flatlab.networks._transformations" in closure("flatlab.measuring.transformed")


def test_of_a_pack_the_first_runs_alone_may_be_measured_again(results, tmp_path):
    _, _, more = results
    chosen = {"kinds": KINDS, "families": ["flatness", "capacity"], "runs": 1}
    _, first = table_of(grid_of(tmp_path, transformations=chosen))
    for name in ("kappa_trace", "squared_norm", "output_change"):
        np.testing.assert_array_equal(first[name].isel(run=0), more[name].isel(run=0))
        assert first[name].isel(run=1).sel(transformation=KINDS).isnull().all()
        unchanged = (each[name].sel(transformation="none") for each in (first, more))
        np.testing.assert_array_equal(*unchanged)
