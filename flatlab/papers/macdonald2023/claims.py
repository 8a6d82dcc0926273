"""macdonald2023: what the paper says of its figures and tables."""

from typing import Any

import numpy as np

from flatlab.claims import Claim, Claims, Evidence, numbered, states
from flatlab.claims.eligibility import enough
from flatlab.claims.evidence import attempt, estimate
from flatlab.papers.macdonald2023._frequencies import ACTIVATIONS, GAUSSIAN, RELU, by_frequency
from flatlab.papers.macdonald2023._rates import RATES
from flatlab.papers.macdonald2023._regularizers import REGULARIZERS
from flatlab.papers.macdonald2023._smoothing import SMOOTHING
from flatlab.papers.macdonald2023._steps import Steps, growth, highest, increase
from flatlab.stats import Estimate, Verdict, every, violations
from flatlab.stats.trends import difference

GRID = "input-scale-grid"
SCALES = (0.5, 1.0, 1.5)

NARROW = 0.1
"""A much smaller first layer has at most this share of the norm of another."""

ALIKE = 0.1
"""The norms of two similar first layers differ by at most this share."""

JACOBIAN, SHARPNESS = "softmax_jacobian_norm", "hessian_lambda_max"
NORMS = {"J": "jacobian_norm", "sharpness": SHARPNESS, "|W_1|": "first_layer_norm"}
"""The paper's words for the quantities of the regressions."""


def of_scales(activation: str, quantity: str, label: str) -> Steps:
    """A quantity of the networks of `input-scale-grid`, along the scales."""
    return Steps(
        GRID, {"activation": activation}, activation, "scale", "scale", SCALES, quantity, label
    )


def beside_growth(e: Evidence, steps: Steps) -> list[dict[str, Any]]:
    """The other statistics of how much a quantity grows."""
    others = {"increase of": increase, "max": highest}
    return [step.report() for what, of in others.items() for step in steps.of(e, what, of)]


def input_scales(activation: str, figure: int) -> Claims:
    """On inputs of three scales: which grows more, sharpness or the Jacobian norm.

    App. C.2 compares the growth of both: each is judged by the ratio of the largest value to the
    one at the start. The difference of the two and the largest value are reported.
    """
    source, scales = f"App. C.2, caption of Fig. {figure}", "at scale 0.5, 1, 1.5"
    of_jacobian = of_scales(activation, JACOBIAN, "J")
    of_sharpness = of_scales(activation, SHARPNESS, "lambda_max")
    of_features = of_scales(activation, "feature_norm", "|X|")

    @states(
        f"growth of the Jacobian norm, its maximum over its start, falls: {scales}",
        source,
        quote="Scaling data closer together does cause more severe increase in Jacobian norm [...]",
    )
    def jacobian(e: Evidence) -> Verdict:
        verdict = every(step < 0 for step in of_jacobian.of(e, "growth of", growth))
        return verdict.reporting(*beside_growth(e, of_jacobian))

    @states(
        f"growth of lambda_max(H), its maximum over its start, rises: {scales}",
        source,
        quote="Surprisingly, we find that while Jacobian growth is more severe for the smaller "
        "scalings, the sharpness growth is less.",
    )
    def sharpness(e: Evidence) -> Verdict:
        verdict = every(step > 0 for step in of_sharpness.of(e, "growth of", growth))
        verdict = verdict.reporting(*beside_growth(e, of_sharpness))
        label = f"the iteration for an eigenvalue converged; {GRID}"
        return attempt(
            lambda: verdict.reporting(violations(label, 1, e.values(GRID, "hessian_converged"))),
            lambda _: verdict,
        )

    @states(
        f"spectral norm of the hidden features, its maximum, rises: {scales}",
        source,
        quote="This is due to the data scaling increasing the spectral norm of the feature maps.",
    )
    def features(e: Evidence) -> Verdict:
        # of hidden layers: the features of the first layer are the inputs
        largest = of_features.of(e, "max", lambda curves: highest(curves[:, :, 1:]))
        return every(step > 0 for step in largest)

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


def smoother(grid: str, **about: Any) -> Claim:
    """The claim that networks that begin smooth end smoother."""

    @states(
        f"J(low) < J(high), {ACTIVATIONS[grid]}",
        "caption of Fig. 32",
        quote="The smoother interpolations have lower Jacobian norm over the training data.",
        **about,
    )
    def claim(e: Evidence) -> Verdict:
        return excess(e, grid, "J") > 0

    return claim


IN_FLATTER_MINIMA = (
    "[...] we find that while the smoothly interpolating ReLU models on average land in flatter "
    "minima than the non-smoothly interpolating models, the opposite is true for the Gaussian "
    "networks."
)
FIRST_LAYERS = (
    "Note now the discrepancy between the first layer weight norms in the low frequency versus "
    "high frequency fits with the Gaussian networks, which does not occur for the ReLU networks."
)


@states("sharpness(low) > sharpness(high), Gaussian", "App. C.3", quote=IN_FLATTER_MINIMA)
def sharper(e: Evidence) -> Verdict:
    return excess(e, GAUSSIAN, "sharpness") < 0


@states("sharpness(low) < sharpness(high), ReLU", "App. C.3", quote=IN_FLATTER_MINIMA)
def flatter(e: Evidence) -> Verdict:
    return excess(e, RELU, "sharpness") > 0


@states(
    f"|W_1|(low) < {NARROW} |W_1|(high), Gaussian", "App. C.3", quote=FIRST_LAYERS, threshold=NARROW
)
def narrow(e: Evidence, share: float) -> Verdict:
    return excess(e, GAUSSIAN, "|W_1|", share) > 0


@states(
    f"|W_1|(low) is within {ALIKE:.0%} of |W_1|(high), ReLU",
    "App. C.3",
    quote=FIRST_LAYERS,
    threshold=ALIKE,
)
def alike(e: Evidence, share: float) -> Verdict:
    return (excess(e, RELU, "|W_1|", 1 + share) > 0) & (excess(e, RELU, "|W_1|", 1 - share) < 0)


FIG32 = "macdonald2023_fig32"
CLAIMS: dict[str, Claims] = {
    **SMOOTHING,
    **RATES,
    **REGULARIZERS,
    "fig30": input_scales("relu", 30),
    "fig31": input_scales("tanh", 31),
    "fig32": numbered(smoother(GAUSSIAN), smoother(RELU)),
    "table1": numbered(smoother(GAUSSIAN, repeats=f"{FIG32}/c1"), sharper, narrow),
    "table2": numbered(smoother(RELU, repeats=f"{FIG32}/c2"), flatter, alike),
}
"""macdonald2023: On progressive sharpening, flat minima and generalisation."""
