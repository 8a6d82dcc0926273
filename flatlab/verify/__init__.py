"""The papers' claims as predicates on tables, and the verdicts on them: one file per paper.

A file `verify/<paper>.py` has a dictionary `CLAIMS`: figure -> list of claims.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from flatlab.stats import Correlations, Estimate, Verdict
from flatlab.tables.selection import columns_of, end_of_training, one_per_run


class Evidence:
    """The tables that the claims of a figure are judged by."""

    def __init__(self, tables: Mapping[str, xr.Dataset]) -> None:
        self.tables = tables

    def __contains__(self, grid: str) -> bool:
        return grid in self.tables

    @functools.cache  # noqa: B019 - lives as long as the verdicts of one figure
    def correlations(self, grid: str) -> Correlations:
        chosen = end_of_training(self.tables[grid])
        return Correlations(columns_of(chosen, one_per_run(chosen)), list(chosen["setting"].values))

    def rho(self, grid: str, x: str, y: str) -> Estimate:
        """Pearson's correlation over the runs of a grid at the end of training."""
        return self.correlations(grid).rho(x, y)

    def values(self, grid: str, name: str) -> np.ndarray:
        """A quantity at every checkpoint of every run that did not diverge."""
        table = self.tables[grid]
        return table[name].sel(run=~table["diverged"].values).values


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
    module = importlib.import_module(f"flatlab.verify.{paper}")
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
        "grids": {grid: _about(table) for grid, table in tables.items()},
    }


def _about(table: xr.Dataset) -> dict[str, Any]:
    diverged = int(table["diverged"].sum())
    return {**table.attrs, "runs": table.sizes["run"] - diverged, "diverged": diverged}
