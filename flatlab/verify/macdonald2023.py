"""macdonald2023: what the paper says of its figures and tables."""

from __future__ import annotations

from flatlab.verify import Claim
from flatlab.verify._input_scale import INPUT_SCALE
from flatlab.verify._regression import REGRESSION

CLAIMS: dict[str, list[Claim]] = {**INPUT_SCALE, **REGRESSION}
