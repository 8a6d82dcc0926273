"""Claims about pretrained vision networks: chen2026, Figure 5.

They are about 181 networks that others trained on ImageNet, and no other evidence is admitted.
Networks of a family resemble each other: families are the units that vary by chance.
"""

from functools import partial

import numpy as np

from flatlab.core.schema import OWN
from flatlab.lab.claims.registry import Claims
from flatlab.lab.claims.result_tables import ResultTables
from flatlab.lab.tables.eligibility import require_measured
from flatlab.stats.estimate import Estimate
from flatlab.stats.verdict import Verdict, not_run

PRETRAINED = Claims("chen2026")

ZOO = "vision-zoo"
WEAK = 0.3
FAR = 0.1
"""The share of all networks that lies beyond a corner."""
SHARPNESS, MLS = "adaptive_sharpness", "normalized_mls"
WORDS = {MLS: "normalized_norm", "mls": "mean_norm", "log sharpness": "log plain_trace"}
"""What columns are called in evidence."""

claimed = partial(PRETRAINED, "fig5", admits=(OWN,))


def rho(e: ResultTables, x: str, y: str) -> Estimate:
    """Pearson's correlation of two columns over the networks that were measured."""
    return e[ZOO].rho(x, y).called(f"rho({WORDS.get(x, x)}, {WORDS.get(y, y)})")


def place(e: ResultTables, family: str, *where: tuple[str, float, bool]) -> Verdict:
    """The median of a family is above or below a quantile of all, in each of some quantities.

    where: quantity, quantile, and whether the median is above it. The networks are all that there
    are, none is drawn: the medians are compared as they are.
    """
    networks = e[ZOO]
    require_measured(ZOO, networks.count)
    names = [name for name in networks.levels("family") if name.startswith(family)]
    if not names:
        return not_run(f"there is no {family} among the networks")
    inside = networks.where(family=names)
    entries, right = [], []
    for name, share, above in where:
        median, limit = np.median(inside.column(name)), np.quantile(networks.column(name), share)
        text = f"median {WORDS.get(name, name)} of {family} - quantile {share:g} of all"
        sign = {"claim": "> 0" if above else "< 0"}
        entries.append({"quantity": text, "value": median - limit, "n": inside.count, **sign})
        right.append((median > limit) == above)
    return Verdict("holds" if all(right) else "fails", (), entries)


claimed(
    "rho(normalized MLS, log adaptive sharpness) > 0",
    "caption of Fig. 5, Sec. 4.3",
    "For most models, there is a positive correlation between Sharpness and MLS",
)(lambda e: rho(e, MLS, f"log {SHARPNESS}") > 0)
claimed(
    "MobileViTs lie in the upper left: median sharpness > 90 % of all, median normalized MLS < the "
    "median of all",
    "caption of Fig. 5",
    "outlier clusters also exist, for MobileViT [...] models in the upper left corner",
    threshold=FAR,
)(lambda e, far: place(e, "mobilevit", (SHARPNESS, 1 - far, True), (MLS, 0.5, False)))
claimed(
    "FastViTs lie in the lower right: median sharpness < the median of all, median normalized MLS "
    "> 90 % of all",
    "caption of Fig. 5",
    "and two FastViT [...] models in the lower right corner",
    threshold=FAR,
)(lambda e, far: place(e, "fastvit", (SHARPNESS, 0.5, False), (MLS, 1 - far, True)))
claimed(
    f"|rho(MLS, log sharpness)| < {WEAK}: no correlation without normalization",
    "Sec. 4.3",
    "Interestingly, we did not observe this correlation between unnormalized metrics",
    threshold=WEAK,
)(lambda e, weak: rho(e, "mls", "log sharpness").within(weak))
