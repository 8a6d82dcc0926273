"""A claim: a statement of a paper, and the predicate that judges it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import cast

from flatlab.core.schema import EVIDENCE
from flatlab.lab.claims.result_tables import ResultTables
from flatlab.lab.tables.eligibility import unless_missing
from flatlab.lab.verdict_files import ClaimRecord, EvidenceEntry, Nature
from flatlab.stats.verdict import Verdict, not_run

Predicate = Callable[..., Verdict]


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, and the predicate that judges it.

    text: the predicate, in words.
    source: where, or when, it was stated.
    predicate: the judge of `ResultTables` and, if there is one, of a threshold.
    quote: what the paper says, its own words, shortened, or this project's statement and what would
        refute it.
    threshold: a number in the predicate that is ours; the verdicts at half and at twice of it are
        reported.
    nature: `finding`; `theorem`, which can fail by rounding alone; `check` of code or set-up.
    repeats: the claim that says the same of the same networks, or of which this is a variant.
    admits: the fidelities that can decide it; on others it is `not run`, with its numbers.
    readings: what is chosen where the paper leaves something open: {"gap": "losses"}.
    """

    text: str
    source: str
    predicate: Predicate
    quote: str
    threshold: float | None = None
    nature: Nature = "finding"
    repeats: str = ""
    admits: Collection[str] = EVIDENCE
    readings: Mapping[str, str] = field(default_factory=dict)

    def judge(self, tables: ResultTables) -> Verdict:
        """The verdict; `not run` if something that the claim is about was not computed."""
        return self._at(self.threshold, tables)

    def _at(self, threshold: float | None, tables: ResultTables) -> Verdict:
        arguments = () if threshold is None else (threshold,)
        verdict = unless_missing(lambda: self.predicate(tables, *arguments), not_run)
        fidelity = tables.fidelity
        if not fidelity or fidelity in self.admits:
            return verdict
        admitted = " and ".join(self.admits)
        reason = f"the evidence is {fidelity}, and this claim admits {admitted} alone"
        return not_run(reason).reporting(*verdict.evidence)

    def entry(self, name: str, tables: ResultTables) -> ClaimRecord:
        """What the file of verdicts says of it.  name: its id."""
        tables.used.clear()
        verdict = self.judge(tables)
        others = [] if self.threshold is None else [self.threshold / 2, 2 * self.threshold]
        record: ClaimRecord = {
            "id": name,
            "text": self.text,
            "quote": self.quote,
            "source": self.source,
            "nature": self.nature,
            "repeats": self.repeats,
            "kind": tables.fidelity,
            "differs": tables.differs,
            "verdict": verdict.outcome,
            "reason": verdict.reason,
            "p": verdict.p,
            "thresholds": [
                {"threshold": other, "verdict": self._at(other, tables).outcome} for other in others
            ],
            "evidence": cast("list[EvidenceEntry]", verdict.evidence),
        }
        return {**record, "readings": dict(self.readings)} if self.readings else record
