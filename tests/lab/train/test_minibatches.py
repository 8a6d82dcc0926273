"""The order in which training sees the data."""

from itertools import islice

import numpy as np
import pytest
import torch

from flatlab.lab.train.minibatches import minibatches, steps_per_epoch

TRAINING = {"batch_size": 10, "minibatches": "reshuffled"}


def taken(seeds, count, training, start=0):
    """The indices of some steps: (steps, runs, batch)."""
    return np.stack(list(islice(minibatches(seeds, 63, training, start), count)))


def test_an_epoch_is_a_permutation_without_the_incomplete_last_batch():
    assert steps_per_epoch(63, TRAINING) == 6
    steps = taken([3, 8], 24, TRAINING)
    assert steps.shape == (24, 2, 10)
    for epoch in np.split(steps, 4):
        for run in range(2):
            seen = epoch[:, run].flatten().tolist()
            assert len(set(seen)) == 60
            assert set(seen) <= set(range(63))


def test_epochs_are_shuffled_anew_and_leave_out_no_sample_for_good():
    steps = taken([3], 120, TRAINING)
    assert not np.array_equal(steps[:6], steps[6:12])
    assert set(steps.flatten().tolist()) == set(range(63))


def test_draws_with_replacement_repeat_samples_within_an_epoch():
    epoch = taken([3], 6, {**TRAINING, "minibatches": "replacement"})
    assert epoch.shape == (6, 1, 10)
    assert len(set(epoch.flatten().tolist())) < 60
    assert set(epoch.flatten().tolist()) <= set(range(63))


def test_draws_by_torch_are_what_its_generator_draws_step_by_step():
    training = {**TRAINING, "minibatches": "torch-replacement"}
    drawing = torch.Generator().manual_seed(7)
    expected = [torch.randint(63, (10,), generator=drawing).tolist() for _ in range(20)]
    assert taken([2, 7], 20, training)[:, 1].tolist() == expected


def test_a_full_step_sees_every_sample_once():
    training = {**TRAINING, "minibatches": "full"}
    assert steps_per_epoch(63, training) == 1
    assert taken([3, 4], 3, training).tolist() == [[list(range(63))] * 2] * 3


@pytest.mark.parametrize("minibatches", ["reshuffled", "replacement", "torch-replacement", "full"])
def test_the_order_of_the_data_depends_on_the_seed_alone(minibatches):
    training = {**TRAINING, "minibatches": minibatches}
    alone = taken([7], 17, training)
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002 - the global generator has no part in it
    changed = {**training, "lr": 9.0, "loss": "mean-mse", "iterations": 20}
    together = taken([2, 7], 20, changed)
    assert np.array_equal(alone[:, 0], together[:17, 1])
    assert np.array_equal(together[:, 0], together[:, 1]) == (minibatches == "full")


@pytest.mark.parametrize("minibatches", ["reshuffled", "replacement", "torch-replacement", "full"])
@pytest.mark.parametrize("start", [0, 1, 5, 6, 7, 12, 16])
def test_the_order_can_be_entered_anywhere(minibatches, start):
    training = {**TRAINING, "minibatches": minibatches}
    whole = taken([2, 7], 20, training)
    rest = taken([2, 7], 20 - start, training, start)
    assert np.array_equal(whole[start:], rest)
