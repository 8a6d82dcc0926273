"""andriushchenko2023, Figure 1: a linear classifier with rescaled weights."""

import numpy as np
import xarray as xr

from flatlab.lab.claims.registry import Claims
from flatlab.lab.claims.result_tables import ResultTables
from flatlab.lab.tables.eligibility import NotEligible, require
from flatlab.stats.estimate import Array, over_seeds
from flatlab.stats.trends import mean
from flatlab.stats.verdict import Verdict, every, theorem

LINEAR = Claims("andriushchenko2023")

GRID = "linear-grid"
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
    networks = e[GRID]
    require(networks.count, GRID)
    return networks.runs.sel(samples="train")


def by_factor(table: xr.Dataset, logits: str) -> dict[str, Array]:
    """Curves over the factors at the end of training: (runs, factors), by neighbourhood and rho."""
    end = table["scaled_worst_sharpness"].isel(checkpoint=-1).sel(logits=logits)
    return {
        f"{name}, rho {radius}": end.sel(neighbourhood=name, radius=radius).values
        for name in end["neighbourhood"].values
        for radius in end["radius"].values
    }


@LINEAR(
    "fig1",
    "the training error is zero",
    "caption of Fig. 1",
    "Sensitivity of adaptive sharpness to weight scaling for a linear model that achieves zero "
    "training error.",
    nature="check",
)
def _(e: ResultTables) -> Verdict:
    return theorem("training error <= 0", classifiers(e)[ERROR].isel(checkpoint=-1), 0)


@LINEAR(
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


@LINEAR(
    "fig1",
    f"sharpness vanishes at both ends: < {VANISHES:.0%} of its maximum at factors 2^-10 and 2^10",
    "Sec. 3.2, Fig. 1",
    KEEPS_FALLING,
    threshold=VANISHES,
)
def _(e: ResultTables, share: float) -> Verdict:
    return every(
        over_seeds(
            f"at the {end} factor - {share:g} max; {name}", mean, c[:, at] - share * c.max(axis=1)
        )
        < 0
        for name, c in by_factor(classifiers(e), "plain").items()
        for end, at in (("smallest", 0), ("largest", -1))
    )


@LINEAR(
    "fig1",
    "with normalized logits sharpness is constant in the scale of the weights",
    "Sec. 3.2, Eq. 5",
    "This provably fixes the scaling issue meaning that scaling the output layer by α ∈ R_+ does "
    "not affect the logits.",
    nature="theorem",
)
def _(e: ResultTables) -> Verdict:
    return every(
        theorem(f"max <= min; {name}", curves.max(axis=1), curves.min(axis=1))
        for name, curves in by_factor(classifiers(e), "normalized").items()
    )


@LINEAR(
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
        raise NotEligible(f"{GRID} has no checkpoints after the first one without errors")
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
