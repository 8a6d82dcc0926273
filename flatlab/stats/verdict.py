"""Verdicts: what the numbers say about a claim.

A claim `holds` if the interval lies wholly on the claimed side, `fails` if it lies wholly on the
other side, and is `undecided` otherwise; it is `not run` if what it is about was not computed.
Verdicts combine with & (all of them), | (at least one) and ~ (not).
"""

import functools
import operator
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

Outcome = Literal["holds", "fails", "undecided", "not run"]
OPPOSITE: dict[Outcome, Outcome] = {"holds": "fails", "fails": "holds"}

TOLERANCE = 1e-6
"""Relative rounding error that an inequality allows for."""


@dataclass(frozen=True)
class Verdict:
    """outcome; reason, if there is one; evidence: each comparison with its numbers.

    An entry of the evidence has quantity, claim and n, the number of runs used. A comparison also
    has value, low and high; an inequality for all values has violations and of (how many values).
    """

    outcome: Outcome
    reason: str = ""
    evidence: list[dict[str, Any]] = field(default_factory=list)

    def __and__(self, other: "Verdict") -> "Verdict":
        return self._join(other, decisive="fails", neutral="holds")

    def __or__(self, other: "Verdict") -> "Verdict":
        return self._join(other, decisive="holds", neutral="fails")

    def __invert__(self) -> "Verdict":
        return replace(self, outcome=OPPOSITE.get(self.outcome, self.outcome))

    def reporting(self, *entries: dict[str, Any]) -> "Verdict":
        """The same verdict, with numbers that did not contribute to it."""
        said = [{**entry, "claim": "reported, not judged"} for entry in entries]
        return replace(self, evidence=self.evidence + said)

    def _join(self, other: "Verdict", decisive: Outcome, neutral: Outcome) -> "Verdict":
        both: set[Outcome] = {self.outcome, other.outcome}
        undecided: Outcome = "not run" if "not run" in both else "undecided"
        outcome = decisive if decisive in both else neutral if both == {neutral} else undecided
        reasons = dict.fromkeys(f"{self.reason}; {other.reason}".split("; "))  # each once
        reason = "; ".join(filter(None, reasons))
        return Verdict(outcome, reason, self.evidence + other.evidence)


def every(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that all of these hold."""
    return functools.reduce(operator.and_, verdicts)


def some(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that at least one of these holds."""
    return functools.reduce(operator.or_, verdicts)


def theorem(name: str, smaller: ArrayLike, larger: ArrayLike) -> Verdict:
    """A pure inequality, which must hold for every single value up to rounding.

    smaller, larger: (runs, ...).
    """
    evidence = {**violations(name, smaller, larger), "claim": "for every value"}
    if not evidence["of"]:
        return Verdict("not run", f"{name} is not defined for these runs", [evidence])
    return Verdict("fails" if evidence["violations"] else "holds", "", [evidence])


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
    return Verdict("not run", reason)
