# ruff: noqa: F401
"""Evidence by its former name, for papers that do not use `Networks` yet."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from flatlab.claims.eligibility import NotThere, check_correlated, doubt, interpolates
from flatlab.claims.result_tables import ResultTables
from flatlab.stats import KINDS, Correlations, Estimate
from flatlab.stats.correlation import Kind
from flatlab.stats.estimate import Array
from flatlab.tables import selection
from flatlab.tables.eligibility import estimate, estimates
from flatlab.tables.eligibility import unless_missing as attempt

BESIDE: tuple[Kind, ...] = ("within", "adjusted")
Pair = tuple[str, str]
Setting = Mapping[str, Any]
"""Hyper-parameters and their values, {"lr": 0.1, "batch_size": 20}: a line in a figure."""


class Evidence(ResultTables):
    """Tables by the keys of their experiments, for papers that do not use `Networks` yet."""

    def __init__(self, tables: Mapping[str, xr.Dataset]) -> None:
        super().__init__(tables)
        self._correlations: dict[tuple[Any, ...], Correlations] = {}

    @property
    def kind(self) -> str:
        """The fidelity."""
        return self.fidelity

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
