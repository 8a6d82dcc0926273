"""The size limit of published files, which every clone of the repository downloads."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from flatlab import plan, store

BUDGET_BYTES = 60 * 10**6


def check_budget(files: Mapping[Path, Path]) -> None:
    """Raise `StoreError` if copying files would make `results/published` too large.

    files: source by target.
    """
    kept = {path: path for path in plan.PUBLISHED.rglob("*") if path.is_file()}
    sizes: Counter[str] = Counter()
    for target, source in {**kept, **files}.items():
        part = "/".join(target.relative_to(plan.PUBLISHED).parts[:3])
        sizes[part] += source.stat().st_size
    total = sizes.total()
    if total > BUDGET_BYTES:
        largest = ", ".join(f"{part} {size / 1e6:.1f} MB" for part, size in sizes.most_common(5))
        raise store.StoreError(
            f"{plan.PUBLISHED} would have {total / 1e6:.1f} MB, more than the "
            f"{BUDGET_BYTES / 1e6:.0f} MB that a repository should carry; largest are {largest}"
        )
