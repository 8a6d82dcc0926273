"""Verdicts: what an interval says about a claim.

`holds` if the interval lies wholly on the claimed side, `fails` if wholly on the other side, else
`undecided`; `not run` where what the claim is about was not computed. Verdicts combine with & (all
of them) and | (at least one).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

Outcome = Literal["holds", "fails", "undecided", "not run"]


@dataclass(frozen=True)
class Verdict:
    """outcome; reason, where there is one; evidence: each comparison with its numbers."""

    outcome: Outcome
    reason: str = ""
    evidence: list[dict[str, Any]] = field(default_factory=list)

    def __and__(self, other: Verdict) -> Verdict:
        return self._join(other, decisive="fails", neutral="holds")

    def __or__(self, other: Verdict) -> Verdict:
        return self._join(other, decisive="holds", neutral="fails")

    def _join(self, other: Verdict, decisive: Outcome, neutral: Outcome) -> Verdict:
        both = (self.outcome, other.outcome)
        if decisive in both:
            outcome = decisive
        elif "not run" in both:
            outcome = "not run"
        else:
            outcome = neutral if both == (neutral, neutral) else "undecided"
        reason = "; ".join(filter(None, dict.fromkeys((self.reason, other.reason))))
        return Verdict(outcome, reason, self.evidence + other.evidence)


def compare(
    name: str, value: float, interval: tuple[float, float], limit: float, greater: bool
) -> Verdict:
    """The claim `name > limit` (or <), given a value and its interval."""
    low, high = interval
    evidence = [
        {
            "quantity": name,
            "claim": f"{'>' if greater else '<'} {limit:g}",
            "value": value,
            "low": low,
            "high": high,
        }
    ]
    if not (isfinite(value) and isfinite(low) and isfinite(high)):
        return Verdict("not run", f"{name} is not defined on these runs", evidence)
    above, below = low > limit, high < limit
    holds, fails = (above, below) if greater else (below, above)
    return Verdict("holds" if holds else "fails" if fails else "undecided", "", evidence)


def theorem(name: str, smaller: ArrayLike, larger: ArrayLike, tolerance: float = 1e-6) -> Verdict:
    """A pure inequality, which must hold for every single value up to rounding."""
    a, b = np.asarray(smaller, float), np.asarray(larger, float)
    defined = ~(np.isnan(a) | np.isnan(b))
    if not defined.any():
        return Verdict("not run", f"{name} is not defined on these runs")
    violated = int((a > b * (1 + tolerance))[defined].sum())
    evidence = [{"quantity": name, "violations": violated, "of": int(defined.sum())}]
    return Verdict("fails" if violated else "holds", "", evidence)


def not_run(reason: str) -> Verdict:
    """The verdict on what was not computed."""
    return Verdict("not run", reason)


def counts(outcomes: Iterable[str]) -> dict[str, int]:
    """How many of each outcome, those that occur."""
    listed = list(outcomes)
    order = ("holds", "fails", "undecided", "not run")
    return {outcome: listed.count(outcome) for outcome in order if outcome in listed}
