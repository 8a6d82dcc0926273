"""The order in which training sees the data."""

from itertools import islice

import numpy as np
import pytest
import torch

from flatlab.lab.train.minibatches import minibatches, steps_per_epoch
from tests.lab.train import by_hand

KINDS = ["reshuffled", "replacement", "torch-replacement", "full"]
SAMPLES = 63


def given(kind):
    return {"batch_size": 10, "minibatches": kind}


def taken(seeds, count, training, start=0):
    """The indices of some steps: (steps, runs, batch)."""
    return np.stack(list(islice(minibatches(seeds, SAMPLES, training, start), count)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_the_data_is_that_of_the_seed_alone_written_out(kind):
    """Whatever else is asked for, beside whichever run, and without the global generators."""
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002 - the global generator has no part in it
    steps = taken([2, 7], 130, {**given(kind), "lr": 9.0, "loss": "mean-mse", "iterations": 20})
    for run, seed in enumerate((2, 7)):
        expected = by_hand.batches(given(kind), 130, SAMPLES, seed)
        assert steps[:, run].tolist() == np.stack(expected).tolist()
    assert {*steps[:, 0].flatten().tolist()} == {*range(SAMPLES)}  # none is left out for good


def test_an_epoch_is_a_permutation_without_the_incomplete_last_batch():
    assert steps_per_epoch(SAMPLES, given("reshuffled")) == 6
    assert steps_per_epoch(SAMPLES, given("full")) == 1
    for epoch in np.split(taken([3], 24, given("reshuffled")), 4):
        assert len({*epoch.flatten().tolist()}) == 60


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", [0, 1, 5, 6, 7, 12, 16])
def test_the_order_can_be_entered_anywhere(kind, start):
    whole = taken([2, 7], 20, given(kind))
    assert np.array_equal(whole[start:], taken([2, 7], 20 - start, given(kind), start))
