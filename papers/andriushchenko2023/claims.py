"""andriushchenko2023: what the paper says of its Figures 1 and 7.

The other figures and tables are in `claims_recipes` and `claims_released`.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.core.schema import OWN, REDUCED
from flatlab.lab.tables.eligibility import FEWEST_FOR_RANKS, NotEligible, require
from flatlab.lab.tables.networks import Networks, ResultTables
from flatlab.papers.andriushchenko2023 import claims_released  # noqa: F401
from flatlab.papers.andriushchenko2023._networks import COLUMNS, not_fitted, that_fit
from flatlab.papers.andriushchenko2023._networks import GRID as DIAGONAL
from flatlab.papers.andriushchenko2023.claims_recipes import CLAIMS
from flatlab.stats.estimate import Array, Estimate, over_seeds
from flatlab.stats.trends import mean, median_below
from flatlab.stats.verdict import Verdict, every, some, theorem

# Figure 1: a linear classifier with rescaled weights ----------------------------------------------
CLASSIFIERS = "linear-grid"
ERROR = "classification_error"
VARIES = 10
"""How many times its minimum the maximum of a sharpness is that is not constant."""

VANISHES = 0.05
"""Share of its maximum below which sharpness falls at weight factors of 2^-10 and 2^10."""

NOTEBOOK = {0.12: 0.1379, 1.27: 0.0208}
"""Sharpness in the ball at rho 0.5, by factor, as in the authors' public notebook."""

KEEPS_FALLING = (
    "[...] the sharpness together with the cross-entropy loss keep decreasing to zero after "
    "reaching zero training error."
)


def classifiers(e: ResultTables) -> xr.Dataset:
    """The classifiers that did not diverge, on training samples, at all checkpoints."""
    networks = e[CLASSIFIERS]
    require(networks.count, CLASSIFIERS)
    return networks.runs.sel(samples="train")


def by_factor(table: xr.Dataset, logits: str) -> dict[str, Array]:
    """Curves over the factors at the end of training: (runs, factors), by neighbourhood and rho."""
    end = table["scaled_worst_sharpness"].isel(checkpoint=-1).sel(logits=logits)
    return {
        f"{name}, rho {radius}": end.sel(neighbourhood=name, radius=radius).values
        for name in end["neighbourhood"].values
        for radius in end["radius"].values
    }


CLAIMS(
    "fig1",
    "the training error is zero",
    "caption of Fig. 1",
    "Sensitivity of adaptive sharpness to weight scaling for a linear model that achieves zero "
    "training error.",
    nature="check",
)(lambda e: theorem("training error <= 0", classifiers(e)[ERROR].isel(checkpoint=-1), 0))


@CLAIMS(
    "fig1",
    f"sharpness is not constant in the scale of the weights: max > {VARIES} min",
    "Sec. 3.2",
    "This can be seen even for linear models for which scaling the weight vector by a constant "
    "changes the adaptive sharpness as shown in Fig. 1.",
    threshold=VARIES,
)
def _(e: ResultTables, times: float) -> Verdict:
    table = classifiers(e)
    curves = by_factor(table, "plain")
    verdict = every(
        over_seeds(f"max - {times:g} min; {name}", mean, c.max(axis=1) - times * c.min(axis=1)) > 0
        for name, c in curves.items()
    )
    if "ball, rho 0.5" not in curves:
        return verdict
    factors = table["weight_factor"].isel(run=0, checkpoint=-1).values
    entries = []
    for factor, printed in NOTEBOOK.items():
        place = int(np.abs(np.log(factors / factor)).argmin())
        name = f"sharpness at factor {factors[place]:.3g}; the authors' notebook: {printed}"
        entries.append(over_seeds(name, mean, curves["ball, rho 0.5"][:, place]).report())
    return verdict.reporting(*entries)


CLAIMS(
    "fig1",
    f"sharpness vanishes at both ends: < {VANISHES:.0%} of its maximum at factors 2^-10 and 2^10",
    "Sec. 3.2, Fig. 1",
    KEEPS_FALLING,
    threshold=VANISHES,
)(
    lambda e, share: every(
        over_seeds(
            f"at the {end} factor - {share:g} max; {name}", mean, c[:, at] - share * c.max(axis=1)
        )
        < 0
        for name, c in by_factor(classifiers(e), "plain").items()
        for end, at in (("smallest", 0), ("largest", -1))
    )
)
CLAIMS(
    "fig1",
    "with normalized logits sharpness is constant in the scale of the weights",
    "Sec. 3.2, Eq. 5",
    "This provably fixes the scaling issue meaning that scaling the output layer by α ∈ R_+ does "
    "not affect the logits.",
    nature="theorem",
)(
    lambda e: every(
        theorem(f"max <= min; {name}", curves.max(axis=1), curves.min(axis=1))
        for name, curves in by_factor(classifiers(e), "normalized").items()
    )
)


@CLAIMS(
    "fig1",
    "sharpness and cross-entropy keep decreasing in training once the error is zero",
    "Sec. 3.2",
    KEEPS_FALLING,
)
def _(e: ResultTables) -> Verdict:
    """From the first checkpoint at which no run has errors."""
    table = classifiers(e)
    without_errors = np.flatnonzero((table[ERROR] == 0).all("run").values)
    if not len(without_errors) or without_errors[0] == table.sizes["checkpoint"] - 1:
        raise NotEligible(f"{CLASSIFIERS} has no checkpoints after the first one without errors")
    later = table.isel(checkpoint=slice(int(without_errors[0]), None))
    later = later.transpose("run", "checkpoint", ...)
    ball = later["worst_sharpness"].sel(neighbourhood="ball", logits="plain")
    curves = {"cross-entropy": later["train_loss"].values}
    curves |= {f"sharpness, rho {r}": ball.sel(radius=r).values for r in later["radius"].values}
    label = "largest step upwards after the last error"
    return every(
        over_seeds(f"{label}; {name}", mean, np.diff(values, axis=1).max(axis=1)) < 0
        for name, values in curves.items()
    )


# Figure 7: diagonal linear networks ---------------------------------------------------------------
# Each claim is judged twice: with the scales for which the paper's formulas hold, and, with the
# ending -printed, with the scales that it prints.
CLOSE = 0.1
"""The relative error of a good approximation."""

PRINTED, AROUND = 0.8, 0.1
"""The paper says that tau(test loss, trace) is "around 0.8"; here: no farther from it than this."""


BY = ("lr", "end", "lr"), ("initial_trace", "start", COLUMNS["trace_none"])
"""By what thirds are formed: its name, time and column."""


def taus(networks: Networks, *pairs: tuple[str, str], where: str = "") -> list[Estimate]:
    """Kendall's tau of columns by the names that they have here, over the networks as a pool."""
    columns = ((COLUMNS[x], COLUMNS[y]) for x, y in pairs)
    return networks.taus(*columns, among="pool", where=where)


def thirds(networks: Networks) -> Iterator[tuple[str, Networks]]:
    """All networks, and thirds of them by learning rate and by initialization, by their names."""
    yield "", networks
    for name, time, column in BY:
        order = pd.Series(networks.at(time).column(column)).rank(method="first")
        parts = pd.qcut(order, 3, labels=False).to_numpy()
        for number in range(3):
            yield f", {number + 1}. third by {name}", networks.among(parts == number)


def fitted(e: ResultTables) -> Networks:
    """The networks that fit, as many as a rank correlation needs."""
    networks, statistic = that_fit(e.table(DIAGONAL)), "a rank correlation"
    require(networks.count, DIAGONAL, "networks that fit", "", statistic, FEWEST_FOR_RANKS)
    return networks


def left_out(e: ResultTables) -> dict[str, Any]:
    """How many do not, beside how many do, as an entry of the evidence."""
    what, table = "networks that did not reach the training loss", e.table(DIAGONAL)
    return {"quantity": what, "value": not_fitted(table), "n": that_fit(table).count}


def rescaled(scales: str, name: str, variant: str = "") -> None:
    """The claims of Figure 7, with the Hessian rescaled in one way.

    scales: the way.
    name: what its trace is called.
    variant: the ending of their keys.
    """
    trace, largest = f"trace_{scales}", f"lambda_max_{scales}"
    tau_with_loss = f"tau(test loss, {name} of the rescaled Hessian)"
    claim = partial(CLAIMS, "fig7", source="Sec. 5.2", variant=variant)

    @claim(
        text=f"median relative error of |u v|_1 = {name}/2 of the rescaled Hessian < {CLOSE}",
        quote="(1) ||u ⊙ v||_1 is approximated well by 1/2 tr(∇̃²L(w))",
        threshold=CLOSE,
    )
    def _(e: ResultTables, error: float) -> Verdict:
        half, norm = fitted(e).column(COLUMNS[trace]) / 2, fitted(e).column(COLUMNS["norm_1"])
        errors = np.abs(half - norm) / norm
        finite = errors[np.isfinite(errors)]
        require(len(finite), DIAGONAL, "networks that fit and whose trace is finite")
        label = "median of |Tr/2 - |u v|_1| / |u v|_1"
        return median_below(label, finite, error).reporting(left_out(e))

    @claim(
        text=f"{tau_with_loss} > tau(test loss, Tr of the Hessian)",
        quote="(2) tr(∇̃²L(w)) correlates better than tr(∇²L(w)) so the adaptive part is important",
    )
    def _(e: ResultTables) -> Verdict:
        ours, plain = taus(fitted(e), ("test_loss", trace), ("test_loss", "trace_none"))
        return (ours > plain).reporting(ours.report(), plain.report(), left_out(e))

    @claim(
        text=f"tau({name}, lambda_max of the rescaled Hessian) < 0, over all networks or over a "
        "third of them by learning rate or initialization, corrected for these 7 comparisons",
        quote="(3) the relationship between tr(∇̃²L(w)) and λ_max(∇̃²L(w)) can be even reverse "
        "showing that different sharpness definitions capture totally different trends.",
    )
    def _(e: ResultTables) -> Verdict:
        groups = thirds(fitted(e))
        reverse = (taus(at, (trace, largest), where=where)[0] < 0 for where, at in groups)
        return some(reverse).reporting(left_out(e))

    @claim(
        text=f"{tau_with_loss} is within {AROUND} of {PRINTED}",
        quote="We also note that even with the right definition of sharpness, the correlation is "
        "not perfect (around τ = 0.8) [...]",
        threshold=AROUND,
        admits=(OWN, REDUCED),
    )
    def _(e: ResultTables, distance: float) -> Verdict:
        (tau,) = taus(fitted(e), ("test_loss", trace))
        near = (tau > PRINTED - distance) & (tau < PRINTED + distance)
        printed = {"quantity": "what the paper says it is, about", "value": PRINTED}
        return near.reporting(printed, left_out(e))


rescaled("balanced", "Tr")
rescaled("printed", "Tr as printed", "-printed")
