"""Claims about pretrained vision networks: chen2026, Figure 5.

They are about networks trained on ImageNet. Of a stand-in nothing is judged: its values are told
beside the verdict `not run`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr

from flatlab.claims import Claim, Evidence
from flatlab.stats import Correlations, Estimate, Verdict, every, not_run
from flatlab.stats.verdict import compare
from flatlab.tables.zoo import kept

ZOO = "vision-zoo"
WEAK = 0.3
FAR = 0.9
SHARPNESS, NORM = "adaptive_sharpness", "normalized_norm"
RESAMPLES = 10_000
MOBILE, FAST = "mobilevit", "fastvit"
Judge = Callable[[xr.Dataset], Verdict]


def follows(table: xr.Dataset) -> Verdict:
    """rho(normalized MLS, log adaptive sharpness) > 0."""
    return _rho(table, NORM, SHARPNESS) > 0


def unrelated(table: xr.Dataset) -> Verdict:
    """|rho(MLS, log S)| < 0.3."""
    return abs(_rho(table, "mean_norm", "plain_trace")) < WEAK


def upper_left(table: xr.Dataset) -> Verdict:
    """MobileViTs: sharper than nine of ten, normalized MLS below the median."""
    return _place(table, MOBILE, (SHARPNESS, FAR, True), (NORM, 0.5, False))


def lower_right(table: xr.Dataset) -> Verdict:
    """FastViTs: sharpness below the median, normalized MLS above nine of ten."""
    return _place(table, FAST, (SHARPNESS, 0.5, False), (NORM, FAR, True))


def _rho(table: xr.Dataset, x: str, y: str) -> Estimate:
    """Pearson's over networks, with the logarithm of y, where there is one."""
    with np.errstate(invalid="ignore", divide="ignore"):
        columns = {x: table[x].values, f"log {y}": np.log(table[y].values)}
    # one stratum: families have too few networks each to be resampled by themselves
    return Correlations(columns, ["all"] * table.sizes["run"]).rho(x, f"log {y}")


def _place(table: xr.Dataset, family: str, *where: tuple[str, float, bool]) -> Verdict:
    """The median of a family is above or below a quantile of all, in each of some quantities.

    The interval of the difference is that of a percentile bootstrap over the networks, stratified
    by whether they belong to the family.
    """
    inside = np.array([str(name).startswith(family) for name in table["family"].values])
    if not inside.any():
        return not_run(f"there is no {family} among the networks")
    generator = np.random.default_rng(0)
    groups = [np.flatnonzero(part) for part in (inside, ~inside) if part.any()]
    drawn = [
        group[generator.integers(len(group), size=(RESAMPLES, len(group)))] for group in groups
    ]
    verdicts = []
    for name, share, above in where:
        values = table[name].values

        def difference(own: np.ndarray, everyone: np.ndarray, share: float = share) -> np.ndarray:
            return np.median(own, axis=-1) - np.quantile(everyone, share, axis=-1)

        many = difference(values[drawn[0]], values[np.concatenate(drawn, axis=1)])
        low, high = np.quantile(many, [0.025, 0.975])
        text = f"median {name} of {family} - quantile {share:g} of all"
        value = float(difference(values[inside], values))
        verdicts.append(
            compare(text, value, (float(low), float(high)), 0.0, above, int(inside.sum()))
        )
    return every(verdicts)


def _of_pretrained(judge: Judge) -> Callable[[Evidence], Verdict]:
    """A verdict on the paper's networks; of others `not run`, with what they would have said."""

    def judged(e: Evidence) -> Verdict:
        table = e.table(ZOO)
        verdict = judge(kept(table))
        if not table.attrs["stands_in_for"]:
            return verdict
        reason = (
            f"ImageNet and timm's pretrained weights are not here; {table.attrs['name']} stands "
            "in, with the values reported"
        )
        return not_run(reason).reporting(*verdict.evidence)

    return judged


PRETRAINED = [
    Claim(
        "c1", "rho(normalized MLS, log adaptive sharpness) > 0", "Sec. 4.3", _of_pretrained(follows)
    ),
    Claim(
        "c2",
        "MobileViTs lie in the upper left: median sharpness > 90 % of all, median normalized MLS "
        "< the median of all",
        "caption of Fig. 5",
        _of_pretrained(upper_left),
    ),
    Claim(
        "c3",
        "FastViTs lie in the lower right: median sharpness < the median of all, median normalized "
        "MLS > 90 % of all",
        "caption of Fig. 5",
        _of_pretrained(lower_right),
    ),
    Claim(
        "c4",
        f"|rho(MLS, log sharpness)| < {WEAK}: no correlation without normalization",
        "Sec. 4.3",
        _of_pretrained(unrelated),
    ),
]
