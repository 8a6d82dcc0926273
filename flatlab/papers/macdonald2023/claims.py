"""macdonald2023: what the paper says of its figures and tables."""

import numpy as np

from flatlab.claims import Claim, Claims, Evidence
from flatlab.claims.missing import enough, estimate
from flatlab.papers.macdonald2023 import _input_scale as input_scale
from flatlab.papers.macdonald2023._frequencies import (
    FIRST_LAYER,
    GAUSSIAN,
    JACOBIAN,
    RELU,
    SHARPNESS,
    by_frequency,
)
from flatlab.stats import Estimate, Verdict, every
from flatlab.stats.trends import difference

NARROW = 0.1
"""A much smaller first layer has at most this share of the norm of another."""

ALIKE = 0.1
"""The norms of two similar first layers differ by at most this share."""

WORDS = {JACOBIAN: "J", SHARPNESS: "sharpness", FIRST_LAYER: "|W_1|"}


def excess(e: Evidence, grid: str, name: str, factor: float = 1.0) -> Estimate:
    """`factor` times the mean over networks of high frequency, less the mean over those of low."""
    times = "" if factor == 1 else f"{factor:g} "
    label = f"{times}{WORDS[name]}(high) - {WORDS[name]}(low); {grid}"

    def found() -> Estimate:
        networks = by_frequency(grid, e.table(grid))
        values = []
        for frequency in ("high", "low"):
            column = networks.loc[networks["frequency"] == frequency, name].to_numpy(dtype=float)
            values.append(column[np.isfinite(column)])
            enough(len(values[-1]), grid, f"networks of {frequency} frequency with {name}")
        return difference(label, factor * values[0], values[1])

    return estimate(label, found)


def smoother(e: Evidence) -> Verdict:
    return every(excess(e, grid, JACOBIAN) > 0 for grid in (GAUSSIAN, RELU))


def gaussian(e: Evidence) -> Verdict:
    return (
        (excess(e, GAUSSIAN, JACOBIAN) > 0)
        & (excess(e, GAUSSIAN, SHARPNESS) < 0)
        & (excess(e, GAUSSIAN, FIRST_LAYER, NARROW) > 0)
    )


def relu(e: Evidence) -> Verdict:
    return (
        (excess(e, RELU, JACOBIAN) > 0)
        & (excess(e, RELU, SHARPNESS) > 0)
        & (excess(e, RELU, FIRST_LAYER, 1 + ALIKE) > 0)
        & (excess(e, RELU, FIRST_LAYER, 1 - ALIKE) < 0)
    )


CLAIMS: dict[str, Claims] = {
    "fig30": input_scale.claims("relu", "App. C.2, caption of Fig. 30"),
    "fig31": input_scale.claims("tanh", "App. C.2, caption of Fig. 31"),
    "fig32": {"c1": Claim("J(low) < J(high), Gaussian and ReLU", "caption of Fig. 32", smoother)},
    "table1": {
        "c1": Claim(
            "J(low) < J(high), sharpness(low) > sharpness(high), |W_1|(low) < 0.1 |W_1|(high)",
            "App. C.3",
            gaussian,
        )
    },
    "table2": {
        "c2": Claim(
            "J(low) < J(high), sharpness(low) < sharpness(high), |W_1| within 10 %",
            "App. C.3",
            relu,
        )
    },
}
