"""What is recorded beside published tables: which code computed them, where and how long."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flatlab.core import store
from flatlab.lab import plan
from flatlab.lab.publish import forecast


def records(chosen: plan.Plan, folder: Path, keys: Sequence[str]) -> dict[Path, Any]:
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
    records_of: dict[str, list[dict[str, Any]]] = {}
    for task in forecast.jobs_of(chosen, chosen.config.scale, [key]):
        done = records_of.setdefault(task.stage, [])
        record = plan.record_of(folder / task.file.relative_to(built))
        if record.is_file():  # files from elsewhere may have none
            done.append(store.load_json(record))
    records = [record for done in records_of.values() for record in done]
    return {
        "code": {stage: sorted({r["code"] for r in done}) for stage, done in records_of.items()},
        "commits": sorted({record.get("commit", "") for record in records} - {""}),
        "jobs": len(records),
        "runtime_s": round(sum(record["runtime_s"] for record in records)),
        "machines": sorted({record["machine"] for record in records}),
        "gpu": any(record["gpu"] for record in records),
        "versions": {k: v for record in records for k, v in record["versions"].items()},
    }
