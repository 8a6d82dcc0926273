"""What comes of a pack: its runs in order, curves, and what is refused.

modes/ asks whether each mode does what a plain loop does.
"""

import numpy as np
import pytest
import torch

from flatlab.data import DataError
from flatlab.data._tensors import prepare
from flatlab.lab.train.initializations import draw
from flatlab.lab.train.modes import MODES
from flatlab.networks import build, seeded
from tests.lab.train.packs import only, same_bytes, settings
from tests.refusals import refusal

EXACT, SEEDS = 1e-10, (5, 0, 1)
DATA = {"set": "stripes", "classes": "all", "scaling": "unit"}
NETWORK = settings("mlp")["network"]
RULE = {"lr": 0.1, "batch_size": 10, "iterations": 60, "mode": "batched"}


def pack(**training):
    return settings("mlp", SEEDS, data=DATA, **{**RULE, **training})


def train(raw, **training):
    """What comes of a pack."""
    return only(raw, pack(**training))


def model_of(arrays, run):
    model = build(NETWORK, (4, 4), 3).double()
    model.load_state_dict({name: torch.from_numpy(array[run, 0]) for name, array in arrays.items()})
    return model


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("iterations", [1, 2, 60])
def test_curves_begin_with_the_initial_and_end_with_the_final_weights(mode, iterations, stripes):
    found = train(stripes, mode=mode, iterations=iterations)
    (arrays, about), curves = found.weights, found.curves
    assert about["runs"] == curves["run"].values.tolist()
    assert about["iterations"] == [iterations]
    assert about["steps"] == [iterations] * 3
    assert about["ended"] == ["finished"] * 3
    shown = curves["iteration"].values
    assert (shown[0], shown[-1]) == (0, iterations)
    assert (np.diff(shown) > 0).all()
    split = prepare(stripes, DATA).train
    for run, seed in enumerate(SEEDS):
        initial = build(NETWORK, (4, 4), 3)
        draw(initial, "framework", seed)
        for position, model in ((0, initial.double()), (-1, model_of(arrays, run))):
            outputs = model(split.inputs).detach()
            loss = float((outputs - split.targets).square().sum(1).mean() / 2)
            accuracy = 100 * float((outputs.argmax(1) == split.labels).double().mean())
            at = curves.isel(run=run, iteration=position)
            assert float(at["train_loss"]) == pytest.approx(loss, rel=EXACT)
            assert float(at["train_accuracy"]) == pytest.approx(accuracy, rel=EXACT)


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_larger_than_the_data_is_refused(mode, stripes):
    message = refusal(DataError, train, stripes, batch_size=64, mode=mode)
    assert "training.batch_size is 64, the training set has 63 samples" in message
    train(stripes, batch_size=63, mode=mode, iterations=2)


@pytest.mark.parametrize("before", [False, True])
def test_denormal_numbers_are_zero_while_it_trains_and_what_they_were_afterwards(
    stripes, monkeypatch, before
):
    def are_zero():
        return torch.tensor(1e-38).div(2).item() == 0

    inside = []

    def build_and_look(*arguments):
        inside.append(are_zero())
        return seeded(*arguments)

    monkeypatch.setattr("flatlab.lab.train.run.seeded", build_and_look)
    if not torch.set_flush_denormal(before):
        pytest.skip("this processor has no such mode")
    try:
        train(stripes, iterations=1)
        assert ({*inside}, are_zero()) == ({True}, before)
    finally:
        torch.set_flush_denormal(False)


@pytest.mark.parametrize(
    ("curves", "shown"),
    [("none", [40]), ([0, 7], [0, 7, 40]), ({"every": 20, "log_spaced": None}, [0, 20, 40])],
)
def test_curves_have_the_steps_that_are_asked_for_and_the_end(curves, shown, stripes):
    """And what they show is no part of the training."""
    given = pack(iterations=40)
    usual, other = only(stripes, given), only(stripes, {**given, "curves": curves})
    assert other.curves["iteration"].values.tolist() == shown
    same_bytes(other, usual)
    end = {"iteration": -1}
    assert usual.curves.isel(end).equals(other.curves.isel(end))
