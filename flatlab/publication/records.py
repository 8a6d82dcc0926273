"""Which code computed published numbers, where and how long, from the records of the jobs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flatlab import estimate, plan, store
from flatlab.plan import Experiment
from flatlab.publication.choice import Choice


def paths(scale: str) -> tuple[Path, Path]:
    """The two files of a scale: the origin of each table, and how long jobs took."""
    folder = plan.published_at(scale).folder
    return folder / "provenance.json", folder / estimate.PUBLISHED


def updated(chosen: plan.Plan, choice: Choice) -> dict[Path, Any]:
    """Both files, by path, with new entries for the experiments of a choice."""
    provenance, benchmarks = paths(choice.scale)
    made = store.load_json(provenance) if provenance.is_file() else {}
    made |= {key: _made_by(chosen, key) for key in choice.experiments}
    took = estimate.from_records(store.load_json(benchmarks) if benchmarks.is_file() else [])
    took |= estimate.recorded(chosen, [choice.scale], choice.experiments)
    return {provenance: made, benchmarks: estimate.as_records(took)}


def _made_by(chosen: plan.Plan, key: str) -> dict[str, Any]:
    """The entry of one experiment; it includes the training of networks from other experiments."""
    experiment = chosen.experiment(key)
    found = {
        family: _records(experiment.metrics(pack, family) for pack in experiment.packs)
        for family in experiment.families
    }
    trained = [
        path
        for each in (experiment, *map(chosen.experiment, experiment.needs()))
        for path in _trained(each)
    ]
    if trained:
        found["train"] = _records(trained)
    records = [record for each in found.values() for record in each]
    return {
        "code": {name: sorted({r["code"] for r in each}) for name, each in found.items()},
        "jobs": len(records),
        "runtime_s": round(sum(record["runtime_s"] for record in records)),
        "machines": sorted({record["machine"] for record in records}),
        "gpu": any(record["gpu"] for record in records),
        "versions": {k: v for record in records for k, v in record["versions"].items()},
    }


def _trained(experiment: Experiment) -> list[str]:
    """The weights of an experiment; none if it trains nothing."""
    packs = [pack for pack in experiment.packs if experiment.training(pack)]
    return [experiment.weights(pack)["weights"] for pack in packs]


def _records(files: Iterable[Path | str]) -> list[dict[str, Any]]:
    """The records beside files; files computed elsewhere may have none."""
    records = map(plan.record_of, files)
    return [store.load_json(record) for record in records if record.is_file()]
