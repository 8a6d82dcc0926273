"""Claims about pretrained vision networks: chen2026, Figure 5.

They are about 181 networks that others trained on ImageNet, and no other evidence is admitted.
Networks of a family resemble each other: families are the units that vary by chance.
"""

import numpy as np
import xarray as xr

from flatlab.claims import Claim, Evidence, FigureClaims
from flatlab.claims.eligibility import FEWEST_FOR_CORRELATION, NotThere
from flatlab.plan.schema import OWN
from flatlab.stats import Correlations, Estimate, Verdict, not_run
from flatlab.tables.zoo import kept

WEAK = 0.3
FAR = 0.1
"""The share of all networks that lies beyond a corner."""
SHARPNESS, NORM = "adaptive_sharpness", "normalized_norm"


def networks(e: Evidence) -> xr.Dataset:
    """The networks that were measured."""
    table = kept(e.table("vision-zoo"))
    if (count := table.sizes["run"]) < FEWEST_FOR_CORRELATION:
        raise NotThere(f"vision-zoo has {count} networks, {FEWEST_FOR_CORRELATION} are needed")
    return table


def rho(e: Evidence, x: str, y: str) -> Estimate:
    """Pearson's correlation over the networks for which y has a logarithm, with this logarithm."""
    table = networks(e)
    with np.errstate(invalid="ignore", divide="ignore"):
        columns = {x: table[x].values, f"log {y}": np.log(table[y].values)}
    families = [str(name) for name in table["family"].values]
    return Correlations(columns, families, clusters=families).rho(x, f"log {y}")


def place(e: Evidence, family: str, *where: tuple[str, float, bool]) -> Verdict:
    """The median of a family is above or below a quantile of all, in each of some quantities.

    where: quantity, quantile, and whether the median is above it. The networks are all that there
    are, none is drawn: the medians are compared as they are.
    """
    table = networks(e)
    inside = np.array([str(name).startswith(family) for name in table["family"].values])
    if not inside.any():
        return not_run(f"there is no {family} among the networks")
    entries, right = [], []
    for name, share, above in where:
        median, limit = np.median(table[name].values[inside]), np.quantile(table[name], share)
        text = f"median {name} of {family} - quantile {share:g} of all"
        sign = {"claim": "> 0" if above else "< 0"}
        entries.append({"quantity": text, "value": median - limit, "n": int(inside.sum()), **sign})
        right.append((median > limit) == above)
    return Verdict("holds" if all(right) else "fails", (), entries)


PRETRAINED: FigureClaims = {
    "c1": Claim(
        "rho(normalized MLS, log adaptive sharpness) > 0",
        "caption of Fig. 5, Sec. 4.3",
        lambda e: rho(e, NORM, SHARPNESS) > 0,
        quote="For most models, there is a positive correlation between Sharpness and MLS",
        admits=(OWN,),
    ),
    "c2": Claim(
        "MobileViTs lie in the upper left: median sharpness > 90 % of all, median normalized MLS "
        "< the median of all",
        "caption of Fig. 5",
        lambda e, far: place(e, "mobilevit", (SHARPNESS, 1 - far, True), (NORM, 0.5, False)),
        quote="outlier clusters also exist, for MobileViT [...] models in the upper left corner",
        threshold=FAR,
        admits=(OWN,),
    ),
    "c3": Claim(
        "FastViTs lie in the lower right: median sharpness < the median of all, median normalized "
        "MLS > 90 % of all",
        "caption of Fig. 5",
        lambda e, far: place(e, "fastvit", (SHARPNESS, 0.5, False), (NORM, 1 - far, True)),
        quote="and two FastViT [...] models in the lower right corner",
        threshold=FAR,
        admits=(OWN,),
    ),
    "c4": Claim(
        f"|rho(MLS, log sharpness)| < {WEAK}: no correlation without normalization",
        "Sec. 4.3",
        lambda e, weak: rho(e, "mean_norm", "plain_trace").within(weak),
        quote="Interestingly, we did not observe this correlation between unnormalized metrics",
        threshold=WEAK,
        admits=(OWN,),
    ),
}
