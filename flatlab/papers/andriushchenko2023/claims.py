"""andriushchenko2023: what the paper says of its figures.

Each claim of Figure 7 is judged twice: with the scales for which the paper's formulas hold, and,
with the ending -printed, with the scales that it prints.
"""

from __future__ import annotations

from flatlab.claims import Claims
from flatlab.papers.andriushchenko2023 import _diagonal as diagonal
from flatlab.papers.andriushchenko2023._logit_scale import LOGIT_SCALE

CLAIMS: dict[str, Claims] = {
    "fig1": LOGIT_SCALE,
    "fig7": diagonal.claims("balanced") | diagonal.claims("printed", "-printed"),
}
