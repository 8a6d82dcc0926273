"""macdonald2023, Figures 1, 6 to 11, 28 and 29: what smoothed labels do to training.

Networks of `full-batch-grid` are compared as long as the one with unsmoothed labels, and the same
seed, was trained.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from flatlab.lab.claims.registry import Claims
from flatlab.lab.claims.result_tables import ResultTables
from flatlab.lab.tables.eligibility import estimate, unless_missing
from flatlab.lab.tables.networks import Networks
from flatlab.lab.tables.selection import END, first, until_stop
from flatlab.papers.macdonald2023._networks import SHARPNESS, Sweep
from flatlab.papers.macdonald2023._networks import SOFTMAX_JACOBIAN as JACOBIAN
from flatlab.stats.estimate import Array, Estimate, fisher, over_seeds
from flatlab.stats.trends import difference, mean, tau_in_order
from flatlab.stats.verdict import Verdict, every, theorem, violations

SMOOTHING = Claims("macdonald2023")

FULL_BATCH, SGD = "full-batch-grid", "smoothing-grid"
OUTPUTS = "output_norm"
KEY, VALUES = "label_smoothing", (0.0, 0.5, 0.75)
LABELS = {JACOBIAN: "J", SHARPNESS: "lambda_max", OUTPUTS: "|F|"}

FIRST_EPOCH = 1 / 90
"""The share of the iterations of `smoothing-grid` that Figure 28 shows."""

SHARPENS = 2
"""How many times its start sharpness is at its largest, where it sharpens progressively."""

COLLAPSED, KEPT, VANISHED = 0.01, 0.1, 0.1
"""At the end, as shares of the largest value: at most, if sharpness has collapsed; at least, if it
has not; at most, if the softmaxed Jacobian norm goes to zero."""

FULL_BATCH_FIGURES = {
    "fig6": ("vgg", 0.08),
    "fig7": ("vgg", 0.04),
    "fig8": ("vgg", 0.02),
    "fig9": ("resnet", 0.08),
    "fig10": ("resnet", 0.04),
    "fig11": ("resnet", 0.02),
}
"""The architecture and the learning rate that each shows."""


def full_batch(e: ResultTables, architecture: str, lr: float) -> Sweep:
    """The networks of `full-batch-grid`, along the smoothing of the labels."""
    cut = e[FULL_BATCH].with_table(until_stop, {KEY: 0.0}).where(architecture=architecture, lr=lr)
    return Sweep(cut, KEY, "smoothing", VALUES, f"{architecture}, learning rate {lr:g}", LABELS)


def sgd(e: ResultTables, share: float = 1.0) -> Sweep:
    """The same of the networks of `smoothing-grid`.  share: of the iterations, the first ones."""
    return Sweep(e[SGD].with_table(first, share), KEY, "smoothing", VALUES, "VGG", LABELS)


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

    @SMOOTHING(figure, "max J falls with the label smoothing", source, quote)
    def _(e: ResultTables) -> Verdict:
        sweep = sweep_of(e)
        verdict = every(step < 0 for step in sweep.steps(JACOBIAN))
        return verdict.reporting(*(stopped(sweep) if sweep.networks.key == FULL_BATCH else []))

    @SMOOTHING(figure, "max lambda_max(H) falls with the label smoothing", source, quote)
    def _(e: ResultTables) -> Verdict:
        return every(step < 0 for step in sweep_of(e).steps(SHARPNESS))


def end_over_max(sweep: Sweep, name: str, smoothing: float = 0) -> Estimate:
    """The mean over the last 5 % of the iterations as a share of the largest value."""
    label = f"end / max of {LABELS[name]}; {sweep.context}, smoothing {smoothing:g}"

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


for figure, (architecture, lr) in FULL_BATCH_FIGURES.items():
    if figure != "fig6":  # its networks are those of Figure 1
        sweep_of = partial(full_batch, architecture=architecture, lr=lr)
        milder(figure, sweep_of, "App. B.1", IN_ALL_CASES)

shown_first = partial(full_batch, architecture="vgg", lr=0.08)
milder("fig1", shown_first, "caption of Fig. 1", LESS_SHARPENING)
SMOOTHING.repeat("fig6", "fig1", "c1", "c2", source="App. B.1", quote=IN_ALL_CASES)


@SMOOTHING(
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


@SMOOTHING(
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


milder("fig28", partial(sgd, share=FIRST_EPOCH), "caption of Fig. 28", EXACTLY_AS)


@SMOOTHING(
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


@SMOOTHING(
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


@SMOOTHING(
    "fig29",
    f"the softmaxed J at the end < {VANISHED} of its maximum, without label smoothing",
    "caption of Fig. 29",
    "the growth in output norm therefore also drives the Jacobian norm to zero.",
    threshold=VANISHED,
)
def _(e: ResultTables, share: float) -> Verdict:
    return end_over_max(sgd(e), JACOBIAN) < share
