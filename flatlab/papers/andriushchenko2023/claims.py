"""andriushchenko2023: what the paper says of its figures.

Figure 1 is about a linear classifier with rescaled weights. Each claim of Figure 7, about diagonal
linear networks, is judged twice: with the scales for which the paper's formulas hold, and, with
the ending -printed, with the scales that it prints.
"""

from collections.abc import Callable

import numpy as np
import xarray as xr

from flatlab.claims import Claim, Claims, Evidence, Judge
from flatlab.claims.evidence import Array
from flatlab.claims.missing import NotThere, enough
from flatlab.papers.andriushchenko2023 import _diagonal as diagonal
from flatlab.stats import Estimate, Verdict, every, theorem
from flatlab.stats.trends import mean, over_seeds

GRID = "linear-grid"
SHARPNESS, SCALED, FACTOR = "worst_sharpness", "scaled_worst_sharpness", "weight_factor"
ERROR, LOSS = "classification_error", "classification_loss"
VARIES = 10
AT_THE_ENDS = {"smallest": (0, 0.05), "largest": (-1, 0.01)}
"""Share of its maximum below which sharpness falls at weight factors of 2^-10 and 2^10."""

NOTEBOOK = {0.12: 0.1379, 1.27: 0.0208}
"""Sharpness in the ball at rho 0.5, by factor, as in the authors' public notebook."""


Statistic = Callable[[Array], Array]


def judged(judge: Callable[[xr.Dataset], Verdict]) -> Judge:
    """A verdict on the runs of the grid that did not diverge, on training samples."""

    def verdict(e: Evidence) -> Verdict:
        table = e.runs(GRID).sel(samples="train")
        enough(table.sizes["run"], GRID)
        return judge(table)

    return verdict


def by_factor(table: xr.Dataset, logits: str) -> dict[str, Array]:
    """Curves over the factors at the end of training: (runs, factors), by neighbourhood and rho."""
    end = table[SCALED].isel(checkpoint=-1).sel(logits=logits)
    return {
        f"{name}, rho {radius}": end.sel(neighbourhood=name, radius=radius).values
        for name in end["neighbourhood"].values
        for radius in end["radius"].values
    }


def of_each(curves: dict[str, Array], label: str, statistic: Statistic) -> list[Estimate]:
    """A statistic of each of some curves, which are means over the runs: (w, n) -> (w)."""
    return [over_seeds(f"{label}; {name}", statistic, values) for name, values in curves.items()]


def no_errors(table: xr.Dataset) -> Verdict:
    return theorem("training error <= 0", table[ERROR].isel(checkpoint=-1), 0)


def varies(table: xr.Dataset) -> Verdict:
    curves = by_factor(table, "plain")
    label = f"max - {VARIES} min"
    ranges = of_each(curves, label, lambda c: c.max(axis=1) - VARIES * c.min(axis=1))
    verdict = every(estimate > 0 for estimate in ranges)
    if "ball, rho 0.5" not in curves:
        return verdict
    factors = table[FACTOR].isel(run=0, checkpoint=-1).values
    entries = []
    for factor, printed in NOTEBOOK.items():
        place = int(np.abs(np.log(factors / factor)).argmin())
        name = f"sharpness at factor {factors[place]:.3g}; the authors' notebook: {printed}"
        entries.append(over_seeds(name, mean, curves["ball, rho 0.5"][:, place]).report())
    return verdict.reporting(*entries)


def vanishes(table: xr.Dataset) -> Verdict:
    curves = by_factor(table, "plain").items()
    return every(
        over_seeds(
            f"at the {end} factor - {share:g} max; {name}",
            lambda c, place=place, share=share: c[:, place] - share * c.max(axis=1),
            values,
        )
        < 0
        for name, values in curves
        for end, (place, share) in AT_THE_ENDS.items()
    )


def does_not_vary(table: xr.Dataset) -> Verdict:
    return every(
        theorem(f"max <= min; {name}", curves.max(axis=1), curves.min(axis=1))
        for name, curves in by_factor(table, "normalized").items()
    )


def keeps_falling(table: xr.Dataset) -> Verdict:
    """From the first checkpoint at which no run has errors."""
    right = np.flatnonzero((table[ERROR] == 0).all("run").values)
    if not len(right) or right[0] == table.sizes["checkpoint"] - 1:
        raise NotThere(f"{GRID} has no checkpoints after the first one without errors")
    later = table.isel(checkpoint=slice(int(right[0]), None)).transpose("run", "checkpoint", ...)
    ball = later[SHARPNESS].sel(neighbourhood="ball", logits="plain")
    curves = {f"sharpness, rho {r}": ball.sel(radius=r).values for r in later["radius"].values}
    steps = of_each(
        {"cross-entropy": later[LOSS].values, **curves},
        "largest step upwards after the last error",
        lambda c: np.diff(c, axis=1).max(axis=1),
    )
    return every(step < 0 for step in steps)


LOGIT_SCALE: Claims = {
    "c1": Claim("the training error is zero", "caption of Fig. 1", judged(no_errors)),
    "c2": Claim(
        f"sharpness is not constant in the scale of the weights: max > {VARIES} min",
        "Sec. 3.2",
        judged(varies),
    ),
    "c3": Claim(
        "sharpness vanishes at both ends: < 5 % of its maximum at 2^-10, < 1 % at 2^10",
        "Fig. 1",
        judged(vanishes),
    ),
    "c4": Claim(
        "with normalized logits sharpness is constant in the scale of the weights",
        "Sec. 3.2, Eq. 5",
        judged(does_not_vary),
    ),
    "c5": Claim(
        "sharpness and cross-entropy keep decreasing in training once the error is zero",
        "Sec. 3.2",
        judged(keeps_falling),
    ),
}

CLAIMS: dict[str, Claims] = {
    "fig1": LOGIT_SCALE,
    "fig7": diagonal.claims("balanced") | diagonal.claims("printed", "-printed"),
}
