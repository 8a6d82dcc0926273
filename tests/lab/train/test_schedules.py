"""Learning rates of the recipes of the papers, at their full lengths."""

import numpy as np
import pytest
import torch

from flatlab.lab.train.schedules import drawn_rates, learning_rates

RATES = {"low": 0.005, "high": 0.5}


def theirs(lr, scheduler, epochs):
    """The rate of each epoch, by a scheduler of torch that is called after each."""
    update = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr)
    schedule, found = scheduler(update), []
    for _ in range(epochs):
        found.append(update.param_groups[0]["lr"])
        update.step()
        schedule.step()
    return found


@pytest.mark.parametrize("per_epoch", [1, 48, 390, 781])
def test_a_tenth_of_the_rate_after_50_and_after_80_of_90_epochs(per_epoch):
    training = {"schedule": "step", "milestones": [0.5555556, 0.8888889], "decay": 0.1, "lr": 0.03}
    total = 90 * per_epoch
    found = learning_rates(training, [0], total, range(total))[:, 0].reshape(90, per_epoch)
    expected = theirs(0.03, lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [50, 80]), 90)
    assert np.allclose(found, np.array(expected)[:, None], rtol=1e-14, atol=0)


@pytest.mark.parametrize("per_epoch", [48, 390])
def test_up_for_40_percent_of_200_epochs_and_down_to_zero(per_epoch):
    """Of the rate that each run draws."""
    training = {"schedule": "warmup-linear", "warmup": 0.4, "lr": RATES}
    seeds, total = [0, 5, 8], 200 * per_epoch
    found = learning_rates(training, seeds, total, range(total))
    height = np.interp(np.arange(total) / per_epoch, [0, 80, 200], [0, 1, 0])
    assert np.allclose(found, np.outer(height, drawn_rates(training, seeds)), rtol=0, atol=1e-14)
    assert len(set(found[80 * per_epoch])) == 3


@pytest.mark.parametrize(
    ("lr", "total"), [(RATES, 90), (0.005, 300), (0.002, 1500), (0.3, 1), (1e-3, 7)]
)
def test_the_cosine_is_that_of_the_framework_to_the_bit(lr, total):
    """For the rate of each run, also where two have the same one.

    Theirs computes each rate from the one before, and so must whoever wants the same bits.
    """
    training, seeds, middle = {"schedule": "cosine", "lr": lr}, [4, 0, 4, 2], total // 2
    parts = (range(middle), range(middle, total))
    found = np.concatenate([learning_rates(training, seeds, total, steps) for steps in parts])
    rates = drawn_rates(training, seeds).tolist() if lr is RATES else [lr] * 4
    falling = (1 + np.cos(np.pi * np.arange(total) / total)) / 2
    for run, rate in enumerate(rates):
        expected = theirs(
            rate, lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, total), total
        )
        assert found[:, run].tolist() == expected
        assert expected == pytest.approx(rate * falling, rel=1e-9)


def test_drawn_rates_are_uniform_in_their_logarithm():
    rates = drawn_rates({"lr": RATES}, range(4000))
    share = np.log(rates / RATES["low"]) / np.log(RATES["high"] / RATES["low"])
    counts, _ = np.histogram(share, bins=8, range=(0, 1))
    assert counts.sum() == 4000  # within the ends
    assert np.abs(counts - 500).max() < 4 * 500**0.5
