"""Correlations and trends with intervals, and what an interval says about a claim.

numpy and scipy only.
"""

from flatlab.stats.bootstrap import LEVEL, Estimate, undefined
from flatlab.stats.correlation import KINDS, Correlations
from flatlab.stats.verdict import Verdict, every, not_run, some, theorem, violations
