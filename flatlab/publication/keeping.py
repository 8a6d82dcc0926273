"""Metric files under version control: hours of computing are never in one place only.

They lie in `results/published/<scale>/metrics/`, each with the record of the job that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from flatlab import plan, store
from flatlab.plan import Experiment
from flatlab.publication.budget import check_budget

ENDING = ".provenance.json"


def keep(experiment: Experiment, packs: Sequence[str] = ()) -> str:
    """Copy the metric files of packs to what is published; returns what was done.

    packs: all that are measured if none is named. Raises `StoreError` where a named one is not,
    where none is, where a file is damaged, and where it is too much.
    """
    chosen = [key for key in packs or experiment.packs if packs or _is_measured(experiment, key)]
    files = [path for key in chosen for path in _files(experiment, key)]
    if not files:
        raise store.StoreError(f"no pack of {experiment.key} is measured at {experiment.scale}")
    for path in files:
        store.load_dataset(path)  # which complains of what is damaged or not there
    copies = {_kept(path): path for path in _with_records(files)}
    check_budget(copies)
    for target, source in copies.items():
        store.replace(target, source.read_bytes())
    size = sum(path.stat().st_size for path in copies)
    place = plan.PUBLISHED / experiment.scale / "metrics" / experiment.key
    return f"{len(chosen)} packs kept, {size / 1e6:.1f} MB; git add {place}"


def restore(experiment: Experiment, packs: Sequence[str] = ()) -> str:
    """Copy kept metric files back to where they are missing; returns what was done.

    packs: all if none is named. Nothing is overwritten. Raises `StoreError` where none is kept and
    where a file is damaged.
    """
    files = [path for key in packs or experiment.packs for path in _files(experiment, key)]
    kept = [path for path in files if _kept(path).is_file()]
    if not kept:
        raise store.StoreError(f"nothing of {experiment.key} is kept at scale {experiment.scale}")
    missing = [path for path in kept if not path.exists()]
    for path in missing:
        _check(_kept(path))
    for path in _with_records(missing, _kept):
        store.replace(path, _kept(path).read_bytes())
    return f"{len(missing)} files restored, {len(kept) - len(missing)} were there"


def _files(experiment: Experiment, pack: str) -> list[Path]:
    experiment.pack(pack)
    return [experiment.metrics(pack, family) for family in experiment.families]


def _is_measured(experiment: Experiment, pack: str) -> bool:
    return all(path.is_file() for path in _files(experiment, pack))


def _kept(path: Path) -> Path:
    """Where a result file is kept: results/demo/... -> results/published/demo/..."""
    return plan.PUBLISHED / path.relative_to("results")


def _with_records(files: Sequence[Path], place: Callable[[Path], Path] = Path) -> list[Path]:
    """Files with the records beside them, where there are any in their `place`."""
    records = [Path(f"{path}{ENDING}") for path in files]
    return [*files, *(record for record in records if place(record).is_file())]


def _check(kept: Path) -> None:
    try:
        store.load_dataset(kept)
    except store.StoreError:
        raise store.StoreError(
            f"{kept} is damaged; get it back with: git checkout -- {kept}"
        ) from None
