"""Publishing: tables, figures and verdicts of real runs are copied to `results/published/<scale>/`.

These copies are under version control, and no rule makes them. `snakemake published` computes the
figures and verdicts anew from their tables.
"""

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flatlab import plan, store
from flatlab.publication import forecast
from flatlab.publication.choice import choose, disagreements

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
    if found := disagreements(choice):
        raise store.StoreError("\n".join(found))
    files = {choice.published / name: choice.built / name for name in choice.files}
    return copy(files, _records(chosen, choice.published, choice.experiments))


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


def _records(chosen: plan.Plan, folder: Path, keys: Sequence[str]) -> dict[Path, Any]:
    """The JSON files on the origins of tables and the run times of jobs, brought up to date."""
    origins, times = folder / "provenance.json", folder / forecast.PUBLISHED
    made = store.load_json(origins) if origins.is_file() else {}
    built = plan.built_at(chosen.config.scale).folder
    made |= {key: origin(chosen, key, built) for key in keys}
    took = forecast.from_records(store.load_json(times) if times.is_file() else [])
    took |= forecast.recorded(chosen, [chosen.config.scale], keys)
    return {origins: made, times: forecast.as_records(took)}


def origin(chosen: plan.Plan, key: str, folder: Path) -> dict[str, Any]:
    """Which code computed a table, where and how long, including the training of its networks.

    folder: the built results at the scale of the configuration, here or in another copy.
    """
    built = plan.built_at(chosen.config.scale).folder
    found: dict[str, list[dict[str, Any]]] = {}
    for task in forecast.jobs_of(chosen, chosen.config.scale, [key]):
        done = found.setdefault(task.stage, [])
        record = plan.record_of(folder / task.file.relative_to(built))
        if record.is_file():  # files from elsewhere may have none
            done.append(store.load_json(record))
    records = [record for done in found.values() for record in done]
    return {
        "code": {stage: sorted({r["code"] for r in done}) for stage, done in found.items()},
        "commits": sorted({record.get("commit", "") for record in records} - {""}),
        "jobs": len(records),
        "runtime_s": round(sum(record["runtime_s"] for record in records)),
        "machines": sorted({record["machine"] for record in records}),
        "gpu": any(record["gpu"] for record in records),
        "versions": {k: v for record in records for k, v in record["versions"].items()},
    }
