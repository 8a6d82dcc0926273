"""The papers' claims as predicates on tables, and the verdicts on them: one file per paper.

A file `papers/<paper>/claims.py` has a dictionary `CLAIMS`: figure -> list of claims.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from flatlab.claims.curves import Curves, NotThere, Setting, series
from flatlab.stats import Correlations, Estimate, Verdict, undefined
from flatlab.tables.selection import columns_of, end_of_training, one_per_run


class Evidence:
    """The tables that the claims of a figure are judged by."""

    def __init__(self, tables: Mapping[str, xr.Dataset]) -> None:
        self.tables = tables

    def table(self, grid: str) -> xr.Dataset:
        """The table of a grid; `NotThere` without one."""
        if grid not in self.tables:
            raise NotThere(f"{grid} is not among the tables")
        return self.tables[grid]

    @functools.cache  # noqa: B019 - lives as long as the verdicts of one figure
    def correlations(self, grid: str, seeds: int | None = None) -> Correlations:
        """Of the runs of a grid at the end of training, of its first seeds or of all."""
        chosen = end_of_training(self.table(grid))
        if seeds is not None:
            chosen = chosen.sel(run=chosen["seed"].values < seeds)
        columns = columns_of(chosen, one_per_run(chosen))
        if "g" in columns:
            columns["root_g"] = np.sqrt(columns["g"])  # G is quadratic in what MLS is linear in
        return Correlations(columns, list(chosen["setting"].values))

    def rho(self, grid: str, x: str, y: str, seeds: int | None = None) -> Estimate:
        """Pearson's correlation over the runs of a grid at the end of training."""
        return self.rhos(grid, (x, y), seeds=seeds)[0]

    def rhos(self, grid: str, *pairs: tuple[str, str], seeds: int | None = None) -> list[Estimate]:
        """Correlations to be compared, of the same runs."""
        try:
            correlations = self.correlations(grid, seeds)
            for name in (name for pair in pairs for name in pair):
                if name not in correlations.names:
                    raise NotThere(f"{grid} has no {name}")
        except NotThere as missing:
            return [undefined(f"rho({x}, {y})", str(missing)) for x, y in pairs]
        return correlations.rhos(*pairs)

    def values(self, grid: str, name: str) -> np.ndarray:
        """A quantity on training samples at every checkpoint of every run that did not diverge."""
        table = self.table(grid)
        return series(grid, table.sel(run=~table["diverged"].values), name)

    @functools.cache  # noqa: B019 - as above
    def curves(self, grid: str, setting: Setting) -> Curves:
        """The training of one setting of a grid."""
        return Curves(grid, self.tables.get(grid), setting)


@dataclass(frozen=True)
class Claim:
    """key: its number in the figure.  text: the predicate.  source: where the paper says so."""

    key: str
    text: str
    source: str
    judge: Callable[[Evidence], Verdict]


def verify(target: str, tables: Mapping[str, xr.Dataset]) -> dict[str, Any]:
    """The verdicts on the claims of a figure, as JSON holds them."""
    paper, figure = target.split("_")
    module = importlib.import_module(f"flatlab.papers.{paper}.claims")
    evidence = Evidence(tables)
    claims = []
    for claim in module.CLAIMS.get(figure, []):
        verdict = claim.judge(evidence)
        claims.append(
            {
                "id": f"{target}/{claim.key}",
                "text": claim.text,
                "source": claim.source,
                "verdict": verdict.outcome,
                "reason": verdict.reason,
                "evidence": verdict.evidence,
            }
        )
    return {
        "target": target,
        "claims": claims,
        "grids": {key: _about(t) for key, t in tables.items() if "study" not in t.attrs},
        "studies": {key: t.attrs for key, t in tables.items() if "study" in t.attrs},
    }


def _about(table: xr.Dataset) -> dict[str, Any]:
    diverged = int(table["diverged"].sum())
    return {**table.attrs, "runs": table.sizes["run"] - diverged, "diverged": diverged}
