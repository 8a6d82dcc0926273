"""macdonald2023, Figures 30 to 32, Tables 1 and 2: inputs of three scales, and eight points."""

from functools import partial
from typing import Any

import xarray as xr

from flatlab.lab.claims.registry import Claims
from flatlab.lab.claims.result_tables import ResultTables
from flatlab.lab.tables.eligibility import estimate, unless_missing
from flatlab.papers.macdonald2023._frequencies import (
    ACTIVATIONS,
    FIRST_LAYER,
    GAUSSIAN,
    INITIALIZATIONS,
    JACOBIAN,
    RELU,
    SHARPNESS,
)
from flatlab.papers.macdonald2023._networks import SOFTMAX_JACOBIAN, Sweep
from flatlab.stats.estimate import Estimate
from flatlab.stats.trends import difference
from flatlab.stats.verdict import Verdict, every, violations

REGRESSION = Claims("macdonald2023")

GRID = "input-scale-grid"
SCALES = (0.5, 1.0, 1.5)
FEATURES = "hidden_feature_norm"
LABELS = {SOFTMAX_JACOBIAN: "J", SHARPNESS: "lambda_max", FEATURES: "|X|"}

NARROW = 0.1
"""A much smaller first layer has at most this share of the norm of another."""

ALIKE = 0.1
"""The norms of two similar first layers differ by at most this share."""

NORMS = {"J": JACOBIAN, "sharpness": SHARPNESS, "|W_1|": FIRST_LAYER}
"""The paper's words for the quantities of the regressions."""


def with_hidden_features(table: xr.Dataset) -> xr.Dataset:
    """The table with the largest norm of features among hidden layers.

    The features of the first layer are the inputs.
    """
    if "feature_norm" not in table:
        return table
    return table.assign({FEATURES: table["feature_norm"].isel(layer=slice(1, None)).max("layer")})


def input_scales(figure: str, activation: str) -> None:
    """On inputs of three scales: which grows more, sharpness or the Jacobian norm.

    App. C.2 compares the growth of both: each is judged by the ratio of the largest value to the
    one at the start. The difference of the two and the largest value are reported.
    """
    source = f"App. C.2, caption of Fig. {figure.removeprefix('fig')}"
    claim, scales = partial(REGRESSION, figure, source=source), "at scale 0.5, 1, 1.5"

    def sweep(e: ResultTables) -> Sweep:
        networks = e[GRID].with_table(with_hidden_features).where(activation=activation)
        return Sweep(networks, "scale", "scale", SCALES, activation, LABELS)

    def other_growths(e: ResultTables, name: str) -> list[dict[str, Any]]:
        return [s.report() for time in ("increase", "most") for s in sweep(e).steps(name, time)]

    @claim(
        f"growth of the Jacobian norm, its maximum over its start, falls: {scales}",
        quote="Scaling data closer together does cause more severe increase in Jacobian norm [...]",
    )
    def _(e: ResultTables) -> Verdict:
        verdict = every(step < 0 for step in sweep(e).steps(SOFTMAX_JACOBIAN, "growth"))
        return verdict.reporting(*other_growths(e, SOFTMAX_JACOBIAN))

    @claim(
        f"growth of lambda_max(H), its maximum over its start, rises: {scales}",
        quote="Surprisingly, we find that while Jacobian growth is more severe for the smaller "
        "scalings, the sharpness growth is less.",
    )
    def _(e: ResultTables) -> Verdict:
        verdict = every(step > 0 for step in sweep(e).steps(SHARPNESS, "growth"))
        verdict = verdict.reporting(*other_growths(e, SHARPNESS))
        label = f"the iteration for an eigenvalue converged; {GRID}"
        return unless_missing(
            lambda: verdict.reporting(violations(label, 1, e[GRID].series("hessian_converged"))),
            lambda _: verdict,
        )

    @claim(
        f"spectral norm of the hidden features, its maximum, rises: {scales}",
        quote="This is due to the data scaling increasing the spectral norm of the feature maps.",
    )
    def _(e: ResultTables) -> Verdict:
        return every(step > 0 for step in sweep(e).steps(FEATURES))


input_scales("fig30", "relu")
input_scales("fig31", "tanh")


def excess(e: ResultTables, grid: str, norm: str, factor: float = 1.0) -> Estimate:
    """`factor` times the mean over networks of high frequency, less the mean over those of low."""
    times, name = "" if factor == 1 else f"{factor:g} ", NORMS[norm]
    label = f"{times}{norm}(high) - {norm}(low); {grid}"
    kinds = INITIALIZATIONS[grid]

    def weighted() -> Estimate:
        high, low = (e[grid].where(initialization=kinds[f]).seeds(name) for f in ("high", "low"))
        return difference(label, factor * high, low)

    return estimate(label, weighted)


def smoother(figure: str, grid: str, **about: Any) -> None:
    """Networks that begin smooth end smoother."""

    @REGRESSION(
        figure,
        f"J(low) < J(high), {ACTIVATIONS[grid]}",
        "caption of Fig. 32",
        "The smoother interpolations have lower Jacobian norm over the training data.",
        **about,
    )
    def _(e: ResultTables) -> Verdict:
        return excess(e, grid, "J") > 0


IN_FLATTER_MINIMA = (
    "[...] we find that while the smoothly interpolating ReLU models on average land in flatter "
    "minima than the non-smoothly interpolating models, the opposite is true for the Gaussian "
    "networks."
)
FIRST_LAYERS = (
    "Note now the discrepancy between the first layer weight norms in the low frequency versus "
    "high frequency fits with the Gaussian networks, which does not occur for the ReLU networks."
)


smoother("fig32", GAUSSIAN)
smoother("fig32", RELU)
smoother("table1", GAUSSIAN, repeats="fig32/c1")
smoother("table2", RELU, repeats="fig32/c2")


@REGRESSION("table1", "sharpness(low) > sharpness(high), Gaussian", "App. C.3", IN_FLATTER_MINIMA)
def _(e: ResultTables) -> Verdict:
    return excess(e, GAUSSIAN, "sharpness") < 0


@REGRESSION(
    "table1",
    f"|W_1|(low) < {NARROW} |W_1|(high), Gaussian",
    "App. C.3",
    FIRST_LAYERS,
    threshold=NARROW,
)
def _(e: ResultTables, share: float) -> Verdict:
    return excess(e, GAUSSIAN, "|W_1|", share) > 0


@REGRESSION("table2", "sharpness(low) < sharpness(high), ReLU", "App. C.3", IN_FLATTER_MINIMA)
def _(e: ResultTables) -> Verdict:
    return excess(e, RELU, "sharpness") > 0


@REGRESSION(
    "table2",
    f"|W_1|(low) is within {ALIKE:.0%} of |W_1|(high), ReLU",
    "App. C.3",
    FIRST_LAYERS,
    threshold=ALIKE,
)
def _(e: ResultTables, share: float) -> Verdict:
    return (excess(e, RELU, "|W_1|", 1 + share) > 0) & (excess(e, RELU, "|W_1|", 1 - share) < 0)
