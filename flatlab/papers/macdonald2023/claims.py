"""macdonald2023: what the paper says of its figures and tables."""

from __future__ import annotations

from flatlab.claims import Claim
from flatlab.papers.macdonald2023._input_scale import INPUT_SCALE
from flatlab.papers.macdonald2023._regression import REGRESSION

CLAIMS: dict[str, list[Claim]] = {**INPUT_SCALE, **REGRESSION}
