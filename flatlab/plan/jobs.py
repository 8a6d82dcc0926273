"""The code that training and measuring jobs depend on."""

from __future__ import annotations

from flatlab.plan.fingerprint import fingerprint
from flatlab.plan.registry import joined, module_of


def train_code(*networks: str) -> str:
    """What trains networks of some architectures: the fingerprint of the engine and of these."""
    return fingerprint("flatlab.train", *(module_of("networks", name) for name in networks))


def measure_code(family: str, *networks: str) -> str:
    """What measures them: the fingerprint of the family, or those joined, and the architectures."""
    measures = (module_of("metrics", name) for name in joined(family))
    models = (module_of("networks", name) for name in networks)
    return fingerprint("flatlab.metrics", *measures, *models)


def claims_code(paper: str) -> str:
    """What judges the claims of a paper, which may have none: the engine's fingerprint and its."""
    own = [f"flatlab.papers.{paper}.claims"]
    there = (PACKAGE / "papers" / paper / "claims.py").is_file()
    return fingerprint("flatlab.claims", *(own if there else []))
