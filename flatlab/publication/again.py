"""Publishing again: figures and verdicts that `snakemake published` has computed anew.

Published figures and verdicts so follow changes of statistics, claims and drawing; their tables
stay as they are.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flatlab import plan, store
from flatlab.publication import copy
from flatlab.publication.choice import files_of


def publish(scale: str | None = None) -> list[Path]:
    """Replace published figures and verdicts by those computed anew; returns the new files.

    scale: all scales if none is given.

    Nothing changes if an error is raised: `StoreError` if nothing is published, or if a file is
    missing or was not made by the code of today from the published tables as they are.
    """
    scales = [scale] if scale else plan.published_scales()
    found = [(each, figure) for each in scales for figure in plan.published_figures(each)]
    if not found:
        where = f" at scale {scale}" if scale else ""
        raise store.StoreError(f"no figure is published{where}; publish first: flatlab publish")
    if stale := list(dict.fromkeys(path for each in found for path in _stale(*each))):
        raise store.StoreError(
            f"{len(stale)} files, the first of them {stale[0]}, are missing or were not made from "
            "the published tables by today's code; make them with: snakemake published "
            "(if it finds nothing to do: snakemake --forceall published)"
        )
    files = {
        plan.published_at(each).folder / name: plan.redrawn_at(each).folder / name
        for each, figure in found
        for name in files_of(figure)
    }
    return copy(files)


def _stale(scale: str, figure: plan.Figure) -> Iterator[Path]:
    """The files of a figure, and correlations that it shows, which are to be made anew."""
    published, redrawn = plan.published_at(scale), plan.redrawn_at(scale)
    correlations = {redrawn.correlations(k): [published.table(k)] for k in figure.correlated}
    for path, table in correlations.items():
        if not _is_made(path, table, plan.correlations_code()):
            yield path
    tables = [published.table(key) for key in figure.experiments]
    judged, *drawn = (redrawn.folder / name for name in files_of(figure))
    if not _is_made(judged, tables, plan.claims_code(figure.paper)):
        yield judged
    for path in drawn:
        if not _is_made(path, [*tables, *correlations], figure.code, figure.settings):
            yield path


def _is_made(path: Path, inputs: list[Path], code: str, settings: Any = None) -> bool:
    """Whether a file is there, and by its record made from these inputs as they are now."""
    if not (path.is_file() and (record := plan.record_of(path)).is_file()):
        return False
    expected = {"code": code, "settings": settings}
    expected["inputs"] = {str(each): store.hash_of(each) for each in inputs}
    return expected.items() <= store.load_json(record).items()
