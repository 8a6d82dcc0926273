# ruff: noqa: F401
"""The rules by their former names, for papers that do not use `Networks` yet."""

from flatlab.tables.eligibility import (
    FEWEST_CHECKPOINTS,
    FEWEST_FOR_CORRELATION,
    FEWEST_FOR_MEAN,
    FEWEST_FOR_RANKS,
    finite_rows,
    interpolates,
)
from flatlab.tables.eligibility import NotEligible as NotThere
from flatlab.tables.eligibility import instability as doubt
from flatlab.tables.eligibility import require as enough
from flatlab.tables.eligibility import require_correlated as check_correlated
from flatlab.tables.eligibility import require_ranked as enough_ranked
from flatlab.tables.eligibility import shortfall as missing
