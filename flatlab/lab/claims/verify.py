"""The verdicts on the claims of a figure."""

import importlib
from collections.abc import Mapping
from importlib.util import find_spec

import xarray as xr

from flatlab.lab.claims.registry import Claims
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
    of_paper = claims_of(paper)
    claims = of_paper.get(figure, {})
    entries = [claim.entry(f"{target}/{key}", results) for key, claim in claims.items()]
    abouts = {
        key: table.attrs | (counts(table) if "diverged" in table.coords else {})
        for key, table in tables.items()
    }
    verdicts: FigureVerdicts = {"target": target, "claims": entries, "tables": abouts}
    named = {name for entry in entries for name in entry.get("readings", {})}
    told = {name: of_paper.readings[name]._asdict() for name in sorted(named)}
    return {**verdicts, "readings": told} if told else verdicts


def claims_of(paper: str) -> Claims:
    """The claims of a paper; a paper may have none."""
    module = f"flatlab.papers.{paper}.claims"
    return importlib.import_module(module).CLAIMS if find_spec(module) else Claims(paper)
