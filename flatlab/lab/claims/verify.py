"""The verdicts on the claims of a figure."""

import importlib
from collections.abc import Mapping
from importlib.util import find_spec

import xarray as xr

from flatlab.lab.claims.claim import Claim
from flatlab.lab.claims.result_tables import ResultTables
from flatlab.lab.tables.selection import counts
from flatlab.lab.verdict_files import FigureVerdicts


def verify(target: str, tables: Mapping[str, xr.Dataset]) -> FigureVerdicts:
    """The verdicts on the claims of a figure, as they are stored in JSON.

    target: the figure, "chen2026_fig2".
    tables: by the keys of their experiments.
    """
    paper, figure = target.split("_")
    results = ResultTables(tables)
    claims = claims_of(paper).get(figure, {})
    entries = [claim.entry(f"{target}/{key}", results) for key, claim in claims.items()]
    abouts = {
        key: table.attrs | (counts(table) if "diverged" in table.coords else {})
        for key, table in tables.items()
    }
    return {"target": target, "claims": entries, "tables": abouts}


def claims_of(paper: str) -> dict[str, dict[str, Claim]]:
    """The claims of a paper by figure and key; a paper may have none."""
    module = f"flatlab.papers.{paper}.claims"
    claims: dict[str, dict[str, Claim]] = {}
    return importlib.import_module(module).CLAIMS if find_spec(module) else claims
