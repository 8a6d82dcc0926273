"""andriushchenko2023: what the paper says of its figures.

Each claim of Figure 7 is judged twice: with the scales for which the paper's formulas hold, and,
with the ending -printed, with those that it prints.
"""

from __future__ import annotations

from flatlab.claims import Claim
from flatlab.papers.andriushchenko2023._diagonal import DIAGONAL
from flatlab.papers.andriushchenko2023._logit_scale import LOGIT_SCALE

CLAIMS: dict[str, list[Claim]] = {"fig1": LOGIT_SCALE, "fig7": DIAGONAL}
