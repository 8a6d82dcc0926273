"""andriushchenko2023: what the paper says of its figures.

Figure 1 is about a linear classifier with rescaled weights. Each claim of Figure 7, about diagonal
linear networks, is judged twice: with the scales for which the paper's formulas hold, and, with
the ending -printed, with the scales that it prints.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.claims import Evidence, FigureClaims, Judge, numbered, states
from flatlab.claims.eligibility import FEWEST_FOR_RANKS, NotThere, enough
from flatlab.claims.ranks import ranked
from flatlab.papers.andriushchenko2023 import _networks as diagonal
from flatlab.papers.andriushchenko2023 import _released_claims
from flatlab.papers.andriushchenko2023._recipes import FIG5, FIG6, TABLE_3, TABLE_4
from flatlab.plan.schema import OWN, REDUCED
from flatlab.stats import Verdict, every, over_seeds, some, theorem
from flatlab.stats.estimate import Array
from flatlab.stats.trends import mean, median_below

GRID = "linear-grid"
ERROR = "classification_error"
VARIES = 10
"""How many times its minimum the maximum of a sharpness is that is not constant."""

VANISHES = 0.05
"""Share of its maximum below which sharpness falls at weight factors of 2^-10 and 2^10."""

NOTEBOOK = {0.12: 0.1379, 1.27: 0.0208}
"""Sharpness in the ball at rho 0.5, by factor, as in the authors' public notebook."""

CLOSE = 0.1
"""The relative error of a good approximation."""

PRINTED, AROUND = 0.8, 0.1
"""The paper says that tau(test loss, trace) is "around 0.8"; here: no farther from it than this."""

SCALE = (
    "This can be seen even for linear models for which scaling the weight vector by a constant "
    "changes the adaptive sharpness as shown in Fig. 1."
)
KEEPS_FALLING = (
    "[...] the sharpness together with the cross-entropy loss keep decreasing to zero after "
    "reaching zero training error."
)
REVERSE = (
    "(3) the relationship between tr(∇̃²L(w)) and λ_max(∇̃²L(w)) can be even reverse showing that "
    "different sharpness definitions capture totally different trends."
)


def of_classifiers(judge: Callable[..., Verdict]) -> Judge:
    """A verdict on the runs of the grid that did not diverge, on training samples."""

    def verdict(e: Evidence, *threshold: float) -> Verdict:
        table = e.runs(GRID).sel(samples="train")
        enough(table.sizes["run"], GRID)
        return judge(table, *threshold)

    return verdict


def by_factor(table: xr.Dataset, logits: str) -> dict[str, Array]:
    """Curves over the factors at the end of training: (runs, factors), by neighbourhood and rho."""
    end = table["scaled_worst_sharpness"].isel(checkpoint=-1).sel(logits=logits)
    return {
        f"{name}, rho {radius}": end.sel(neighbourhood=name, radius=radius).values
        for name in end["neighbourhood"].values
        for radius in end["radius"].values
    }


@states(
    "the training error is zero",
    "caption of Fig. 1",
    quote="Sensitivity of adaptive sharpness to weight scaling for a linear model that achieves "
    "zero training error.",
    nature="check",
)
@of_classifiers
def no_errors(table: xr.Dataset) -> Verdict:
    return theorem("training error <= 0", table[ERROR].isel(checkpoint=-1), 0)


@states(
    f"sharpness is not constant in the scale of the weights: max > {VARIES} min",
    "Sec. 3.2",
    quote=SCALE,
    threshold=VARIES,
)
@of_classifiers
def varies(table: xr.Dataset, times: float) -> Verdict:
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


@states(
    f"sharpness vanishes at both ends: < {VANISHES:.0%} of its maximum at factors 2^-10 and 2^10",
    "Sec. 3.2, Fig. 1",
    quote=KEEPS_FALLING,
    threshold=VANISHES,
)
@of_classifiers
def vanishes(table: xr.Dataset, share: float) -> Verdict:
    return every(
        over_seeds(f"at the {end} factor - {share:g} max; {name}", mean, margin) < 0
        for name, c in by_factor(table, "plain").items()
        for end, margin in (
            ("smallest", c[:, 0] - share * c.max(axis=1)),
            ("largest", c[:, -1] - share * c.max(axis=1)),
        )
    )


@states(
    "with normalized logits sharpness is constant in the scale of the weights",
    "Sec. 3.2, Eq. 5",
    quote="This provably fixes the scaling issue meaning that scaling the output layer by α ∈ "
    "R_+ does not affect the logits.",
    nature="theorem",
)
@of_classifiers
def does_not_vary(table: xr.Dataset) -> Verdict:
    return every(
        theorem(f"max <= min; {name}", curves.max(axis=1), curves.min(axis=1))
        for name, curves in by_factor(table, "normalized").items()
    )


@states(
    "sharpness and cross-entropy keep decreasing in training once the error is zero",
    "Sec. 3.2",
    quote=KEEPS_FALLING,
)
@of_classifiers
def keeps_falling(table: xr.Dataset) -> Verdict:
    """From the first checkpoint at which no run has errors."""
    right = np.flatnonzero((table[ERROR] == 0).all("run").values)
    if not len(right) or right[0] == table.sizes["checkpoint"] - 1:
        raise NotThere(f"{GRID} has no checkpoints after the first one without errors")
    later = table.isel(checkpoint=slice(int(right[0]), None)).transpose("run", "checkpoint", ...)
    ball = later["worst_sharpness"].sel(neighbourhood="ball", logits="plain")
    curves = {"cross-entropy": later["train_loss"].values}
    curves |= {f"sharpness, rho {r}": ball.sel(radius=r).values for r in later["radius"].values}
    label = "largest step upwards after the last error"
    return every(
        over_seeds(f"{label}; {name}", mean, np.diff(values, axis=1).max(axis=1)) < 0
        for name, values in curves.items()
    )


def of_fitted(judge: Callable[..., Verdict]) -> Judge:
    """A verdict on the networks that fit their data, with the number of those that do not."""

    def verdict(e: Evidence, *threshold: float) -> Verdict:
        table = e.table(diagonal.GRID)
        networks = diagonal.fitted(table)
        if len(networks) < FEWEST_FOR_RANKS:
            found = f"{diagonal.GRID} has {len(networks)} networks that fit"
            raise NotThere(f"{found}, a rank correlation needs {FEWEST_FOR_RANKS}")
        count = {"quantity": "networks that did not reach the training loss", "n": len(networks)}
        verdict = judge(networks, *threshold)
        return verdict.reporting({**count, "value": diagonal.not_fitted(table)})

    return verdict


def diagonal_networks(scales: str, ending: str = "") -> FigureClaims:
    """The claims of Figure 7, with the Hessian rescaled in one way."""
    trace, largest = f"trace_{scales}", f"lambda_max_{scales}"
    name = "Tr" if not ending else "Tr as printed"
    tau_with_loss = f"tau(test loss, {name} of the rescaled Hessian)"

    @states(
        f"median relative error of |u v|_1 = {name}/2 of the rescaled Hessian < {CLOSE}",
        "Sec. 5.2",
        quote="(1) ||u ⊙ v||_1 is approximated well by 1/2 tr(∇̃²L(w))",
        threshold=CLOSE,
    )
    @of_fitted
    def is_the_norm(networks: pd.DataFrame, error: float) -> Verdict:
        errors = diagonal.relative_error(networks, scales)
        finite = errors[np.isfinite(errors)]
        enough(len(finite), diagonal.GRID, "networks that fit and whose trace is finite")
        return median_below("median of |Tr/2 - |u v|_1| / |u v|_1", finite, error)

    @states(
        f"{tau_with_loss} > tau(test loss, Tr of the Hessian)",
        "Sec. 5.2",
        quote="(2) tr(∇̃²L(w)) correlates better than tr(∇²L(w)) so the adaptive part is important",
    )
    @of_fitted
    def is_better(networks: pd.DataFrame) -> Verdict:
        pairs = ("test_loss", trace), ("test_loss", "trace_none")
        rescaled, plain = ranked(networks, *pairs)
        return (rescaled > plain).reporting(rescaled.report(), plain.report())

    @states(
        f"tau({name}, lambda_max of the rescaled Hessian) < 0, over all networks or over a third "
        "of them by learning rate or initialization, corrected for these 7 comparisons",
        "Sec. 5.2",
        quote=REVERSE,
    )
    @of_fitted
    def can_be_reverse(networks: pd.DataFrame) -> Verdict:
        groups = diagonal.with_thirds(networks)
        return some(
            ranked(group, (trace, largest), where=where)[0] < 0 for where, group in groups.items()
        )

    @states(
        f"{tau_with_loss} is within {AROUND} of {PRINTED}",
        "Sec. 5.2",
        quote="We also note that even with the right definition of sharpness, the correlation is "
        "not perfect (around τ = 0.8) [...]",
        threshold=AROUND,
        admits=(OWN, REDUCED),
    )
    @of_fitted
    def as_printed(networks: pd.DataFrame, distance: float) -> Verdict:
        (found,) = ranked(networks, ("test_loss", trace))
        printed = {"quantity": "what the paper says it is, about", "value": PRINTED}
        near = (found > PRINTED - distance) & (found < PRINTED + distance)
        return near.reporting(printed)

    return numbered(
        *(is_the_norm, is_better, can_be_reverse, as_printed),
        reading=ending,
        of="andriushchenko2023_fig7",
    )


CLAIMS: dict[str, FigureClaims] = {
    "fig1": numbered(no_errors, varies, vanishes, does_not_vary, keeps_falling),
    "fig5": FIG5,
    "fig6": FIG6,
    "fig7": diagonal_networks("balanced") | diagonal_networks("printed", "-printed"),
    **_released_claims.CLAIMS,
    "table3": TABLE_3,
    "table4": TABLE_4,
}
"""andriushchenko2023: A modern look at the relationship between sharpness and generalization."""
