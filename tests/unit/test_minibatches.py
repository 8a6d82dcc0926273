"""The order in which training sees the data."""

from itertools import islice

import pytest
import torch

from flatlab.train.minibatches import epochs, steps

TRAINING = {"batch_size": 10, "minibatches": "reshuffled", "iterations": 17}


def test_an_epoch_is_a_permutation_without_the_incomplete_last_batch():
    for epoch in islice(epochs([3, 8], 63, TRAINING), 4):
        assert epoch.shape == (6, 2, 10)  # steps, runs, batch
        for run in range(2):
            seen = epoch[:, run].flatten().tolist()
            assert len(set(seen)) == 60
            assert set(seen) <= set(range(63))


def test_epochs_are_shuffled_anew_and_leave_out_no_sample_for_good():
    first = list(islice(epochs([3], 63, TRAINING), 20))
    assert not torch.equal(first[0], first[1])
    assert set(torch.cat(first).flatten().tolist()) == set(range(63))


def test_draws_with_replacement_repeat_samples_within_an_epoch():
    epoch = next(epochs([3], 63, {**TRAINING, "minibatches": "replacement"}))
    assert epoch.shape == (6, 1, 10)
    assert len(set(epoch.flatten().tolist())) < 60
    assert set(epoch.flatten().tolist()) <= set(range(63))


@pytest.mark.parametrize("minibatches", ["reshuffled", "replacement"])
def test_the_order_of_the_data_depends_on_the_seed_alone(minibatches):
    training = {**TRAINING, "minibatches": minibatches, "iterations": 17}
    device = torch.device("cpu")
    alone = torch.stack(list(steps([7], 63, training, device)))
    torch.manual_seed(1)
    changed = {**training, "lr": 9.0, "loss": "mean-mse", "iterations": 20}
    together = torch.stack(list(steps([2, 7], 63, changed, device)))
    assert alone.shape == (17, 1, 10)
    assert torch.equal(alone[:, 0], together[:17, 1])
    assert not torch.equal(together[:, 0], together[:, 1])
