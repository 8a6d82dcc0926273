"""Metric files under version control, so that hours of computing never exist only once.

They lie in `results/published/<scale>/metrics/`, each with the record of the job that made it.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from flatlab import plan, store
from flatlab.plan import Experiment
from flatlab.publication import check_budget


def keep(experiment: Experiment, packs: Sequence[str] = ()) -> str:
    """Copy metric files of packs to the published results; returns what was done, in words.

    packs: all that are measured if none is named. Raises `StoreError` if nothing is measured, if a
    named pack is not, if a file is damaged, or if the copies would exceed the budget.
    """
    chosen = list(packs or experiment.measured().packs)
    files = _metric_files(experiment, chosen)
    if not files:
        raise store.StoreError(f"no pack of {experiment.key} is measured at {experiment.scale}")
    for path in files:
        store.load_dataset(path)  # raises if the file is missing or damaged
    copies = {_kept(path): path for path in files + _records(files)}
    check_budget(copies)
    for target, source in copies.items():
        store.replace(target, source.read_bytes())
    size = sum(path.stat().st_size for path in copies)
    place = plan.published_at(experiment.scale).folder / "metrics" / experiment.key
    return f"{len(chosen)} packs kept, {size / 1e6:.1f} MB; git add {place}"


def restore(experiment: Experiment, packs: Sequence[str] = ()) -> str:
    """Copy kept metric files back to where they are missing; returns what was done, in words.

    packs: all if none is named. Existing files are not overwritten. Raises `StoreError` if nothing
    is kept or a kept file is damaged.
    """
    kept = [p for p in _metric_files(experiment, packs or experiment.packs) if _kept(p).is_file()]
    if not kept:
        raise store.StoreError(f"nothing of {experiment.key} is kept at scale {experiment.scale}")
    missing = [_kept(path) for path in kept if not path.exists()]
    for path in missing:
        try:
            store.load_dataset(path)
        except store.StoreError:
            remedy = f"get it back with: git checkout -- {path}"
            raise store.StoreError(f"{path} is damaged; {remedy}") from None
    for source in missing + _records(missing):
        store.replace(plan.RESULTS / source.relative_to(plan.PUBLISHED), source.read_bytes())
    return f"{len(missing)} files restored, {len(kept) - len(missing)} were already there"


def _metric_files(experiment: Experiment, packs: Iterable[str]) -> list[Path]:
    for pack in packs:
        experiment.pack(pack)
    return [experiment.metrics(pack, family) for pack in packs for family in experiment.families]


def _kept(path: Path) -> Path:
    """Where a metric file is kept: results/demo/... -> results/published/demo/..."""
    return plan.PUBLISHED / path.relative_to(plan.RESULTS)


def _records(files: Iterable[Path]) -> list[Path]:
    """The records beside files; files computed elsewhere may have none."""
    return [record for record in map(plan.record_of, files) if record.is_file()]
