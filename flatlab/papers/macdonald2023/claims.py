"""macdonald2023: what the paper says of its figures and tables."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from flatlab.claims import Claims, Evidence, numbered, states
from flatlab.claims.evidence import Array, attempt, enough, estimate, estimates, series
from flatlab.papers.macdonald2023._frequencies import GAUSSIAN, RELU, by_frequency
from flatlab.stats import Estimate, Verdict, every, violations
from flatlab.stats.trends import difference

GRID = "input-scale-grid"
SCALES = (0.5, 1.0, 1.5)

NARROW = 0.1
"""A much smaller first layer has at most this share of the norm of another."""

ALIKE = 0.1
"""The norms of two similar first layers differ by at most this share."""

SHARPNESS = "hessian_lambda_max"
NORMS = {"J": "jacobian_norm", "sharpness": SHARPNESS, "|W_1|": "first_layer_norm"}
"""The paper's words for the quantities of the regressions."""


def growth(curves: Array) -> Array:
    """The largest value in training over the value at the start: (runs, checkpoints) -> (runs)."""
    return curves.max(axis=1) / curves[:, 0]


def highest(curves: Array) -> Array:
    """The largest value in training: (runs, checkpoints, ...) -> (runs)."""
    return curves.reshape(len(curves), -1).max(axis=1)


def input_scales(activation: str, source: str) -> Claims:
    """On inputs of three scales: which grows more, sharpness or the Jacobian norm."""

    scales = "at scale 0.5, 1, 1.5"

    def steps(
        e: Evidence, name: str, statistic: Callable[[Array], Array], label: str
    ) -> list[Estimate]:
        """How much larger a statistic is at each scale than at the next smaller one."""
        at = [f"{label}(scale {scale:g})" for scale in SCALES]
        names = [f"{larger} - {smaller}; {activation}" for smaller, larger in pairwise(at)]

        def found() -> list[Estimate]:
            values = []
            for scale in SCALES:
                runs = e.runs(GRID, {"activation": activation, "scale": scale})
                enough(runs.sizes["run"], GRID, f"networks of {activation} at scale {scale:g}")
                values.append(statistic(series(GRID, runs, name)))
            return [difference(n, b, a) for n, (a, b) in zip(names, pairwise(values), strict=True)]

        return estimates(names, found)

    @states(f"growth of the Jacobian norm falls: {scales}", source)
    def jacobian(e: Evidence) -> Verdict:
        return every(s < 0 for s in steps(e, "softmax_jacobian_norm", growth, "growth of J"))

    @states(f"growth or maximum of lambda_max(H) rises: {scales}", source)
    def sharpness(e: Evidence) -> Verdict:
        # "less severe increase" may mean the ratio or the height; the start differs too
        grown = steps(e, SHARPNESS, growth, "growth of lambda_max")
        largest = steps(e, SHARPNESS, highest, "max lambda_max")
        verdict = every(s > 0 for s in grown) | every(s > 0 for s in largest)
        label = f"the iteration for an eigenvalue converged; {GRID}"
        return attempt(
            lambda: verdict.reporting(violations(label, 1, e.values(GRID, "hessian_converged"))),
            lambda _: verdict,
        )

    @states(f"spectral norm of the hidden features rises: {scales}", source)
    def features(e: Evidence) -> Verdict:
        # of hidden layers: the features of the first layer are the inputs
        largest = steps(e, "feature_norm", lambda c: highest(c[:, :, 1:]), "max |X|")
        return every(s > 0 for s in largest)

    return numbered(jacobian, sharpness, features)


def excess(e: Evidence, grid: str, norm: str, factor: float = 1.0) -> Estimate:
    """`factor` times the mean over networks of high frequency, less the mean over those of low."""
    times, name = "" if factor == 1 else f"{factor:g} ", NORMS[norm]
    label = f"{times}{norm}(high) - {norm}(low); {grid}"

    def found() -> Estimate:
        networks = by_frequency(grid, e.table(grid))
        values = []
        for frequency in ("high", "low"):
            column = networks.loc[networks["frequency"] == frequency, name].to_numpy(dtype=float)
            values.append(column[np.isfinite(column)])
            enough(len(values[-1]), grid, f"networks of {frequency} frequency with {name}")
        return difference(label, factor * values[0], values[1])

    return estimate(label, found)


@states("J(low) < J(high), Gaussian and ReLU", "caption of Fig. 32")
def smoother(e: Evidence) -> Verdict:
    return every(excess(e, grid, "J") > 0 for grid in (GAUSSIAN, RELU))


@states(
    "J(low) < J(high), sharpness(low) > sharpness(high), |W_1|(low) < 0.1 |W_1|(high)", "App. C.3"
)
def gaussian(e: Evidence) -> Verdict:
    return (
        (excess(e, GAUSSIAN, "J") > 0)
        & (excess(e, GAUSSIAN, "sharpness") < 0)
        & (excess(e, GAUSSIAN, "|W_1|", NARROW) > 0)
    )


@states("J(low) < J(high), sharpness(low) < sharpness(high), |W_1| within 10 %", "App. C.3")
def relu(e: Evidence) -> Verdict:
    return (
        (excess(e, RELU, "J") > 0)
        & (excess(e, RELU, "sharpness") > 0)
        & (excess(e, RELU, "|W_1|", 1 + ALIKE) > 0)
        & (excess(e, RELU, "|W_1|", 1 - ALIKE) < 0)
    )


CLAIMS: dict[str, Claims] = {
    "fig30": input_scales("relu", "App. C.2, caption of Fig. 30"),
    "fig31": input_scales("tanh", "App. C.2, caption of Fig. 31"),
    "fig32": {"c1": smoother},
    "table1": {"c1": gaussian},
    "table2": {"c2": relu},
}
