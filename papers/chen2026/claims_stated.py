"""chen2026: what the text states of networks, of which no figure shows the numbers.

Judged on the networks of Figures H.7 to H.9. Bounds, and what they bound, are of all networks; in
convolutional ones, where weights are shared, they are proxies.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from flatlab.lab.tables.curves import Curves, Window
from flatlab.lab.tables.eligibility import estimate
from flatlab.lab.tables.networks import Networks, ResultTables
from flatlab.lab.tables.selection import INTERPOLATES
from flatlab.papers.chen2026.claims_trends import (
    DURING,
    PERCEPTRON_RATES,
    QUANTITIES,
    TEST_SAMPLES,
    VGG_RATES,
    PairPlot,
)
from flatlab.stats.estimate import Array, Estimate
from flatlab.stats.time_weights import Weight
from flatlab.stats.verdict import Verdict, every

MLS, NMLS = ("mls", "bound_d"), ("nmls", "nmls_bound")
LVR = "log_mean_volume", "log_volume_bound"
NVR = "network_log_volume", "network_log_volume_bound"
"""Measures of compression, and their bounds."""

SMALLER = 0.5
"""Ours: a gap that is significantly smaller is less than this share of the other one."""

ADAPTIVE = QUANTITIES["adaptive sharpness"]
INVARIANT = (("matrix_normalized_sharpness", "weighted_mls"), (ADAPTIVE, "input_invariant_mls"))
"""Sharpness that rescaling does not change, and the sensitivity that it bounds: F.2 and F.8."""

ABSTRACT = (
    "We introduce network-wide variants (NMLS, NVR) that account for all layer weights, providing "
    "tighter and more stable bounds than prior single-layer analyses."
)
NORMALIZED = (
    "these normalized metrics account for the prefactor variations and reveal that the "
    "sharpness-compression relationship holds even across heterogeneous model families"
)
PART = (
    "partial sharpness [...] (sensitivity of the loss w.r.t. only the input weights) is more "
    "indicative of the change in the maximum local sensitivity"
)
Columns = tuple[str, str]


def over_networks(
    plot: PairPlot, e: ResultTables, what: str, of: Callable[[Networks], Array]
) -> Estimate:
    """The mean over networks of a number of each.  what: its name."""
    name = f"{what}; {plot.grid}"
    networks = e[plot.grid].that_interpolate()
    return estimate(name, lambda: networks.mean_of(name, of(networks)))


def looser(networks: Networks, first: Columns, other: Columns, logs: str = "") -> Array:
    """ln(bound / value) of one measure less that of another: (networks)."""
    columns = (networks.column(f"{logs}{name}") for name in (*first, *other))
    value, bound, of_other, other_bound = columns
    return (bound - value) - (other_bound - of_other)


of_sensitivity = partial(looser, first=MLS, other=NMLS, logs="log ")
of_volume = partial(looser, first=LVR, other=NVR)


def gaps(networks: Networks, share: float) -> Array:
    """1 - sqrt(S of all weights / S) less a share of that of the first layer's: (networks)."""
    layers = range(networks.table.sizes["layer"])
    of_layers = np.stack([networks.column(f"sharpness_per_layer[{n}]") for n in layers])
    first, every_layer = np.sqrt(
        np.stack([of_layers[0], of_layers.sum(axis=0)]) / networks.column("sharpness")
    )
    return (1 - every_layer) - share * (1 - first)


def stated(plot: PairPlot) -> None:
    """What is said of the networks of a pair plot."""

    @plot.says(
        "ln(bound / value), mean over networks: that of NMLS is below that of MLS, and that of NVR "
        "below that of LVR",
        "abstract",
        ABSTRACT,
        key="c17",
    )
    def _(e: ResultTables) -> Verdict:
        parts = {"MLS's - NMLS's": of_sensitivity, "LVR's - NVR's": of_volume}
        return every(
            over_networks(plot, e, f"ln(bound / value), {what}", looser_by) > 0
            for what, looser_by in parts.items()
        )

    @plot.says(
        "rho(NMLS, its bound) > rho(MLS, its bound), and rho(NVR, its bound) > rho(LVR, its bound)",
        "abstract",
        ABSTRACT,
        key="c18",
    )
    def _(e: ResultTables) -> Verdict:
        nmls, mls, nvr, lvr = plot.rhos(e, NMLS, MLS, NVR, LVR)
        return (nmls > mls) & (nvr > lvr)

    @plot.says(
        f"1 - sqrt(sum of S(W_l) / S) < {SMALLER} (1 - sqrt(S(W_1) / S)), mean over networks",
        "App. E",
        "Note that the gap in the last inequality is significantly smaller than that of Equation "
        "(40) since now we consider all linear weights.",
        key="c19",
        threshold=SMALLER,
    )
    def _(e: ResultTables, share: float) -> Verdict:
        what = f"gap with all layers - {share:g} of that with the first"
        return over_networks(plot, e, what, lambda networks: gaps(networks, share)) < 0

    plot.above("adaptive sharpness", ["normalized MLS"], "Sec. 3.2", NORMALIZED, key="c20")

    @plot.says(
        "rho(matrix-normalized sharpness, weighted MLS) > 0 and rho(adaptive sharpness, "
        "input-invariant MLS) > 0",
        "Sec. 3.4",
        "reparametrization-invariant sharpness is characterized by the robustness of outputs to "
        "internal neural representations",
        key="c21",
    )
    def _(e: ResultTables) -> Verdict:
        return every(rho > 0 for rho in plot.rhos(e, *INVARIANT))

    plot.closer("MLS", ["partial sharpness"], ["sharpness"], "caption of Fig. H.6", PART, key="c22")


def of_training() -> None:
    """What is said of networks in training."""
    for trend, key in ((VGG_RATES, "c9"), (PERCEPTRON_RATES, "c6")):

        @trend.each(
            "ln LVR < 0 at the end, trend(LVR) < 0 and trend(MLS) < 0, in each line",
            "Sec. 3.2",
            "trained networks do indeed exhibit compression: we observe decreasing LVR and MLS "
            "values during training",
            key=key,
            under=DURING,
        )
        def _(line: Curves, window: Window, by: Weight) -> Verdict:
            end = line.over_runs("ln LVR at the end", lambda: line.ends(LVR[0])[0])
            falls = (line.trend(name, window, by=by) < 0 for name in (LVR[0], "mls"))
            return every([end < 0, *falls])

    TEST_SAMPLES.each(
        f"the test loss at the end is below {INTERPOLATES:g}, as the training loss of a network "
        "that interpolates",
        "App. J",
        "we found that the test loss is small enough (Figure J.12) so that it should be a good "
        "approximation for test data as well",
        key="c6",
        threshold=INTERPOLATES,
    )(
        lambda line, limit: (
            line.over_runs("test loss at the end", lambda: line.ends("test_loss")[0]) < limit
        )
    )
