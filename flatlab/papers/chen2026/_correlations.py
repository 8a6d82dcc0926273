"""Claims about correlations over trained networks, of chen2026 and its preprint chen2024.

Quantities are given in the papers' words.
"""

from __future__ import annotations

from collections.abc import Sequence

from flatlab.claims import Claim
from flatlab.claims.judges import exceed, positive
from flatlab.papers.chen2026._quantities import listed, pairs


def rise_together(
    grid: str, x: str, others: Sequence[str], source: str, seeds: int | None = None
) -> Claim:
    """Quantity x correlates positively with each of others."""
    judge = positive(grid, *pairs(x, others), seeds=seeds)
    return Claim(f"rho({x}, {listed(others)}) > 0", source, judge)


def closer(
    grid: str,
    x: str,
    strong: Sequence[str],
    weak: Sequence[str],
    source: str,
    seeds: int | None = None,
) -> Claim:
    """Quantity x correlates more strongly with each of some quantities than with each of others."""
    judge = exceed(grid, pairs(x, strong), pairs(x, weak), seeds)
    return Claim(f"rho({x}, {listed(strong)}) > rho({x}, {listed(weak)})", source, judge)
