"""The tables that the claims of a figure are judged by, and what is read from them.

What was not computed, or may not be used, raises `NotThere`, and a claim about it is `not run` and
says why. It is caught in `attempt` and nowhere else, as close to the missing number as an estimate:
if one part of a claim is missing, another part may still decide it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from flatlab.claims.eligibility import NotThere, check_correlated, doubt, interpolates
from flatlab.plan.schema import EVIDENCE
from flatlab.stats import KINDS, Correlations, Estimate, undefined
from flatlab.stats.correlation import Kind
from flatlab.stats.estimate import Array
from flatlab.tables import selection

T = TypeVar("T")
BESIDE: tuple[Kind, ...] = ("within", "adjusted")
Pair = tuple[str, str]
Setting = Mapping[str, Any]
"""Hyper-parameters and their values, {"lr": 0.1, "batch_size": 20}: a line in a figure."""


def attempt(make: Callable[[], T], otherwise: Callable[[str], T]) -> T:
    """The result of `make` or, if something was not computed, of `otherwise(reason)`."""
    try:
        return make()
    except NotThere as missing:
        return otherwise(str(missing))


def estimates(names: Iterable[str], make: Callable[[], list[Estimate]]) -> list[Estimate]:
    """The estimates that `make` returns, or undefined ones of these names that say why."""
    return attempt(make, lambda reason: [undefined(name, reason) for name in names])


def estimate(name: str, make: Callable[[], Estimate]) -> Estimate:
    """The estimate that `make` returns, or an undefined one that says why."""
    return estimates([name], lambda: [make()])[0]


class Evidence:
    """Tables by the keys of their experiments; `NotThere` for whatever they do not have.

    used: the experiments whose tables were asked for.
    """

    def __init__(self, tables: Mapping[str, xr.Dataset]) -> None:
        self.tables = tables
        self.used: set[str] = set()
        self._correlations: dict[tuple[Any, ...], Correlations] = {}

    def table(self, key: str) -> xr.Dataset:
        """The table of an experiment."""
        if key not in self.tables:
            raise NotThere(f"{key} is not among the tables")
        self.used.add(key)
        return self.tables[key]

    @property
    def kind(self) -> str:
        """The worst kind of evidence among the tables that were used; "" if none was."""
        kinds = [self.tables[key].attrs["evidence"] for key in self.used]
        return max(kinds, key=EVIDENCE.index, default="")

    @property
    def differs(self) -> list[str]:
        """What differs from the paper's experiments in the tables that were used."""
        by_key = {key: self.tables[key].attrs["differs"] for key in sorted(self.used)}
        return [f"{key}: {what}" for key, differs in by_key.items() for what in differs]

    def runs(self, grid: str, where: Setting | None = None, followed: bool = False) -> xr.Dataset:
        """The runs of a grid that did not diverge.  followed: see `through_training`."""
        return selection.through_training(self.table(grid), where, followed)

    def values(self, grid: str, name: str) -> Array:
        """A quantity on training samples, for every run that did not diverge, at all checkpoints.

        Shape (runs, checkpoints) or, for a quantity per layer, (runs, checkpoints, layers).
        """
        return series(grid, self.runs(grid), name)

    def correlations(
        self,
        grid: str,
        seeds: int | None = None,
        interpolating: bool = True,
        where: Setting | None = None,
    ) -> Correlations:
        """Correlations over the networks that did not diverge, at the end of training.

        seeds: only the first ones of each setting.  interpolating: only those that interpolate.
        where: only of these settings. The square root of each quantity is a column too,
        root_<name>.
        """
        table = self.table(grid)  # used, although its correlations may be known already
        key = grid, seeds, interpolating, tuple((where or {}).items())
        if key in self._correlations:
            return self._correlations[key]
        chosen = selection.end_of_training(table)
        for name, value in (where or {}).items():
            chosen = chosen.sel(run=chosen[name].values == value)
        if interpolating:
            chosen = chosen.sel(run=interpolates(table).sel(run=chosen["run"].values).values)
        if seeds is not None:
            chosen = selection.of_seeds(chosen, range(seeds))
        check_correlated(table, chosen, interpolating)
        columns = selection.columns_of(chosen, selection.one_per_run(chosen))
        with np.errstate(invalid="ignore"):
            roots = {f"root_{name}": np.sqrt(values) for name, values in columns.items()}
        settings = list(chosen["setting"].values)
        found = Correlations(columns | roots | columns, settings, chosen["train_loss"].values)
        self._correlations[key] = found
        return found

    def rho(self, grid: str, x: str, y: str, **which: Any) -> Estimate:
        """Pearson's correlation over networks of a grid; which: options of `correlations`."""
        return self.rhos(grid, (x, y), **which)[0]

    def rhos(self, grid: str, *pairs: Pair, **which: Any) -> list[Estimate]:
        """Correlations to be compared, over the same networks: over all of them, as in the paper.

        which: options of `correlations`. Beside each are those within settings and adjusted for
        the training loss.
        """

        def found() -> list[Estimate]:
            known = self.correlations(grid, **which)
            for name in (name for pair in pairs for name in pair):
                if name not in known.names:
                    raise NotThere(f"{grid} has no {name}")
            others = {KINDS[kind]: known.rhos(*pairs, kind=kind) for kind in BESIDE}
            return [
                replace(
                    rho,
                    name=f"{rho.name}; {grid}",
                    beside={kind: rhos[place] for kind, rhos in others.items()},
                    doubt=doubt(known.constant_share(*pairs[place])),
                )
                for place, rho in enumerate(known.rhos(*pairs))
            ]

        return estimates([f"rho({x}, {y}); {grid}" for x, y in pairs], found)


def series(grid: str, runs: xr.Dataset, name: str, samples: str = "train") -> Array:
    """A quantity of some runs at their checkpoints: (runs, checkpoints, ...)."""
    if name not in runs:
        raise NotThere(f"{grid} has no {name}")
    array = runs[name]
    if "samples" in array.dims:
        if samples not in runs["samples"].values:
            raise NotThere(f"{grid} has no {samples} samples")
        array = array.sel(samples=samples)
    return array.values.astype(float)
