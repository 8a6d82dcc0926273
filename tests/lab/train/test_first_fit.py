"""The weights at which the training error of a run first is small: kept, measured, in the table."""

import numpy as np
import pytest
import torch
import yaml

from flatlab.core.resume_state import ResumeState
from flatlab.data import load
from flatlab.data._tensors import prepare
from flatlab.lab import plan
from flatlab.lab.tables.selection import at_first_fit, end_of_training
from flatlab.lab.train import TrainError, train_packs
from flatlab.lab.train.modes import MODES
from flatlab.networks import build
from tests.lab.kinds.experiments import content_of, table_of
from tests.lab.train.packs import GIVEN, images, interrupted, only, same, same_bytes, settings

EPOCH, TOTAL, ERROR = 5, 62, 30.0
"""Steps per epoch of 22 samples, four at a time; the last epoch has two steps."""
STOP = {"every": None, "loss": None, "mean_of": 1, "accuracy": None}


def given(network="mlp", error=ERROR, **training):
    found = settings(network, seeds=(0, 1, 3), iterations=TOTAL, **{"lr": 0.01, **training})
    return {**found, "fitted": error}


def errors_of(pack, raw, steps):
    """The training error (%) of each run at some steps, by plain torch, and the weights."""
    kept = {**pack, "checkpoints": steps}
    del kept["fitted"]
    trained = only(raw, kept)
    arrays, about = trained.dense
    split = prepare(raw, pack["data"], None, torch.float64).train
    model = build(pack["network"], tuple(split.inputs.shape[1:]), split.targets.shape[1]).double()
    found = np.empty((len(pack["runs"]), len(steps)))
    for place in np.ndindex(found.shape):
        state = {name: torch.as_tensor(array[place]) for name, array in arrays.items()}
        model.eval().load_state_dict(state)
        with torch.no_grad():
            wrong = model(split.inputs).argmax(1) != split.labels
        found[place] = 100 * wrong.double().mean()
    return found, arrays, about


@pytest.mark.first(1)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("network", ["mlp", pytest.param("resnet", marks=pytest.mark.long)])
def test_they_are_those_at_the_end_of_the_first_epoch_that_suffices(mode, network):
    pack, raw = given(network, mode=mode, precision="float32"), images((8, 8))
    steps = [*range(EPOCH, TOTAL, EPOCH), TOTAL]
    errors, all_weights, _ = errors_of(pack, raw, steps)
    trained = only(raw, pack)
    arrays, about = trained.dense
    assert about["iterations"] == []
    fitted = about["fitted"]
    for run, course in enumerate(errors):
        enough = course <= ERROR
        assert fitted[run] == (steps[enough.argmax()] if enough.any() else None)
        for name, array in arrays.items():
            assert array.shape[1] == 1
            if enough.any():
                expected = all_weights[name][run, enough.argmax()]
                assert array[run, 0].tobytes() == expected.tobytes()
    assert len({*fitted}) > 1  # the runs differ, or this would show little


@pytest.mark.first(1)
@pytest.mark.parametrize("mode", MODES)
def test_keeping_them_changes_nothing_else(mode):
    pack, raw = given(mode=mode, precision="float32"), images((8, 8))
    plain = {key: value for key, value in pack.items() if key != "fitted"}
    found, expected = only(raw, pack), only(raw, plain)
    assert any(found.dense[1]["fitted"])
    assert "fitted" not in expected.dense[1]
    assert found.curves.identical(expected.curves)
    assert found.weights[1] == expected.weights[1]
    same_bytes(found, expected)


def test_a_run_that_stops_within_an_epoch_has_its_own_last_step():
    stop = {**STOP, "every": 3, "accuracy": 100 - ERROR}
    trained = only(images((8, 8)), given(stop=stop, lr=0.03))
    about = trained.dense[1]
    assert about["ended"] == ["stopped"] * 3
    assert any(step % EPOCH for step in about["steps"])
    for fitted, step in zip(about["fitted"], about["steps"], strict=True):
        # Either the end of an epoch came first, or the rule to stop.
        assert fitted == step or (fitted < step and fitted % EPOCH == 0)


@pytest.mark.parametrize(
    ("lr", "error", "ended"), [(1e-6, 0.0, "finished"), (10.0, 65.0, "diverged")]
)
def test_a_network_that_never_gets_there_or_diverges_has_none(lr, error, ended):
    """Outputs that are no numbers stand for the class 0, which is right for a third."""
    trained = only(images((8, 8)), given(lr=lr, error=error))
    arrays, about = trained.dense
    assert about["ended"] == [ended] * 3
    assert about["fitted"] == [None] * 3
    assert all(np.isnan(array).all() for array in arrays.values())


def test_a_run_interrupted_anywhere_ends_with_the_same_bytes(tmp_path):
    pack, raw = given(mode="batched", precision="float32"), images((8, 8))
    expected = only(raw, pack)
    for steps in (1, 31, 55):
        folder = tmp_path / str(steps)
        interrupted(steps, raw, [pack], folders=[folder])
        same(only(raw, pack, folders=[folder]), expected)


@pytest.mark.more
def test_a_power_cut_while_they_are_saved_loses_nothing(tmp_path, monkeypatch):
    """The weights of one run are on disk, and no state that knows of them."""
    pack, raw = given(), images((8, 8))
    expected = only(raw, pack)

    class Cut(BaseException):
        """Nothing is saved any more."""

    def save(self, name, *content):
        original(self, name, *content)
        if name.startswith("fitted-"):
            raise Cut

    original = ResumeState.save
    with monkeypatch.context() as patch:
        patch.setattr(ResumeState, "save", save)
        with pytest.raises(Cut):
            train_packs(raw, [pack], folders=[tmp_path], save_every_s=0.0)
    same(only(raw, pack, folders=[tmp_path]), expected)


def test_data_without_labels_have_no_training_error():
    pack = given("mlp", data=GIVEN)
    raw = load("gaussian-pair")
    with pytest.raises(TrainError, match=r"checkpoints\.fitted: data without labels"):
        train_packs(raw, [pack])


GRID = content_of("joint-mlp-grid") | {
    **{"seeds": ["0-1"], "scales": {"demo": {}, "short": {}, "paper": {}}},
    "settings": [{"lr": 0.05, "batch_size": 32}, {"lr": 0.0001, "batch_size": 64}],
    "training": {
        **{"loss": "cross-entropy", "optimizer": "sgd", "momentum": 0.9, "schedule": "constant"},
        **{"minibatches": "reshuffled", "epochs": 4, "precision": "float32", "mode": "default"},
    },
    "checkpoints": {"dense": [0], "fitted": 10, "curves": "none"},
    "measure": {
        **{"families": ["accuracy", "capacity"], "more": ["errors"], "untrained": False},
        "samples": {"train": {"split": "train", "size": 50, "seed": 0}},
        **{"precision": "float64", "diverged_below": None},
    },
}
del GRID["exclude"]
GRID["data"] |= {"set": "digits", "scaling": "unit"}
GRID["network"] |= {"width": 16, "depth": 2}
WITH_UNTRAINED = {key: value for key, value in GRID["measure"].items() if key != "untrained"}


def grid_of(folder, **sections):
    content = {**GRID, **sections}
    path = folder / "some-grid.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return plan.read_experiment(path, "demo", find=None)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return table_of(grid_of(tmp_path_factory.mktemp("grid")), load("digits"))[0]


class TestTable:
    def test_each_run_has_values_at_its_own_first_fit_and_at_its_end(self, table):
        fast = table["batch_size"].values == 32
        assert np.isfinite(table["fitted"].values).tolist() == fast.tolist()
        for run in table["run"].values:
            row = table.sel(run=run)
            there = row["checkpoint"].values[row["train_error"].notnull().values]
            expected = {float(row["steps"]), float(row["fitted"])}
            assert {*there.astype(float)} == {step for step in expected if np.isfinite(step)}

    def test_the_selections_take_the_one_and_the_other(self, table):
        first, end = at_first_fit(table), end_of_training(table)
        errors = first["train_error"].values
        fast = table["batch_size"].values == 32
        assert (errors[fast] <= 10).all()
        assert np.isnan(errors[~fast]).all()
        for run, step in zip(end["run"].values, end["steps"].values, strict=True):
            expected = table["train_error"].sel(run=run, checkpoint=step)
            assert float(end["train_error"].sel(run=run)) == float(expected)

    def test_step_0_is_not_measured_and_distances_from_it_are(self, table):
        assert 0 not in table["checkpoint"].values
        distance = at_first_fit(table)["parameter_distance"].values
        longer = end_of_training(table)["parameter_distance"].values
        fast = table["batch_size"].values == 32
        assert (distance[fast] < longer[fast]).all()
        assert (longer > 0).all()

    def test_those_that_never_fit_are_counted(self, table):
        assert table.attrs["extent"].endswith("; 2 without weights at a first small training error")


def test_step_0_is_measured_by_default(tmp_path):
    grid = grid_of(tmp_path, measure=WITH_UNTRAINED, settings=GRID["settings"][:1])
    table, _ = table_of(grid, load("digits"))
    assert table["checkpoint"].values[0] == 0
    assert (table["parameter_distance"].sel(checkpoint=0) == 0).all()


def test_what_a_grid_does_not_ask_for_is_not_in_the_params(tmp_path):
    without = {"dense": [0], "curves": "none"}
    plain = grid_of(tmp_path, checkpoints=without, measure=WITH_UNTRAINED)
    asked = grid_of(tmp_path)
    for pack in plain.packs:
        before, after = (grid.training(pack).settings for grid in (plain, asked))
        assert after == {**before, "fitted": 10.0}
        before, after = (grid.measuring(pack, "accuracy").settings for grid in (plain, asked))
        assert after == {**before, "untrained": False}
    assert asked.bytes_of_dense_checkpoints == 2 * plain.bytes_of_dense_checkpoints


def test_only_blocks_of_seeds_that_are_kept_densely_have_them(tmp_path):
    checkpoints = {**GRID["checkpoints"], "seeds": ["0-1"]}
    grid = grid_of(tmp_path, seeds=["0-1", 2], checkpoints=checkpoints)
    asked = {pack[-4:]: "fitted" in grid.training(pack).settings for pack in grid.packs}
    assert asked == {"s0-1": True, "4-s2": False, "2-s2": False}


@pytest.mark.parametrize("error", [-1, 100, "small"])
def test_an_impossible_training_error_is_refused(tmp_path, error):
    with pytest.raises(plan.PlanError, match=r"checkpoints\.fitted"):
        grid_of(tmp_path, checkpoints={"dense": "none", "fitted": error})
