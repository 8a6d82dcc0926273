"""What the check of derivatives costs: its share of the time of each family."""

from __future__ import annotations

import time
from typing import Any
from unittest.mock import patch

import torch

import flatlab
from flatlab.measuring import preflight as _checked
from flatlab.networks import lenet5

SAMPLES, CLASSES = 256, 10
OPTIONS: dict[str, dict[str, Any]] = {
    "geometry": {},
    "jacobian": {},
    "hessian": {},
    "flatness": {"flatness": ["exact", "maximal", "traces"]},
    "capacity": {},
    "adaptive": {"draws": 10},
    "sharpness": {"sharpness_draws": 2, "sharpness_steps": 2},
}


def checks() -> None:
    """LeNet5 in float32; the least share of three calls."""
    torch.manual_seed(0)
    model = lenet5.build((1, 28, 28), CLASSES, lenet5.Options(activation="relu")).eval()
    x, y = torch.rand(SAMPLES, 1, 28, 28), torch.arange(SAMPLES) % CLASSES
    for family, options in OPTIONS.items():
        how = {"families": family, "loss": "cross-entropy", **options}
        share, seconds = min(
            _share(lambda how=how: flatlab.measure(model, x, y, **how)) for _ in range(3)
        )
        print(
            f"check of {family:<25}{1e3 * seconds:10.3f} ms  {100 * share:8.2f} % of the family",
            flush=True,
        )


def _share(call: Any) -> tuple[float, float]:
    """The check's share of the time of everything else, and its seconds."""
    spent = 0.0
    check = _checked.check_derivatives

    def timed(*args: Any, **kwargs: Any) -> Any:
        nonlocal spent
        start = time.perf_counter()
        try:
            return check(*args, **kwargs)
        finally:
            spent += time.perf_counter() - start

    start = time.perf_counter()
    with patch.object(_checked, "check_derivatives", timed):
        call()
    return spent / (time.perf_counter() - start - spent), spent
