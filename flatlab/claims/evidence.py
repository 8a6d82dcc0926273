"""The tables that the claims of a figure are judged by, and what is read from them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

import numpy as np
import xarray as xr

from flatlab.claims.curves import Array, Curves, Setting, series
from flatlab.claims.missing import NotThere, attempt
from flatlab.stats import Correlations, Estimate, undefined
from flatlab.tables.selection import (
    TREND_SEEDS,
    columns_of,
    end_of_training,
    of_seeds,
    one_per_run,
    through_training,
)

Pair = tuple[str, str]


class Evidence:
    """Tables by the keys of their experiments; `NotThere` where one lacks what is asked for."""

    def __init__(self, tables: Mapping[str, xr.Dataset]) -> None:
        self.tables = tables

    def table(self, key: str) -> xr.Dataset:
        """The table of an experiment."""
        if key not in self.tables:
            raise NotThere(f"{key} is not among the tables")
        return self.tables[key]

    def runs(
        self, grid: str, where: Setting | None = None, seeds: Iterable[int] | None = None
    ) -> xr.Dataset:
        """The runs of a grid that did not diverge: of one setting and some seeds, or of all."""
        return through_training(self.table(grid), where, seeds)

    def values(self, grid: str, name: str) -> Array:
        """A quantity on training samples at every checkpoint of every run that did not diverge."""
        return series(grid, self.runs(grid), name)

    @functools.cache  # noqa: B019 - lives as long as the verdicts of one figure
    def curves(self, grid: str, setting: Setting) -> Curves:
        """The training of one setting of a grid, of the seeds that trend figures show."""
        return Curves(grid, setting, lambda: self.runs(grid, setting, TREND_SEEDS))

    @functools.cache  # noqa: B019 - as above
    def correlations(
        self, grid: str, seeds: int | None = None, roots: tuple[str, ...] = ()
    ) -> Correlations:
        """Of the runs of a grid at the end of training, of its first seeds or of all.

        roots: quantities whose square roots are columns too, root_<name>.
        """
        chosen = end_of_training(self.table(grid))
        if seeds is not None:
            chosen = of_seeds(chosen, range(seeds))
        columns = columns_of(chosen, one_per_run(chosen))
        columns |= {f"root_{name}": np.sqrt(columns[name]) for name in roots if name in columns}
        return Correlations(columns, list(chosen["setting"].values))

    def rho(self, grid: str, x: str, y: str, seeds: int | None = None) -> Estimate:
        """Pearson's correlation over the runs of a grid at the end of training."""
        return self.rhos(grid, (x, y), seeds=seeds)[0]

    def rhos(
        self, grid: str, *pairs: Pair, seeds: int | None = None, roots: tuple[str, ...] = ()
    ) -> list[Estimate]:
        """Correlations to be compared, of the same runs."""

        def found() -> list[Estimate]:
            correlations = self.correlations(grid, seeds, roots)
            for name in (name for pair in pairs for name in pair):
                if name not in correlations.names:
                    raise NotThere(f"{grid} has no {name}")
            return correlations.rhos(*pairs)

        return attempt(
            found, lambda reason: [undefined(f"rho({x}, {y})", reason) for x, y in pairs]
        )
