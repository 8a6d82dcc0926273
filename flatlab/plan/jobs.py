"""The code that jobs depend on, beside that of one kind of experiment."""

from __future__ import annotations

from flatlab.plan.fingerprint import fingerprint
from flatlab.plan.registry import PACKAGE


def claims_code(paper: str) -> str:
    """What judges the claims of a paper, which may have none: the engine's fingerprint and its."""
    own = [f"flatlab.papers.{paper}.claims"]
    there = (PACKAGE / "papers" / paper / "claims.py").is_file()
    return fingerprint("flatlab.claims", *(own if there else []))
