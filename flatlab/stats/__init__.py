"""Correlations and trends with intervals, and what an interval says about a claim.

numpy and scipy only.
"""

from flatlab.stats.correlation import KINDS, Correlations
from flatlab.stats.estimate import Estimate, over_seeds, undefined
from flatlab.stats.verdict import (
    LEVEL,
    Verdict,
    at_least,
    every,
    not_run,
    some,
    theorem,
    violations,
)

__all__ = [
    *("KINDS", "LEVEL", "Correlations", "Estimate", "Verdict", "at_least", "every", "not_run"),
    *("over_seeds", "some", "theorem", "undefined", "violations"),
]
