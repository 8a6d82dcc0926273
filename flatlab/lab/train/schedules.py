"""Schedules: the learning rate of each step, and the steps at which something is recorded."""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

RATE_STREAM = 2
"""Separates the draw of a learning rate from other uses of a run's seed."""


def drawn_rates(training: Mapping[str, Any], seeds: Sequence[int]) -> np.ndarray | None:
    """The `lr` that each seed draws, log-uniform from low to high; None if all share one."""
    if not isinstance(training["lr"], Mapping):
        return None
    ends = np.log([training["lr"]["low"], training["lr"]["high"]])
    return np.exp([np.random.default_rng([seed, RATE_STREAM]).uniform(*ends) for seed in seeds])


def learning_rates(
    training: Mapping[str, Any], seeds: Sequence[int], total: int, steps: range
) -> np.ndarray:
    """The learning rates of some steps of a training of `total` steps: (steps, runs).

    constant: `lr`.  step: `lr` times `decay` for each of the `milestones` (fractions of the whole
    training) that has passed.  warmup-linear: rises linearly to `lr` over the fraction `warmup` of
    the training, then falls linearly to zero.  cosine: falls from `lr` to zero as half a cosine.
    """
    step = np.array(steps, int)
    rates = drawn_rates(training, seeds)
    if rates is None:
        rates = np.full(len(seeds), float(training["lr"]))
    if training["schedule"] == "cosine":
        distinct, of_run = np.unique(rates, return_inverse=True)
        falls = _falls(total)[: steps.stop]
        courses = [np.multiply.accumulate(np.append(rate, falls))[step] for rate in distinct]
        return np.stack(courses, axis=1)[:, of_run]
    return np.multiply.outer(_factors(training, total, step), rates)


@functools.lru_cache(maxsize=4)
def _falls(total: int) -> np.ndarray:
    """The factors from each rate of lr (1 + cos(pi t / total)) / 2, of the steps t, to the next.

    torch's CosineAnnealingLR computes each rate from the one before: so do we, to the same bits.
    """
    heights = np.array([1 + math.cos(math.pi * step / total) for step in range(total)])
    return heights[1:] / heights[:-1]


def _factors(training: Mapping[str, Any], total: int, step: np.ndarray) -> np.ndarray:
    if training["schedule"] == "step":
        milestones = [round(fraction * total) for fraction in training["milestones"]]
        return training["decay"] ** np.searchsorted(milestones, step, side="right")
    if training["schedule"] == "warmup-linear":
        peak = training["warmup"] * total
        rising = step / peak if peak else np.full(len(step), np.inf)
        return np.minimum(rising, (total - step) / (total - peak))
    return np.ones(len(step))


def steps_of(schedule: Any, total: int) -> list[int]:
    """The steps of a schedule in order, from 0 (before the first step) to at most `total`.

    none; {every: k}; {log_spaced: n}, 0 and at most n steps evenly spaced in their logarithm from 1
    to the end; or a list of steps.
    """
    if schedule == "none":
        return []
    if isinstance(schedule, list):
        return sorted({step for step in schedule if step <= total})
    if schedule.get("every"):
        return [*range(0, total, schedule["every"]), total]
    spaced = np.geomspace(1, total, schedule["log_spaced"]).round().astype(int)
    return sorted({0, *spaced.tolist()})
