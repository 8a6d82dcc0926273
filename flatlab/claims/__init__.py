"""Claims of papers as predicates on tables, and the verdicts on them.

This folder holds what any paper can use. The claims of a paper are in its own folder, in
`papers/<paper>/claims.py`: a dictionary `CLAIMS`, figure -> key -> claim.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import xarray as xr

from flatlab.claims.evidence import Evidence
from flatlab.claims.missing import attempt
from flatlab.stats import Verdict, not_run

Judge = Callable[[Evidence], Verdict]


@dataclass(frozen=True)
class Claim:
    """text: the predicate, in words.  source: where the paper says so.  predicate: the judge."""

    text: str
    source: str
    predicate: Judge

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict; `not run` if something that the claim is about was not computed."""
        return attempt(lambda: self.predicate(evidence), not_run)


Claims = dict[str, Claim]
"""The claims about a figure, by their keys in it."""


def claims_of(paper: str, figure: str) -> Claims:
    """What a paper says of one of its figures; empty if it has no claims."""
    module = f"flatlab.papers.{paper}.claims"
    claims = importlib.import_module(module).CLAIMS if find_spec(module) else {}
    return claims.get(figure, {})


def verify(target: str, tables: Mapping[str, xr.Dataset]) -> dict[str, Any]:
    """The verdicts on the claims of a figure, as they are stored in JSON.

    tables: by the keys of their experiments.
    """
    evidence = Evidence(tables)
    verdicts = {
        key: (claim, claim.judge(evidence)) for key, claim in claims_of(*target.split("_")).items()
    }
    return {
        "target": target,
        "claims": [
            {
                "id": f"{target}/{key}",
                "text": claim.text,
                "source": claim.source,
                "verdict": verdict.outcome,
                "reason": verdict.reason,
                "evidence": verdict.evidence,
            }
            for key, (claim, verdict) in verdicts.items()
        ],
        "tables": {key: _about(table) for key, table in tables.items()},
    }


def _about(table: xr.Dataset) -> dict[str, Any]:
    """The attributes of a table and, if its runs can diverge, how many did and did not."""
    if "diverged" not in table.coords:
        return table.attrs
    diverged = int(table["diverged"].sum())
    return {**table.attrs, "runs": table.sizes["run"] - diverged, "diverged": diverged}
