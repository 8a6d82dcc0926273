"""Copying results to `results/published/<scale>/`, all of them or none."""

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flatlab.core import store
from flatlab.lab import plan
from flatlab.lab.publish.consistency import disagreements, stale_files
from flatlab.lab.publish.provenance import records
from flatlab.lab.publish.selection import choose, files_of

BUDGET_BYTES = 75 * 10**6
"""The size limit of published files, which every clone of the repository downloads."""


def publish(chosen: plan.Plan, names: Sequence[str] = ()) -> list[Path]:
    """Copy built results at the scale of the configuration; returns the new files.

    names: experiments, figures or papers to publish in place of their former versions; everything
    that is built if none is named.

    Nothing changes if an error is raised: `PlanError` for unknown names, `StoreError` if something
    is not built, if published figures would not show the published tables, or if the published
    files would exceed their budget.
    """
    choice = choose(chosen, names)
    if errors := disagreements(choice):
        raise store.StoreError("\n".join(errors))
    files = {choice.published / name: choice.built / name for name in choice.files}
    return copy(files, records(chosen, choice.published, choice.experiments))


def publish_redrawn(scale: str | None = None) -> list[Path]:
    """Replace published figures and verdicts by those computed anew; returns the new files.

    scale: all scales if none is given.

    Nothing changes if an error is raised: `StoreError` if nothing is published, or if a file is
    missing or was not made by the code of today from the published tables as they are.
    """
    scales = [scale] if scale else plan.published_scales()
    figures = [(each, figure) for each in scales for figure in plan.published_figures(each)]
    if not figures:
        where = f" at scale {scale}" if scale else ""
        raise store.StoreError(f"no figure is published{where}; publish first: flatlab publish")
    if stale := list(dict.fromkeys(path for each in figures for path in stale_files(*each))):
        raise store.StoreError(
            f"{len(stale)} files, the first of them {stale[0]}, are missing or were not made from "
            "the published tables by today's code; make them with: snakemake published "
            "(if it finds nothing to do: snakemake --forceall published)"
        )
    files = {
        plan.published_at(each).folder / name: plan.redrawn_at(each).folder / name
        for each, figure in figures
        for name in files_of(figure)
    }
    return copy(files)


def copy(files: Mapping[Path, Path], records: Mapping[Path, Any] = {}) -> list[Path]:
    """Copy files to the published results; returns the new files.

    files: source by target.  records: content by target, to be written as JSON.
    """
    check_budget(files)
    files = dict(files)
    with tempfile.TemporaryDirectory(dir=plan.PUBLISHED.parent, prefix="publish-") as folder:
        # All is written here first, so that a full disk leaves what is published as it was.
        for target, content in records.items():
            store.save_json(files.setdefault(target, Path(folder, target.name)), content)
        aside = {target: Path(folder, str(number)) for number, target in enumerate(files)}
        for target, source in files.items():
            store.replace(aside[target], source.read_bytes())
        for target, written in aside.items():
            store.make_folder(target.parent)
            written.replace(target)
    return list(files)


def check_budget(files: Mapping[Path, Path]) -> None:
    """Raise `StoreError` if copying files would make `results/published` too large.

    files: source by target.
    """
    kept = {path: path for path in plan.PUBLISHED.rglob("*") if path.is_file()}
    sizes: Counter[str] = Counter()
    for target, source in {**kept, **files}.items():
        part = "/".join(target.relative_to(plan.PUBLISHED).parts[:3])
        sizes[part] += source.stat().st_size
    if (total := sizes.total()) > BUDGET_BYTES:
        largest = ", ".join(f"{part} {size / 1e6:.1f} MB" for part, size in sizes.most_common(5))
        raise store.StoreError(
            f"{plan.PUBLISHED} would have {total / 1e6:.1f} MB, more than the "
            f"{BUDGET_BYTES / 1e6:.0f} MB that a repository should carry; largest are {largest}"
        )
