"""macdonald2023, Figures 1, 6 to 11, 28 to 32, Tables 1 and 2: smoothed labels, scales of inputs.

Networks of `full-batch-grid` are compared as long as the one with unsmoothed labels, and the same
seed, was trained.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from typing import Any

import xarray as xr

from flatlab.lab.claims import Claims
from flatlab.lab.tables.columns import Time
from flatlab.lab.tables.eligibility import estimate, estimates, require, unless_missing
from flatlab.lab.tables.networks import Networks, ResultTables
from flatlab.lab.tables.selection import END
from flatlab.papers.macdonald2023._parts import first, until_unsmoothed_stop
from flatlab.papers.macdonald2023.norms import (
    ACTIVATIONS,
    FIRST_LAYER,
    GAUSSIAN,
    INITIALIZATIONS,
    JACOBIAN,
    RELU,
    SHARPNESS,
)
from flatlab.stats.estimate import Array, Estimate, fisher, over_seeds
from flatlab.stats.trends import difference, mean, tau_in_order
from flatlab.stats.verdict import Verdict, every, theorem, violations

CLAIMS = Claims("macdonald2023")

SOFTMAXED, OUTPUTS, FEATURES = "softmax_jacobian_norm", "output_norm", "hidden_feature_norm"
WORDS = {SOFTMAXED: "J", SHARPNESS: "lambda_max", OUTPUTS: "|F|", FEATURES: "|X|"}
"""The paper's words for quantities that are followed through training."""

AT: dict[Time, str] = {"most": "max", "growth": "growth of", "increase": "increase of"}


@dataclass(frozen=True)
class Sweep:
    """Networks along the values of a hyper-parameter.

    networks: all of them.
    key, word: the hyper-parameter, and what it is called.
    values: its values in order.
    context: what the networks are called.
    """

    networks: Networks
    key: str
    word: str
    values: tuple[float, ...]
    context: str

    def at(self, value: float) -> Networks:
        """Those at one value, as many as a mean needs."""
        networks = self.networks.where(**{self.key: value})
        what = f"networks of {self.context} at {self.word} {value:g}"
        require(networks.count, networks.key, what)
        return networks

    def steps(self, name: str, time: Time = "most") -> list[Estimate]:
        """From each value to the next: how much larger a quantity is at some time."""
        at = [f"{AT[time]} {WORDS[name]}({self.word} {value:g})" for value in self.values]
        labels = [f"{larger} - {smaller}; {self.context}" for smaller, larger in pairwise(at)]

        def differences() -> list[Estimate]:
            columns = [self.at(value).at(time).column(name) for value in self.values]
            pairs = zip(labels, pairwise(columns), strict=True)
            return [difference(label, larger, smaller) for label, (smaller, larger) in pairs]

        return estimates(labels, differences)


# Figures 1, 6 to 11, 28 and 29: smoothed labels ---------------------------------------------------
FULL_BATCH, SGD = "full-batch-grid", "smoothing-grid"
KEY, VALUES = "label_smoothing", (0.0, 0.5, 0.75)

FIRST_EPOCH = 1 / 90
"""The share of the iterations of `smoothing-grid` that Figure 28 shows."""

SHARPENS = 2
"""How many times its start sharpness is at its largest, where it sharpens progressively."""

COLLAPSED, KEPT, VANISHED = 0.01, 0.1, 0.1
"""At the end, as shares of the largest value: at most, if sharpness has collapsed; at least, if it
has not; at most, if the softmaxed Jacobian norm goes to zero."""

FULL_BATCH_FIGURES = {
    f"fig{number}": network
    for number, network in enumerate(product(("vgg", "resnet"), (0.08, 0.04, 0.02)), 6)
}
"""The architecture and the learning rate that each shows."""


def full_batch(e: ResultTables, architecture: str, lr: float) -> Sweep:
    """The networks of `full-batch-grid`, along the smoothing of the labels."""
    cut = e[FULL_BATCH].with_table(until_unsmoothed_stop).where(architecture=architecture, lr=lr)
    return Sweep(cut, KEY, "smoothing", VALUES, f"{architecture}, learning rate {lr:g}")


def sgd(e: ResultTables, share: float = 1.0) -> Sweep:
    """The same of the networks of `smoothing-grid`.  share: of the iterations, the first ones."""
    return Sweep(e[SGD].with_table(first, share), KEY, "smoothing", VALUES, "VGG")


def last(networks: Networks, name: str, share: float) -> Array:
    """A quantity in the last share of the iterations: (networks, checkpoints)."""
    iterations = networks.runs["checkpoint"].values
    values: Array = networks.series(name)[:, iterations >= (1 - share) * iterations.max()]
    return values


def stopped(sweep: Sweep) -> list[dict[str, Any]]:
    """How many of the networks with unsmoothed labels reached the accuracy at which they stop."""
    label = f"share of unsmoothed networks that reached 99 % accuracy; {sweep.context}"

    def share() -> list[dict[str, Any]]:
        ended = sweep.at(0).runs["ended"].values
        return [{"quantity": label, "value": float((ended == "stopped").mean()), "n": len(ended)}]

    return unless_missing(share, lambda _: [])


def milder(figure: str, sweep_of: Callable[[ResultTables], Sweep], source: str, quote: str) -> None:
    """The largest Jacobian norm and sharpness fall with the smoothing of the labels."""

    @CLAIMS(figure, "max J falls with the label smoothing", source, quote)
    def _(e: ResultTables) -> Verdict:
        sweep = sweep_of(e)
        verdict = every(step < 0 for step in sweep.steps(SOFTMAXED))
        return verdict.reporting(*(stopped(sweep) if sweep.networks.key == FULL_BATCH else []))

    CLAIMS(figure, "max lambda_max(H) falls with the label smoothing", source, quote)(
        lambda e: every(step < 0 for step in sweep_of(e).steps(SHARPNESS))
    )


def end_over_max(sweep: Sweep, name: str, smoothing: float = 0) -> Estimate:
    """The mean over the last 5 % of the iterations as a share of the largest value."""
    label = f"end / max of {WORDS[name]}; {sweep.context}, smoothing {smoothing:g}"

    def ratio() -> Estimate:
        networks = sweep.at(smoothing)
        end = last(networks, name, END).mean(axis=1)
        return over_seeds(label, mean, end / networks.at("most").column(name))

    return estimate(label, ratio)


LESS_SHARPENING = (
    "Increasing label smoothing (indicated by line style) brings targets closer together, meaning "
    "less growth is necessary in the Jacobian norm to reduce loss. This coincides with less "
    "sharpening of the Hessian during training, in line with Ansatz 3.1."
)
IN_ALL_CASES = (
    "In all cases, the smoother labels are associated with less severe increase in Jacobian and "
    "sharpness during training, as predicted by Equation (11)."
)
EXACTLY_AS = (
    "Exactly as in the full batch GD case, the smoother labels are associated with less severe "
    "increase of the Jacobian and less severe progressive sharpening."
)


def goes_with_sharpness(figure: str, sweep_of: Callable[[ResultTables], Sweep]) -> None:
    """The ansatz, for each smoothing of the labels."""
    CLAIMS(
        figure,
        "rho_t(J, lambda_max(H)) > 0 over the training, at each label smoothing",
        "Sec. 3, Ansatz 3.1",
        "an increase in the magnitude of the input-output Jacobian of a deep neural network will "
        "cause an increase in the loss sharpness. Conversely, a decrease in the sharpness will "
        "cause a decrease in the magnitude of the input-output Jacobian.",
    )(
        lambda e: every(
            rho > 0
            for value in VALUES
            for rho in sweep_of(e).at(value).curves.rhos((SOFTMAXED, SHARPNESS), window="training")
        )
    )


for figure, (architecture, lr) in FULL_BATCH_FIGURES.items():
    if figure != "fig6":  # its networks are those of Figure 1
        sweep_of = partial(full_batch, architecture=architecture, lr=lr)
        milder(figure, sweep_of, "App. B.1", IN_ALL_CASES)
        goes_with_sharpness(figure, sweep_of)

shown_first = partial(full_batch, architecture="vgg", lr=0.08)
milder("fig1", shown_first, "caption of Fig. 1", LESS_SHARPENING)
CLAIMS.repeat("fig6", "fig1", "c1", "c2", source="App. B.1", quote=IN_ALL_CASES)


@CLAIMS(
    "fig1",
    f"max lambda_max(H) > {SHARPENS} lambda_max(H) at the start, without label smoothing",
    "Sec. 5",
    "[...] training will thus also increase the sample-maximum Jacobian norm, which, by Ansatz "
    "3.1, can be expected to cause a corresponding increase in the magnitude of the loss Hessian "
    "(see Appendix A.1): progressive sharpening.",
    threshold=SHARPENS,
)
def _(e: ResultTables, times: float) -> Verdict:
    networks = shown_first(e).at(0)
    largest, start = (networks.at(time).column(SHARPNESS) for time in ("most", "start"))
    name = f"max lambda_max - {times:g} lambda_max at the start; smoothing 0"
    return over_seeds(name, mean, largest - times * start) > 0


@CLAIMS(
    "fig1",
    "|F(x1) - F(x2)| >= |y1 - y2| - e1 - e2 for all pairs of samples with different labels",
    "Sec. 5",
    "Since f(x_1) and f(x_2) are at their closest when on the straight line segment between y_1 "
    "and y_2, it follows that [...]",
    nature="check",
)
def _(e: ResultTables) -> Verdict:
    below, segments = (e[FULL_BATCH].series(f"{name}_below") for name in ("pairs", "segments"))
    label = f"segments on which the Jacobian norm stays below the pair's bound; {FULL_BATCH}"
    verdict = theorem(f"pairs below the bound <= 0; {FULL_BATCH}", below, 0)
    return verdict.reporting(violations(label, segments, 0))


goes_with_sharpness("fig1", shown_first)
milder("fig28", partial(sgd, share=FIRST_EPOCH), "caption of Fig. 28", EXACTLY_AS)


@CLAIMS(
    "fig29",
    f"lambda_max(H) at the end: below {COLLAPSED} of its maximum without label smoothing, above "
    f"{KEPT} of it with smoothing",
    "caption of Fig. 29",
    "[...] ultimately causing the sharpness with unsmoothed labels to collapse to zero, whereas "
    "sharpness values for smoothed labels plateau at nonzero values.",
)
def _(e: ResultTables) -> Verdict:
    unsmoothed, *smoothed = (end_over_max(sgd(e), SHARPNESS, value) for value in VALUES)
    return every([unsmoothed < COLLAPSED, *(share > KEPT for share in smoothed)])


@CLAIMS(
    "fig29",
    "the output norm at the end is larger without label smoothing than with, and still rises: "
    "trend over the last half > 0",
    "App. C.1",
    "The reason for this is that the norm of the network output grows to infinity in the "
    "unsmoothed case",
)
def _(e: ResultTables) -> Verdict:
    sweep = sgd(e)

    def larger(value: float) -> Estimate:
        label = f"|F|(smoothing 0) - |F|(smoothing {value:g}), at the end"
        ends = (last(sweep.at(v), OUTPUTS, END).mean(axis=1) for v in (0, value))
        return estimate(label, lambda: difference(label, *ends))

    half = last(sweep.at(0), OUTPUTS, 0.5)
    n = half.shape[1]
    trends = fisher(tau_in_order(half), n * (n - 1) / 2)
    trend = over_seeds("trend(|F|, last half); smoothing 0", mean, trends, on_z=True)
    return every([trend > 0, *(larger(value) > 0 for value in VALUES[1:])])


CLAIMS(
    "fig29",
    f"the softmaxed J at the end < {VANISHED} of its maximum, without label smoothing",
    "caption of Fig. 29",
    "the growth in output norm therefore also drives the Jacobian norm to zero.",
    threshold=VANISHED,
)(lambda e, share: end_over_max(sgd(e), SOFTMAXED) < share)


goes_with_sharpness("fig29", sgd)


# Figures 30 to 32, Tables 1 and 2: inputs of three scales, and eight points -----------------------
SCALED = "input-scale-grid"
SCALES = (0.5, 1.0, 1.5)

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
    claim, scales = partial(CLAIMS, figure, source=source), "at scale 0.5, 1, 1.5"

    def sweep(e: ResultTables) -> Sweep:
        networks = e[SCALED].with_table(with_hidden_features).where(activation=activation)
        return Sweep(networks, "scale", "scale", SCALES, activation)

    def other_growths(e: ResultTables, name: str) -> list[dict[str, Any]]:
        return [s.report() for time in ("increase", "most") for s in sweep(e).steps(name, time)]

    @claim(
        f"growth of the Jacobian norm, its maximum over its start, falls: {scales}",
        quote="Scaling data closer together does cause more severe increase in Jacobian norm [...]",
    )
    def _(e: ResultTables) -> Verdict:
        verdict = every(step < 0 for step in sweep(e).steps(SOFTMAXED, "growth"))
        return verdict.reporting(*other_growths(e, SOFTMAXED))

    @claim(
        f"growth of lambda_max(H), its maximum over its start, rises: {scales}",
        quote="Surprisingly, we find that while Jacobian growth is more severe for the smaller "
        "scalings, the sharpness growth is less.",
    )
    def _(e: ResultTables) -> Verdict:
        verdict = every(step > 0 for step in sweep(e).steps(SHARPNESS, "growth"))
        verdict = verdict.reporting(*other_growths(e, SHARPNESS))
        label = f"the iteration for an eigenvalue converged; {SCALED}"
        return unless_missing(
            lambda: verdict.reporting(violations(label, 1, e[SCALED].series("hessian_converged"))),
            lambda _: verdict,
        )

    claim(
        f"spectral norm of the hidden features, its maximum, rises: {scales}",
        quote="This is due to the data scaling increasing the spectral norm of the feature maps.",
    )(lambda e: every(step > 0 for step in sweep(e).steps(FEATURES)))


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


IN_FLATTER_MINIMA = (
    "[...] we find that while the smoothly interpolating ReLU models on average land in flatter "
    "minima than the non-smoothly interpolating models, the opposite is true for the Gaussian "
    "networks."
)
FIRST_LAYERS = (
    "Note now the discrepancy between the first layer weight norms in the low frequency versus "
    "high frequency fits with the Gaussian networks, which does not occur for the ReLU networks."
)


for grid, activation in ACTIVATIONS.items():
    CLAIMS(
        "fig32",
        f"J(low) < J(high), {activation}",
        "caption of Fig. 32",
        "The smoother interpolations have lower Jacobian norm over the training data.",
    )(partial(lambda e, grid: excess(e, grid, "J") > 0, grid=grid))
CLAIMS.repeat("table1", "fig32", "c1")
CLAIMS.repeat("table2", "fig32", "c2")
CLAIMS("table1", "sharpness(low) > sharpness(high), Gaussian", "App. C.3", IN_FLATTER_MINIMA)(
    lambda e: excess(e, GAUSSIAN, "sharpness") < 0
)
CLAIMS(
    "table1",
    f"|W_1|(low) < {NARROW} |W_1|(high), Gaussian",
    "App. C.3",
    FIRST_LAYERS,
    threshold=NARROW,
)(lambda e, share: excess(e, GAUSSIAN, "|W_1|", share) > 0)
CLAIMS("table2", "sharpness(low) < sharpness(high), ReLU", "App. C.3", IN_FLATTER_MINIMA)(
    lambda e: excess(e, RELU, "sharpness") > 0
)
CLAIMS(
    "table2",
    f"|W_1|(low) is within {ALIKE:.0%} of |W_1|(high), ReLU",
    "App. C.3",
    FIRST_LAYERS,
    threshold=ALIKE,
)(
    lambda e, share: (
        (excess(e, RELU, "|W_1|", 1 + share) > 0) & (excess(e, RELU, "|W_1|", 1 - share) < 0)
    )
)
