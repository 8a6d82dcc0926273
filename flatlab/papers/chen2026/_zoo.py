"""Claims about pretrained vision networks: chen2026, Figure 5.

They are about networks trained on ImageNet. For a stand-in they are `not run`, and its values are
reported beside that verdict.
"""

from collections.abc import Callable

import numpy as np
import xarray as xr

from flatlab.claims import Claim, Claims, Evidence, Judge
from flatlab.stats import Correlations, Estimate, Verdict, every, not_run
from flatlab.stats.bootstrap import RESAMPLES
from flatlab.tables.zoo import kept

WEAK = 0.3
FAR = 0.9
SHARPNESS, NORM = "adaptive_sharpness", "normalized_norm"


def rho(table: xr.Dataset, x: str, y: str) -> Estimate:
    """Pearson's correlation over the networks for which y has a logarithm, with this logarithm."""
    with np.errstate(invalid="ignore", divide="ignore"):
        columns = {x: table[x].values, f"log {y}": np.log(table[y].values)}
    # one stratum: families have too few networks each to be resampled on their own
    return Correlations(columns, ["all"] * table.sizes["run"]).rho(x, f"log {y}")


def place(table: xr.Dataset, family: str, *where: tuple[str, float, bool]) -> Verdict:
    """The median of a family is above or below a quantile of all, in each of some quantities.

    where: quantity, quantile, and whether the median is above it. The interval of the difference
    is the percentile bootstrap over the networks, stratified by membership in the family.
    """
    inside = np.array([str(name).startswith(family) for name in table["family"].values])
    if not inside.any():
        return not_run(f"there is no {family} among the networks")
    generator = np.random.default_rng(0)
    groups = [np.flatnonzero(part) for part in (inside, ~inside) if part.any()]
    drawn = [part[generator.integers(len(part), size=(RESAMPLES, len(part)))] for part in groups]
    verdicts = []
    for name, share, above in where:
        values = table[name].values
        # the networks themselves, then each resample
        own = np.median(values[inside]), np.median(values[drawn[0]], axis=-1)
        every_one = values[np.concatenate(drawn, axis=1)]
        limits = np.quantile(values, share), np.quantile(every_one, share, axis=-1)
        text = f"median {name} of {family} - quantile {share:g} of all"
        strata = np.zeros(inside.sum(), np.int64)
        found = Estimate(text, float(own[0] - limits[0]), own[1] - limits[1], strata)
        verdicts.append(found > 0 if above else found < 0)
    return every(verdicts)


def of_pretrained(judge: Callable[[xr.Dataset], Verdict]) -> Judge:
    """A verdict on the paper's networks; `not run` for others, with the numbers reported."""

    def judged(e: Evidence) -> Verdict:
        table = e.table("vision-zoo")
        verdict = judge(kept(table))
        if not table.attrs["stands_in_for"]:
            return verdict
        reason = "ImageNet and timm's pretrained weights are not here"
        instead = f"{table.attrs['name']} stands in, with the values reported"
        return not_run(f"{reason}; {instead}").reporting(*verdict.evidence)

    return judged


PRETRAINED: Claims = {
    "c1": Claim(
        "rho(normalized MLS, log adaptive sharpness) > 0",
        "Sec. 4.3",
        of_pretrained(lambda table: rho(table, NORM, SHARPNESS) > 0),
    ),
    "c2": Claim(
        "MobileViTs lie in the upper left: median sharpness > 90 % of all, median normalized MLS "
        "< the median of all",
        "caption of Fig. 5",
        of_pretrained(lambda t: place(t, "mobilevit", (SHARPNESS, FAR, True), (NORM, 0.5, False))),
    ),
    "c3": Claim(
        "FastViTs lie in the lower right: median sharpness < the median of all, median normalized "
        "MLS > 90 % of all",
        "caption of Fig. 5",
        of_pretrained(lambda t: place(t, "fastvit", (SHARPNESS, 0.5, False), (NORM, FAR, True))),
    ),
    "c4": Claim(
        f"|rho(MLS, log sharpness)| < {WEAK}: no correlation without normalization",
        "Sec. 4.3",
        of_pretrained(lambda table: abs(rho(table, "mean_norm", "plain_trace")) < WEAK),
    ),
}
