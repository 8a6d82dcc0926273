"""Verdicts: what the numbers say about a claim.

A comparison `holds` if its 95 % interval lies wholly on the claimed side, `fails` if it lies wholly
on the other side, and is `undecided` otherwise; it is `not run` if what it is about was not
computed. It carries the one-sided p-values of both sides. Verdicts combine with & (all of them), |
(at least one) and ~ (not). That all of several hold has the largest of their p-values; that at
least one of k does not has the smallest, times k (Bonferroni), so that a claim of many parts is not
decided by the luckiest of them; `at_least` is between the two.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

Outcome = Literal["holds", "fails", "undecided", "not run"]

LEVEL = 0.95
TAIL = (1 - LEVEL) / 2

REPORTED = "reported, not judged"
"""The `claim` of evidence that did not contribute to the verdict."""

TOLERANCE = 1e-6
"""Relative rounding error that an inequality allows for."""

FEW = 3
"""So many reasons are told; every comparison without a number is in the evidence."""


@dataclass(frozen=True)
class Verdict:
    """outcome; reasons, if there are any; evidence: each comparison with its numbers.

    An entry of the evidence has quantity, claim and n, the number of runs used. A comparison also
    has value, low and high; an inequality for all values has violations and of (how many values).
    holds, fails: one-sided p-values; None where nothing was tested, but for rounding.
    """

    outcome: Outcome
    reasons: tuple[str, ...] = ()
    evidence: list[dict[str, Any]] = field(default_factory=list)
    holds: float | None = None
    fails: float | None = None

    @classmethod
    def tested(cls, holds: float, fails: float, evidence: list[dict[str, Any]]) -> "Verdict":
        """The verdict that two p-values give."""
        return cls(_outcome(holds, fails), (), evidence, holds, fails)

    @property
    def reason(self) -> str:
        """The reasons in words, of many the first few and how many more there are."""
        told = "; ".join(self.reasons[:FEW])
        more = len(self.reasons) - FEW
        return f"{told}; and {more} more" if more > 0 else told

    @property
    def p(self) -> float | None:
        """The two-sided p-value of the claim; None where nothing was tested."""
        if self.holds is None or self.fails is None or self.outcome == "not run":
            return None
        return min(1.0, 2 * min(self.holds, self.fails))

    def __and__(self, other: "Verdict") -> "Verdict":
        return every([self, other])

    def __or__(self, other: "Verdict") -> "Verdict":
        return some([self, other])

    def __invert__(self) -> "Verdict":
        opposite: dict[Outcome, Outcome] = {"holds": "fails", "fails": "holds"}
        outcome = opposite.get(self.outcome, self.outcome)
        return replace(self, outcome=outcome, holds=self.fails, fails=self.holds)

    def provided(self, condition: "Verdict", otherwise: str) -> "Verdict":
        """The same verdict if a condition of the claim holds; `not run` if not, and why."""
        if condition.outcome == "holds":
            return replace(self, evidence=condition.evidence + self.evidence)
        reasons = tuple(filter(None, [otherwise, *condition.reasons]))
        return Verdict("not run", reasons).reporting(*condition.evidence, *self.evidence)

    def reporting(self, *entries: dict[str, Any]) -> "Verdict":
        """The same verdict, with numbers that did not contribute to it."""
        said = [{**entry, "claim": REPORTED} for entry in entries]
        return replace(self, evidence=self.evidence + said)


def every(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that all of these hold."""
    parts = list(verdicts)
    return at_least(len(parts), parts)


def at_least(count: int, verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that so many of these hold, or more.

    Its p-value is that of partial conjunctions, Benjamini and Heller (2008): with p_(1) <=
    p_(2) ... of k parts, (k - count + 1) p_(count).
    """
    parts = list(verdicts)
    known = [part for part in parts if part.outcome != "not run"]
    evidence = [entry for part in parts for entry in part.evidence]
    reasons = tuple(dict.fromkeys(reason for part in parts for reason in part.reasons))
    ps = [_p_values(part) for part in known]
    holds = _partial_conjunction([p for p, _ in ps], count)
    fails = _partial_conjunction([p for _, p in ps], len(parts) - count + 1)
    outcome = _outcome(holds, fails)
    if outcome == "undecided" and len(known) < len(parts):
        return Verdict("not run", reasons, evidence)
    if all(part.holds is None for part in known):
        return Verdict(outcome, reasons, evidence)
    return Verdict(outcome, reasons, evidence, holds, fails)


def _partial_conjunction(ps: list[float], count: int) -> float:
    """The p-value that at least `count` of some claims are true."""
    if not 0 < count <= len(ps):
        return 1.0
    return min(1.0, (len(ps) - count + 1) * sorted(ps)[count - 1])


def some(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that at least one of these holds."""
    return ~every(~verdict for verdict in verdicts)


def _outcome(holds: float, fails: float) -> Outcome:
    return "holds" if holds <= TAIL else "fails" if fails <= TAIL else "undecided"


def _p_values(verdict: Verdict) -> tuple[float, float]:
    """Its p-values; those of an inequality that was checked, not tested, are 0 and 1."""
    if verdict.holds is not None and verdict.fails is not None:
        return verdict.holds, verdict.fails
    return float(verdict.outcome != "holds"), float(verdict.outcome != "fails")


def theorem(name: str, smaller: ArrayLike, larger: ArrayLike) -> Verdict:
    """A pure inequality, which must hold for every single value up to rounding.

    smaller, larger: (runs, ...).
    """
    evidence = {**violations(name, smaller, larger), "claim": "for every value"}
    if not evidence["of"]:
        return Verdict("not run", (f"{name} is not defined for these runs",), [evidence])
    return Verdict("fails" if evidence["violations"] else "holds", (), [evidence])


def violations(name: str, smaller: ArrayLike, larger: ArrayLike) -> dict[str, Any]:
    """How often `smaller <= larger` is violated: among how many defined values, of n runs."""
    a, b = np.broadcast_arrays(np.asarray(smaller, float), np.asarray(larger, float))
    defined = ~(np.isnan(a) | np.isnan(b))
    return {
        "quantity": name,
        "violations": int((a > b * (1 + TOLERANCE))[defined].sum()),
        "of": int(defined.sum()),
        "n": int(defined.any(axis=tuple(range(1, defined.ndim))).sum()),
    }


def not_run(reason: str) -> Verdict:
    """The verdict on a claim whose numbers were not computed."""
    return Verdict("not run", (reason,))
