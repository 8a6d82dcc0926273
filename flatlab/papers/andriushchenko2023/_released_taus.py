"""What the claims about released networks compare: their taus, and groups of them."""

import itertools
from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.claims import Claim, Evidence, states
from flatlab.claims.eligibility import NotThere, enough_ranked
from flatlab.papers.andriushchenko2023._released import FAILED
from flatlab.plan.schema import OWN
from flatlab.stats import Estimate, Verdict
from flatlab.tables.ranks import at_radius, rank_correlations

Predicate = Callable[..., Verdict]


def networks(e: Evidence, key: str) -> tuple[xr.Dataset, pd.DataFrame]:
    """The networks of a zoo that were measured and do not fail the test: table and errors, gaps."""
    table = e.table(key)
    if "test_set_error" not in table or "sharpness_at_radius" not in table:
        raise NotThere(f"{key} has no sharpness and no errors on test sets")
    clean = table["test_set_error"].sel(test_set="test").values
    table = table.sel(run=np.isfinite(clean) & (clean <= FAILED))
    found = {
        f"{name} {key}": table[f"test_set_{name}"].sel(test_set=key).values
        for name in ("error", "error_gap")
        for key in table["test_set"].values
    }
    return table, pd.DataFrame(found)


def taus(
    e: Evidence,
    key: str,
    definitions: Iterable[str],
    radii: Iterable[int],
    sets: Iterable[str],
    quantity: str = "error",
) -> list[Estimate]:
    """Kendall's tau of sharpness and errors, of as many networks as it needs."""
    table, frame = networks(e, key)
    found = []
    for definition, radius in itertools.product(definitions, radii):
        name = f"{definition} {radius}"
        frame[name] = at_radius(table, definition, radius)
        rho = float(at_radius(table, definition, radius, "radius")[0]) if len(frame) else np.nan
        where = f"; rho {rho:g}, {key}"
        pairs = [(name, f"{quantity} {each}") for each in sets]
        found += [enough_ranked(each) for each in rank_correlations(frame, *pairs, where=where)]
    return found


def said(text: str, source: str, quote: str, **about: float | str) -> Callable[[Predicate], Claim]:
    """A claim about the released networks themselves."""
    return states(text, source, quote=quote, admits=(OWN,), **about)


def group(e: Evidence, key: str, name: str) -> tuple[xr.Dataset, pd.DataFrame, np.ndarray]:
    """The networks, and whether each has the larger of two values of a hyper-parameter."""
    table, frame = networks(e, key)
    values = table[name].values.astype(float)
    if len(levels := np.unique(values[np.isfinite(values)])) != 2:
        raise NotThere(f"{key} has {len(levels)} values of {name}, two are needed")
    return table, frame, values == levels[1]


def separation(name: str, values: np.ndarray, larger: np.ndarray) -> tuple[Estimate, float]:
    """Kendall's tau of a value and a group, and its largest value, for groups that are apart.

    tau-a = (2 AUC - 1) 2 n_0 n_1 / (n (n - 1)), with AUC the area under the ROC curve, so that a
    claim about this area is one about tau, and has its interval.
    """
    pairs = pd.DataFrame({name: values, "group": larger.astype(float)})
    (tau,) = rank_correlations(pairs, (name, "group"))
    n, ones = len(larger), int(larger.sum())
    return enough_ranked(tau), 2 * ones * (n - ones) / max(n * (n - 1), 1)
