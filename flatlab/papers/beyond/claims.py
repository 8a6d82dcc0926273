"""The project's own figures: no paper claims anything of them."""

from __future__ import annotations

from flatlab.claims import Claim

CLAIMS: dict[str, list[Claim]] = {}
