"""Correlations with intervals, and what an interval says about a claim. numpy and scipy only."""

from flatlab.stats.bootstrap import LEVEL, RESAMPLES, Estimate, bca
from flatlab.stats.correlation import KINDS, Correlations
from flatlab.stats.verdict import Verdict, counts, not_run, theorem

__all__ = [
    "KINDS",
    "LEVEL",
    "RESAMPLES",
    "Correlations",
    "Estimate",
    "Verdict",
    "bca",
    "counts",
    "not_run",
    "theorem",
]
