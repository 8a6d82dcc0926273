"""Verdicts: what an interval says about a claim.

`holds` if the interval lies wholly on the claimed side, `fails` if wholly on the other side, else
`undecided`; `not run` where what the claim is about was not computed. Verdicts combine with & (all
of them), | (at least one) and ~ (not).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

Outcome = Literal["holds", "fails", "undecided", "not run"]
OPPOSITE: dict[Outcome, Outcome] = {"holds": "fails", "fails": "holds"}


@dataclass(frozen=True)
class Verdict:
    """outcome; reason, where there is one; evidence: each comparison with its numbers.

    An entry of the evidence has quantity, claim and n, the number of runs used; a comparison also
    value, low and high, an inequality that is a theorem violations and of (how many values).
    """

    outcome: Outcome
    reason: str = ""
    evidence: list[dict[str, Any]] = field(default_factory=list)

    def __and__(self, other: Verdict) -> Verdict:
        return self._join(other, decisive="fails", neutral="holds")

    def __or__(self, other: Verdict) -> Verdict:
        return self._join(other, decisive="holds", neutral="fails")

    def __invert__(self) -> Verdict:
        return Verdict(OPPOSITE.get(self.outcome, self.outcome), self.reason, self.evidence)

    def reporting(self, *entries: dict[str, Any]) -> Verdict:
        """The same verdict with numbers that it does not rest on."""
        said = [{**entry, "claim": "reported, not judged"} for entry in entries]
        return Verdict(self.outcome, self.reason, self.evidence + said)

    def _join(self, other: Verdict, decisive: Outcome, neutral: Outcome) -> Verdict:
        both = (self.outcome, other.outcome)
        if decisive in both:
            outcome = decisive
        elif "not run" in both:
            outcome = "not run"
        else:
            outcome = neutral if both == (neutral, neutral) else "undecided"
        reasons = dict.fromkeys((self.reason + "; " + other.reason).split("; "))
        reason = "; ".join(filter(None, reasons))  # each once
        return Verdict(outcome, reason, self.evidence + other.evidence)


def every(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that all of these hold."""
    return functools.reduce(operator.and_, verdicts)


def some(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that at least one of these holds."""
    return functools.reduce(operator.or_, verdicts)


def compare(
    name: str,
    value: float,
    interval: tuple[float, float],
    limit: float,
    greater: bool,
    n: int,
    reason: str = "",
) -> Verdict:
    """The claim `name > limit` (or <), given a value and its interval.

    n: how many runs they are of.  reason: why they are not defined, if they are not.
    """
    low, high = interval
    evidence = [
        {
            "quantity": name,
            "claim": f"{'>' if greater else '<'} {limit:g}",
            "value": value,
            "low": low,
            "high": high,
            "n": n,
        }
    ]
    if not (isfinite(value) and isfinite(low) and isfinite(high)):
        return Verdict("not run", reason or f"{name} is not defined on these runs", evidence)
    above, below = low > limit, high < limit
    holds, fails = (above, below) if greater else (below, above)
    return Verdict("holds" if holds else "fails" if fails else "undecided", "", evidence)


def theorem(name: str, smaller: ArrayLike, larger: ArrayLike, tolerance: float = 1e-6) -> Verdict:
    """A pure inequality, which must hold for every single value up to rounding.

    smaller, larger: (runs, ...).
    """
    evidence = {**violations(name, smaller, larger, tolerance), "claim": "for every value"}
    if not evidence["of"]:
        return Verdict("not run", f"{name} is not defined on these runs", [evidence])
    return Verdict("fails" if evidence["violations"] else "holds", "", [evidence])


def violations(
    name: str, smaller: ArrayLike, larger: ArrayLike, tolerance: float = 1e-6
) -> dict[str, Any]:
    """How often `smaller <= larger` is violated, of how many values that are defined, of n runs."""
    a, b = np.broadcast_arrays(np.asarray(smaller, float), np.asarray(larger, float))
    defined = ~(np.isnan(a) | np.isnan(b))
    return {
        "quantity": name,
        "violations": int((a > b * (1 + tolerance))[defined].sum()),
        "of": int(defined.sum()),
        "n": int(defined.any(axis=tuple(range(1, defined.ndim))).sum()),
    }


def not_run(reason: str) -> Verdict:
    """The verdict on what was not computed."""
    return Verdict("not run", reason)
