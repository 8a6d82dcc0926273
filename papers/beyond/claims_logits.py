"""beyond: whether the scale of the logits turns the relation of sharpness and sensitivity.

Declared before any of the networks was trained. On half-MSE flatter networks are less sensitive, on
cross-entropy more (joint grids, where the rate alone varies: tau 0.5 and 0.9, -0.4 and -1.0). The
cross-entropy falls as outputs grow; that of normalized outputs does not see their scale. The rate
alone varies between networks of all seeds. Pairs of losses are paired by rate and seed, with which
networks start alike and see the same data in the same order.

Simulated on this design, with the effects of the rate and the spread of seeds that the joint grids
have on cross-entropy and one pilot has on normalized outputs, and half of the spread shared by the
rates of a seed: the first statement is found with a probability of 0.99 and more. If the scale of
the outputs rises with the rate and MLS follows it, and follows sharpness to a power of at most a
half, the second is found with 0.90 and more.

Left out are networks that diverge or have a training error above 1 %.
"""

from itertools import chain

import numpy as np

from flatlab.lab.claims import Claims
from flatlab.lab.tables.eligibility import FEWEST_FOR_RANKS, estimates, require
from flatlab.lab.tables.networks import Networks, ResultTables
from flatlab.papers.beyond._joint import FITS
from flatlab.papers.beyond.claims_joint import BEFORE
from flatlab.stats.estimate import Estimate
from flatlab.stats.ranks import Ranks, pairs_of
from flatlab.stats.verdict import Verdict, every

LOGITS = Claims("beyond")
FIGURE = "fig16"
GRIDS = {"logits-mlp-grid": "perceptrons", "logits-lenet-grid": "LeNets"}
PLAIN, NORMALIZED = "cross-entropy", "normalized-cross-entropy"
LOSSES = (PLAIN, NORMALIZED, "half-mse")
FACTORS = {"lr": "rate alone", "batch_size": "batch size alone"}
OUTPUTS = {
    "f": ("root_sharpness", "mls"),
    "f / sd f": ("mapped_root_sharpness[normalized]", "mapped_mls[normalized]"),
    "softmax f": ("mapped_root_sharpness[softmax]", "mapped_mls[softmax]"),
}
"""The root of sharpness and MLS of the outputs, and of what is made of them."""
SCALE = "log_output_deviation"
GIVEN = "f | log sd f"


def taus(
    networks: Networks, loss: str, factor: str = "lr", fewest: int = FEWEST_FOR_RANKS
) -> dict[str, Estimate]:
    """tau(sqrt(S), MLS) of each of `OUTPUTS`, and of the outputs given their scale.

    Over pairs of networks of one loss that differ in one factor alone. Networks are in the order of
    their levels and seeds, so that estimates of two losses may be subtracted: they are paired.
    """
    where = f"{FACTORS[factor]}, {loss}; {GRIDS[networks.key]}"
    names = [f"tau(sqrt(S), MLS) of {of}, {where}" for of in (*OUTPUTS, GIVEN)]

    def over_pairs() -> list[Estimate]:
        line, other = networks.where(loss=loss), "batch_size" if factor == "lr" else "lr"
        require(line.count, networks.key, "networks", where, "tau", fewest)
        levels, counts = np.unique(line.data[other].values, return_counts=True)
        line = line.where(**{other: levels[counts.argmax()]})
        order = np.lexsort((line.data["seed"].values, line.data[factor].values))
        levels = line.data[factor].values[order]
        fits = line.values("train_error") <= FITS
        require(int(fits.sum()), networks.key, "networks that fit", where, "tau", fewest)
        columns = (*chain(*OUTPUTS.values()), SCALE)
        found = Ranks(
            {name: np.where(fits, line.values(name), np.nan)[order] for name in columns},
            [f"{level:g}" for level in levels],
            pairs_of(np.zeros(len(levels)), levels),
        )
        plain = [found.tau(*pair) for pair in OUTPUTS.values()]
        given = found.partial(*OUTPUTS["f"], SCALE)
        return [tau.labelled(name) for tau, name in zip((*plain, given), names, strict=True)]

    return dict(zip((*OUTPUTS, GIVEN), estimates(names, over_pairs), strict=True))


def beside(e: ResultTables) -> list[dict[str, object]]:
    """What is reported with both verdicts: all losses, and what is made of the outputs."""
    found = (taus(e[grid], loss) for grid in GRIDS for loss in LOSSES)
    return [tau.report() for by_output in found for tau in by_output.values()]


@LOGITS(
    FIGURE,
    f"tau(sqrt(S), MLS) where the rate alone varies, {NORMALIZED} > {PLAIN}, in both grids",
    BEFORE,
    "Without a scale of the logits flatter networks are less sensitive, or less decidedly more "
    "sensitive, than with the cross-entropy. Refuted if in a grid the difference is not above 0.",
)
def _(e: ResultTables) -> Verdict:
    pairs = [[taus(e[grid], loss)["f"] for loss in (NORMALIZED, PLAIN)] for grid in GRIDS]
    return every(without > plain for without, plain in pairs).reporting(*beside(e))


@LOGITS(
    FIGURE,
    f"tau(sqrt(S), MLS | log sd f) > tau(sqrt(S), MLS) where the rate alone varies, {PLAIN}, in "
    "both grids",
    BEFORE,
    "Part of why flatter networks are more sensitive with the cross-entropy is that their logits "
    "are larger. Refuted if in a grid the difference is not above 0.",
)
def _(e: ResultTables) -> Verdict:
    found = [taus(e[grid], PLAIN) for grid in GRIDS]
    return every(tau[GIVEN] > tau["f"] for tau in found).reporting(*beside(e))
