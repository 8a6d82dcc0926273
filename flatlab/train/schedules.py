"""When: the learning rate of each step, and the steps at which something is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def learning_rates(training: Mapping[str, Any], total: int, first: int, count: int) -> np.ndarray:
    """The learning rates of the steps first, first + 1, ..., of a training of `total` steps.

    constant: `lr`.  step: `lr` times `decay` for each of the `milestones` (fractions of the whole
    training) that lies behind.  warmup-linear: rises linearly to `lr` over the fraction `warmup` of
    the training, then falls linearly to zero.
    """
    step = np.arange(first, first + count)
    lr = training["lr"]
    if training["schedule"] == "step":
        milestones = [round(share * total) for share in training["milestones"]]
        return lr * training["decay"] ** np.searchsorted(milestones, step, side="right")
    if training["schedule"] == "warmup-linear":
        peak = training["warmup"] * total
        rising = step / peak if peak else np.full(count, np.inf)
        return lr * np.minimum(rising, (total - step) / (total - peak))
    return np.full(count, float(lr))


def steps_of(schedule: Any, total: int) -> list[int]:
    """The steps (0: before the first one) of a schedule, in order, at most `total`.

    none; {every: k}; {log_spaced: n}, at most n steps evenly spaced in their logarithm from 1 to
    the end, and 0; or a list of steps.
    """
    if schedule == "none":
        return []
    if isinstance(schedule, list):
        return sorted({step for step in schedule if step <= total})
    if schedule.get("every"):
        return [*range(0, total, schedule["every"]), total]
    spaced = np.geomspace(1, total, schedule["log_spaced"]).round().astype(int)
    return sorted({0, *spaced.tolist()})
