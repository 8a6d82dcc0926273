"""Claims of papers as predicates on tables, and the verdicts on them.

This folder holds what any paper can use. The claims of a paper are in its own folder, in
`papers/<paper>/claims.py`: a dictionary `CLAIMS`, figure -> key -> claim.
"""

import importlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Literal

import xarray as xr

from flatlab.claims.evidence import Evidence, attempt
from flatlab.plan.schema import EVIDENCE
from flatlab.stats import Verdict, not_run
from flatlab.tables.selection import counts

Judge = Callable[..., Verdict]
Nature = Literal["finding", "theorem", "check"]


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, and the predicate that judges it.

    text: the predicate, in words.  quote: what the paper says, its own words, shortened, or this
    project's statement and what would refute it; source: where, or when.
    predicate: the judge of `Evidence` and, if there is one, of a threshold.  threshold: a number in
    the predicate that is ours; the verdicts at half and at twice of it are reported.
    nature: `finding`; `theorem`, which can fail by rounding alone; `check` of code or set-up.
    repeats: the claim that says the same of the same networks, or of which this is another reading.
    admits: the kinds of evidence that can decide it; on others it is `not run`, with its numbers.
    """

    text: str
    source: str
    predicate: Judge
    quote: str
    threshold: float | None = None
    nature: Nature = "finding"
    repeats: str = ""
    admits: Collection[str] = EVIDENCE

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict; `not run` if something that the claim is about was not computed."""
        return self._at(self.threshold, evidence)

    def _at(self, threshold: float | None, evidence: Evidence) -> Verdict:
        given = () if threshold is None else (threshold,)
        verdict = attempt(lambda: self.predicate(evidence, *given), not_run)
        kind = evidence.kind
        if not kind or kind in self.admits:
            return verdict
        reason = f"the evidence is {kind}, and this claim admits {' and '.join(self.admits)} alone"
        return not_run(reason).reporting(*verdict.evidence)

    def entry(self, name: str, evidence: Evidence) -> dict[str, Any]:
        """What the file of verdicts says of it.  name: its id."""
        evidence.used.clear()
        verdict = self.judge(evidence)
        others = [] if self.threshold is None else [self.threshold / 2, 2 * self.threshold]
        return {
            "id": name,
            **{key: getattr(self, key) for key in ("text", "quote", "source", "nature", "repeats")},
            "kind": evidence.kind,
            "differs": evidence.differs,
            "verdict": verdict.outcome,
            "reason": verdict.reason,
            "p": verdict.p,
            "thresholds": [
                {"threshold": other, "verdict": self._at(other, evidence).outcome}
                for other in others
            ],
            "evidence": verdict.evidence,
        }


Claims = dict[str, Claim]
"""The claims about a figure, by their keys in it."""


def states(text: str, source: str, **about: Any) -> Callable[[Judge], Claim]:
    """The decorator that makes a claim of the predicate below it.  about: other fields of it."""
    return lambda predicate: Claim(text, source, predicate, **about)


def numbered(*claims: Claim, reading: str = "", of: str = "") -> Claims:
    """Claims by the keys c1, c2, ...

    reading: the ending of the keys where these are another reading of the claims of the figure
    `of`, which they then repeat: c1-code is another reading of c1.
    """
    return {
        f"c{number}{reading}": replace(claim, repeats=f"{of}/c{number}") if reading else claim
        for number, claim in enumerate(claims, start=1)
    }


def verify(target: str, tables: Mapping[str, xr.Dataset]) -> dict[str, Any]:
    """The verdicts on the claims of a figure, as they are stored in JSON.

    tables: by the keys of their experiments.
    """
    paper, figure = target.split("_")
    module = f"flatlab.papers.{paper}.claims"
    claims: dict[str, Claims] = importlib.import_module(module).CLAIMS if find_spec(module) else {}
    evidence = Evidence(tables)
    of_figure = claims.get(figure, {}).items()
    entries = [claim.entry(f"{target}/{key}", evidence) for key, claim in of_figure]
    abouts = {
        key: table.attrs | (counts(table) if "diverged" in table.coords else {})
        for key, table in tables.items()
    }
    return {"target": target, "claims": entries, "tables": abouts}
