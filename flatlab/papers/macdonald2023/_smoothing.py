"""macdonald2023, Figures 1, 6 to 11, 28 and 29: what smoothed labels do to training.

Networks of `full-batch-grid` are compared as long as the one with unsmoothed labels, and the same
seed, was trained. Claims about sharpness need eigenvalues that converged.
"""

from typing import Any

from flatlab.claims import Claims, Evidence, numbered, states
from flatlab.claims.evidence import attempt, estimate
from flatlab.papers.macdonald2023._steps import Steps, check_convergence, highest
from flatlab.stats import Estimate, Verdict, every, over_seeds, theorem, violations
from flatlab.stats.estimate import fisher
from flatlab.stats.trends import difference, mean, tau_in_order
from flatlab.tables.selection import END

FULL_BATCH, SGD = "full-batch-grid", "smoothing-grid"
JACOBIAN, SHARPNESS, OUTPUTS = "softmax_jacobian_norm", "hessian_lambda_max", "output_norm"
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


def full_batch(architecture: str, lr: float, quantity: str) -> Steps:
    """A quantity of the networks of `full-batch-grid`, along the smoothing of the labels."""
    where = {"architecture": architecture, "lr": lr}
    context = f"{architecture}, learning rate {lr:g}"
    key = (KEY, "smoothing", VALUES)
    return Steps(FULL_BATCH, where, context, *key, quantity, LABELS[quantity], until={KEY: 0.0})


def sgd(quantity: str, share: float = 1.0) -> Steps:
    """The same of the networks of `smoothing-grid`."""
    key = (KEY, "smoothing", VALUES)
    return Steps(SGD, {}, "VGG", *key, quantity, LABELS[quantity], share=share)


def stopped(e: Evidence, steps: Steps) -> list[dict[str, Any]]:
    """How many of the networks with unsmoothed labels reached the accuracy at which they stop."""
    if not steps.until:
        return []
    label = f"share of unsmoothed networks that reached 99 % accuracy; {steps.context}"

    def found() -> list[dict[str, Any]]:
        ended = steps.runs(e, 0)["ended"].values
        return [{"quantity": label, "value": float((ended == "stopped").mean()), "n": len(ended)}]

    return attempt(found, lambda _: [])


def milder(jacobian: Steps, sharpness: Steps, source: str, quote: str, repeats: str = "") -> Claims:
    """The largest Jacobian norm and sharpness fall with the smoothing of the labels."""

    def again(key: str) -> str:
        return f"{repeats}/{key}" if repeats else ""

    @states("max J falls with the label smoothing", source, quote=quote, repeats=again("c1"))
    def of_jacobian(e: Evidence) -> Verdict:
        verdict = every(step < 0 for step in jacobian.of(e, "max", highest))
        return verdict.reporting(*stopped(e, jacobian))

    @states(
        "max lambda_max(H) falls with the label smoothing", source, quote=quote, repeats=again("c2")
    )
    def of_sharpness(e: Evidence) -> Verdict:
        check_convergence(e, sharpness.grid, "hessian")
        return every(step < 0 for step in sharpness.of(e, "max", highest))

    return numbered(of_jacobian, of_sharpness)


def end_over_max(e: Evidence, steps: Steps, smoothing: float = 0) -> Estimate:
    """The mean over the last 5 % of the iterations as a share of the largest value."""
    label = f"end / max of {steps.label}; {steps.context}, smoothing {smoothing:g}"

    def found() -> Estimate:
        end = steps.curves(e, smoothing, last=END).mean(axis=1)
        return over_seeds(label, mean, end / highest(steps.curves(e, smoothing)))

    return estimate(label, found)


@states(
    f"max lambda_max(H) > {SHARPENS} lambda_max(H) at the start, without label smoothing",
    "Sec. 5",
    quote="[...] training will thus also increase the sample-maximum Jacobian norm, which, by "
    "Ansatz 3.1, can be expected to cause a corresponding increase in the magnitude of the loss "
    "Hessian (see Appendix A.1): progressive sharpening.",
    threshold=SHARPENS,
)
def sharpens(e: Evidence, times: float) -> Verdict:
    check_convergence(e, FULL_BATCH, "hessian")
    curves = full_batch("vgg", 0.08, SHARPNESS).curves(e, 0)
    name = f"max lambda_max - {times:g} lambda_max at the start; smoothing 0"
    return over_seeds(name, mean, highest(curves) - times * curves[:, 0]) > 0


@states(
    "|F(x1) - F(x2)| >= |y1 - y2| - e1 - e2 for all pairs of samples with different labels",
    "Sec. 5",
    quote="Since f(x_1) and f(x_2) are at their closest when on the straight line segment between "
    "y_1 and y_2, it follows that [...]",
    nature="check",
)
def pairs(e: Evidence) -> Verdict:
    below, segments = (e.values(FULL_BATCH, f"{name}_below") for name in ("pairs", "segments"))
    label = f"segments on which the Jacobian norm stays below the pair's bound; {FULL_BATCH}"
    verdict = theorem(f"pairs below the bound <= 0; {FULL_BATCH}", below, 0)
    return verdict.reporting(violations(label, segments, 0))


@states(
    f"lambda_max(H) at the end: below {COLLAPSED} of its maximum without label smoothing, above "
    f"{KEPT} of it with smoothing",
    "caption of Fig. 29",
    quote="[...] ultimately causing the sharpness with unsmoothed labels to collapse to zero, "
    "whereas sharpness values for smoothed labels plateau at nonzero values.",
)
def collapses(e: Evidence) -> Verdict:
    check_convergence(e, SGD, "hessian")
    shares = [end_over_max(e, sgd(SHARPNESS), value) for value in VALUES]
    return every([shares[0] < COLLAPSED, *(share > KEPT for share in shares[1:])])


@states(
    "the output norm at the end is larger without label smoothing than with, and still rises: "
    "trend over the last half > 0",
    "App. C.1",
    quote="The reason for this is that the norm of the network output grows to infinity in the "
    "unsmoothed case",
)
def outputs_grow(e: Evidence) -> Verdict:
    steps = sgd(OUTPUTS)

    def larger(value: float) -> Estimate:
        label = f"|F|(smoothing 0) - |F|(smoothing {value:g}), at the end"
        ends = (steps.curves(e, at, last=END).mean(axis=1) for at in (0, value))
        return estimate(label, lambda: difference(label, *ends))

    half = steps.curves(e, 0, last=0.5)
    n = half.shape[1]
    trends = fisher(tau_in_order(half), n * (n - 1) / 2)
    trend = over_seeds("trend(|F|, last half); smoothing 0", mean, trends, on_z=True)
    return every([trend > 0, *(larger(value) > 0 for value in VALUES[1:])])


@states(
    f"the softmaxed J at the end < {VANISHED} of its maximum, without label smoothing",
    "caption of Fig. 29",
    quote="the growth in output norm therefore also drives the Jacobian norm to zero.",
    threshold=VANISHED,
)
def jacobian_vanishes(e: Evidence, share: float) -> Verdict:
    return end_over_max(e, sgd(JACOBIAN)) < share


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


def of_full_batch(figure: str, source: str, quote: str, repeats: str = "") -> Claims:
    """c1 and c2 of a figure of `full-batch-grid`."""
    shown = FULL_BATCH_FIGURES[figure]
    return milder(
        full_batch(*shown, JACOBIAN), full_batch(*shown, SHARPNESS), source, quote, repeats
    )


SMOOTHING: dict[str, Claims] = {
    "fig1": {
        **of_full_batch("fig6", "caption of Fig. 1", LESS_SHARPENING),
        "c3": sharpens,
        "c4": pairs,
    },
    **{
        figure: of_full_batch(
            figure, "App. B.1", IN_ALL_CASES, "macdonald2023_fig1" if figure == "fig6" else ""
        )
        for figure in FULL_BATCH_FIGURES
    },
    "fig28": milder(
        sgd(JACOBIAN, FIRST_EPOCH), sgd(SHARPNESS, FIRST_EPOCH), "caption of Fig. 28", EXACTLY_AS
    ),
    "fig29": numbered(collapses, outputs_grow, jacobian_vanishes),
}
