"""All data figures and tables of the five papers, and what those need that cannot be had here."""

from __future__ import annotations

from flatlab.plan.registry import figures
from flatlab.plan.schema import PlanError, closest


def _numbered(kind: str, first: int, last: int) -> list[str]:
    return [f"{kind}{number}" for number in range(first, last + 1)]


PAPERS = {
    "chen2026": [
        *_numbered("fig", 2, 5),
        *("figH6", "figH7", "figH8", "figH9", "figI10", "figI11", "figJ12"),
    ],
    "chen2024": [*_numbered("fig", 1, 3), "figD4", "figD5", "figD6", "figE7", "figE8"],
    "macdonald2023": [*_numbered("fig", 1, 32), *_numbered("table", 1, 2)],
    "petzka2021": _numbered("fig", 3, 8),
    "andriushchenko2023": [*_numbered("fig", 1, 15), *_numbered("table", 1, 4)],
}
"""The data figures and tables of each paper; schematics are left out."""

NEEDS = {
    **{f"macdonald2023_fig{number}": "CIFAR-100" for number in (13, 15, 17, 19, *range(24, 28))},
    **{
        f"andriushchenko2023_{key}": "ImageNet or MNLI with their shifted test sets, and the "
        "released networks"
        for key in (*_numbered("fig", 2, 4), *_numbered("fig", 8, 15), "table1", "table2")
    },
    **{
        f"andriushchenko2023_{key}": "CIFAR-10-C for its second half"
        for key in ("fig5", "table3", "table4")
    },
}
"""What a target needs that this project does not fetch by itself."""


def targets() -> list[str]:
    """Every data figure and table of the papers, and the project's own figures, in order."""
    listed = [f"{paper}_{key}" for paper, keys in PAPERS.items() for key in keys]
    written = [figure.target for figure in figures()]
    return [*listed, *(target for target in written if target not in listed)]


def why_not(target: str) -> str:
    """Why a target cannot be built, or nothing. Raises `PlanError` for what is no target."""
    if target not in targets():
        raise PlanError(f"unknown target {target!r}; {_similar(target)}")
    if target in (figure.target for figure in figures()):
        return ""
    needs = f"; it needs {NEEDS[target]}" if target in NEEDS else ""
    return f"{target} is not part of this version{needs}"


def _similar(target: str) -> str:
    """The closest targets rather than all of them."""
    hint = closest(target, targets()).partition("Known: ")[0]
    return f"{hint}`flatlab figures` lists them all"
