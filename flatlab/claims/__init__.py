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

from flatlab.claims.evidence import Evidence, attempt
from flatlab.stats import Verdict, not_run
from flatlab.tables.selection import counts

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


def states(text: str, source: str) -> Callable[[Judge], Claim]:
    """The decorator that makes a claim of the predicate below it."""
    return lambda predicate: Claim(text, source, predicate)


def numbered(*claims: Claim, ending: str = "") -> Claims:
    """Claims by the keys c1, c2, ..., each with the ending of its variant."""
    return {f"c{number}{ending}": claim for number, claim in enumerate(claims, start=1)}


def verify(target: str, tables: Mapping[str, xr.Dataset]) -> dict[str, Any]:
    """The verdicts on the claims of a figure, as they are stored in JSON.

    tables: by the keys of their experiments.
    """
    paper, figure = target.split("_")
    module = f"flatlab.papers.{paper}.claims"
    claims: dict[str, Claims] = importlib.import_module(module).CLAIMS if find_spec(module) else {}
    evidence = Evidence(tables)
    entries = []
    for key, claim in claims.get(figure, {}).items():
        verdict = claim.judge(evidence)
        entries.append(
            {
                "id": f"{target}/{key}",
                "text": claim.text,
                "source": claim.source,
                "verdict": verdict.outcome,
                "reason": verdict.reason,
                "evidence": verdict.evidence,
            }
        )
    abouts = {
        key: table.attrs | (counts(table) if "diverged" in table.coords else {})
        for key, table in tables.items()
    }
    return {"target": target, "claims": entries, "tables": abouts}
