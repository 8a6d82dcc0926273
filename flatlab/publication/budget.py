"""How much may be published: what is under version control is copied by everybody."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from flatlab import plan, store

BUDGET_BYTES = 60 * 10**6
SHOWN = 5
"""How many of the largest parts a refusal names."""


def check_budget(files: Mapping[Path, Path]) -> None:
    """Raise `StoreError` where `results/published` would be too large.

    files: what is about to be copied there, by target.
    """
    kept = {path: path for path in plan.PUBLISHED.rglob("*") if path.is_file()}
    sizes: dict[str, int] = {}
    for target, source in {**kept, **files}.items():
        part = "/".join(target.relative_to(plan.PUBLISHED).parts[:3])
        sizes[part] = sizes.get(part, 0) + source.stat().st_size
    total = sum(sizes.values())
    if total > BUDGET_BYTES:
        largest = sorted(sizes, key=lambda part: -sizes[part])[:SHOWN]
        named = ", ".join(f"{part} {sizes[part] / 1e6:.1f} MB" for part in largest)
        raise store.StoreError(
            f"{plan.PUBLISHED} would have {total / 1e6:.1f} MB, more than the "
            f"{BUDGET_BYTES / 1e6:.0f} MB that a repository should carry; largest are {named}"
        )
