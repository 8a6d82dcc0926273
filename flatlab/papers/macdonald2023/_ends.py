"""Networks at the end of training: ranks and differences of means over those of some settings."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import xarray as xr

from flatlab.claims import Evidence
from flatlab.claims.curves import in_words
from flatlab.claims.eligibility import FEWEST_FOR_RANKS, NotThere, enough
from flatlab.claims.evidence import Pair, Setting, estimate, estimates
from flatlab.stats import Estimate
from flatlab.stats.estimate import Array
from flatlab.stats.ranks import Ranks
from flatlab.stats.trends import difference
from flatlab.tables.selection import end_of_training

JACOBIAN, SHARPNESS, GAP = "jacobian_norm", "hessian_lambda_max", "absolute_loss_gap"
SHORT = {JACOBIAN: "J", SHARPNESS: "lambda_max", GAP: "gap"}
"""The paper's quantities at the end of training. Its Jacobian is taken to be that of the logits."""

WEAK = 0.3
"""A rank correlation above this, times -1, does not count as negative. Without such a margin, that
there is none could never be found: for forty networks an interval reaches 0.2 to either side."""


def ends(e: Evidence, grid: str, where: Setting, below: Setting | None = None) -> xr.Dataset:
    """The networks that did not diverge, at the end of training.

    where: hyper-parameters with these values.  below: hyper-parameters with smaller values.
    """
    chosen = end_of_training(e.table(grid))
    for key, value in where.items():
        chosen = chosen.sel(run=chosen[key].values == value)
    for key, value in (below or {}).items():
        chosen = chosen.sel(run=chosen[key].values < value)
    return chosen


def column(networks: xr.Dataset, grid: str, name: str) -> Array:
    """A quantity, or a hyper-parameter, of each network."""
    if name not in networks.variables:
        raise NotThere(f"{grid} has no {name}")
    return networks[name].values.astype(float)


def taus(
    e: Evidence, grid: str, where: Setting, *pairs: Pair, below: Setting | None = None
) -> list[Estimate]:
    """Kendall's tau-a over the networks of some settings; of several pairs over the same ones.

    The settings are fixed, and seeds vary by chance.

    where, below: as for `ends`.
    """
    less = [f"{in_words({key: value})} left out" for key, value in (below or {}).items()]

    def called(pair: Pair) -> str:
        x, y = (SHORT.get(name, name.replace("_", " ")) for name in pair)
        return "; ".join(filter(None, [f"tau({x}, {y})", grid, in_words(where), *less]))

    def found() -> list[Estimate]:
        networks = ends(e, grid, where, below)
        names = sorted({name for pair in pairs for name in pair})
        columns = np.array([column(networks, grid, name) for name in names])
        there = np.isfinite(columns).all(axis=0)
        count = there.sum()
        if count < FEWEST_FOR_RANKS:
            few = f"{grid} has {count} networks ({in_words(where) or 'in all'})"
            raise NotThere(f"{few}, a rank correlation needs {FEWEST_FOR_RANKS}")
        of = dict(zip(names, columns[:, there], strict=True))
        ranks = Ranks(of, [str(setting) for setting in networks["setting"].values[there]])
        return [replace(ranks.tau(*pair), name=called(pair)) for pair in pairs]

    return estimates(map(called, pairs), found)


def tau_of(
    e: Evidence, grid: str, where: Setting, x: str, y: str, below: Setting | None = None
) -> Estimate:
    """One of `taus`."""
    return taus(e, grid, where, (x, y), below=below)[0]


def seeds(e: Evidence, grid: str, where: Setting, name: str) -> Array:
    """A quantity of the networks of one setting, as many as a mean needs: (seeds)."""
    values = column(ends(e, grid, where), grid, name)
    values = values[np.isfinite(values)]
    enough(len(values), grid, f"networks with {name} ({in_words(where)})")
    return values


def more(e: Evidence, grid: str, name: str, here: Setting, there: Setting) -> Estimate:
    """How much larger the mean of a quantity is in one setting than in another."""
    label = f"{SHORT.get(name, name)}({in_words(here)}) - ({in_words(there)}); {grid}"
    settings = here, there
    return estimate(label, lambda: difference(label, *(seeds(e, grid, s, name) for s in settings)))


def steps(
    e: Evidence, grid: str, where: Setting, key: str, values: Sequence[float], name: str
) -> list[Estimate]:
    """From each value of a hyper-parameter to the next one: how much larger a quantity becomes."""
    return [more(e, grid, name, {**where, key: b}, {**where, key: a}) for a, b in pairwise(values)]


def values_of(e: Evidence, grid: str, where: Setting, key: str) -> list[float]:
    """The values of a hyper-parameter that the networks of some settings have, in order."""
    found = np.unique(column(ends(e, grid, where), grid, key))
    if not len(found):
        raise NotThere(f"{grid} has no networks ({in_words(where)})")
    return [float(value) for value in found]
