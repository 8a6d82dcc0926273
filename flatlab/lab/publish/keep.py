"""Metric files under version control, so that hours of computing never exist only once.

They lie in `results/published/<scale>/metrics/`, each with the record of the job that made it, and
are compressed there: most of a small metric file is metadata.
"""

import gzip
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from flatlab.core import store
from flatlab.lab import plan
from flatlab.lab.plan import Experiment
from flatlab.lab.publish.publish import check_budget


def keep(experiment: Experiment, packs: Sequence[str] = ()) -> str:
    """Copy metric files of packs to the published results; returns what was done, in words.

    packs: all that are measured if none is named. Raises `StoreError` if nothing is measured, if a
    named pack is not, if a file is damaged, or if the copies would exceed the budget.
    """
    measured = experiment.only_measured_packs()
    chosen = list(packs or measured.packs)
    missing = measured.missing_files
    files = [path for path in _metric_files(experiment, chosen) if path not in missing]
    if not files:
        raise store.StoreError(f"no pack of {experiment.key} is measured at {experiment.scale}")
    for path in files:
        store.load_dataset(path)  # raises if the file is missing or damaged
    with tempfile.TemporaryDirectory() as folder:
        # Files that were computed elsewhere may have no record.
        copies = {_kept(path): path for path in map(plan.record_of, files) if path.is_file()}
        for number, path in enumerate(files):
            compressed = copies[_compressed(path)] = Path(folder, str(number))
            compressed.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
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
    files = _metric_files(experiment, packs or experiment.packs)
    if not (kept := [path for path in files if _compressed(path).is_file()]):
        raise store.StoreError(f"nothing of {experiment.key} is kept at scale {experiment.scale}")
    missing = [path for path in kept if not path.exists()]
    with tempfile.TemporaryDirectory() as folder:  # nothing is restored if one is damaged
        content = {path: _checked(_compressed(path), Path(folder, "copy")) for path in missing}
    for path in missing:
        store.replace(path, content[path])
        if (record := _kept(plan.record_of(path))).is_file():
            store.replace(plan.record_of(path), record.read_bytes())
    return f"{len(missing)} files restored, {len(kept) - len(missing)} were already there"


def _metric_files(experiment: Experiment, packs: Iterable[str]) -> list[Path]:
    for pack in packs:
        experiment.pack(pack)
    return [experiment.metrics(pack, family) for pack in packs for family in experiment.families]


def _kept(path: Path) -> Path:
    """Where a file is kept: results/demo/... -> results/published/demo/..."""
    return plan.PUBLISHED / path.relative_to(plan.RESULTS)


def _compressed(path: Path) -> Path:
    """Where a metric file is kept: what is compressed has one more suffix."""
    kept = _kept(path)
    return kept.with_name(f"{kept.name}.gz")


def _checked(path: Path, copy: Path) -> bytes:
    """The content of a kept metric file; `StoreError` if it is damaged.  copy: a file to use."""
    try:
        copy.write_bytes(content := gzip.decompress(path.read_bytes()))
        store.load_dataset(copy)
    except (OSError, EOFError, zlib.error, store.StoreError):
        remedy = f"get it back with: git checkout -- {path}"
        raise store.StoreError(f"{path} is damaged; {remedy}") from None
    return content
