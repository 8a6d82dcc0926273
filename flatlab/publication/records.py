"""By which code, where and in what time published numbers were made, from the jobs' records."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flatlab import estimate, plan, store
from flatlab.plan import Experiment
from flatlab.publication.choice import Choice


def paths(scale: str) -> tuple[Path, Path]:
    """The two files of a scale: who made the tables, and how long jobs took."""
    place = plan.PUBLISHED / scale
    return place / "provenance.json", place / estimate.PUBLISHED


def updated(chosen: plan.Plan, choice: Choice) -> dict[Path, Any]:
    """Both files with new entries for the experiments of a choice, by path."""
    provenance, benchmarks = paths(choice.scale)
    made = store.load_json(provenance) if provenance.is_file() else {}
    made |= {key: _made_by(chosen, key) for key in choice.experiments}
    took = estimate.from_records(store.load_json(benchmarks) if benchmarks.is_file() else [])
    took |= estimate.recorded(chosen, [choice.scale], choice.experiments)
    return {provenance: made, benchmarks: estimate.as_records(took)}


def _made_by(chosen: plan.Plan, key: str) -> dict[str, Any]:
    """The entry of one experiment; what trained networks that it takes from others counts too."""
    experiment = chosen.experiment(key)
    found = {family: _records(_measured(experiment, family)) for family in experiment.families}
    if trained := [*_trained(experiment), *_trained_elsewhere(chosen, experiment)]:
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


def _measured(experiment: Experiment, family: str) -> list[Path]:
    return [experiment.metrics(pack, family) for pack in experiment.packs]


def _trained(experiment: Experiment) -> list[Path]:
    """The weights of an experiment; none where it trains nothing."""
    packs = [pack for pack in experiment.packs if experiment.training(pack)]
    return [Path(experiment.weights(pack)["weights"]) for pack in packs]


def _trained_elsewhere(chosen: plan.Plan, experiment: Experiment) -> list[Path]:
    others = map(chosen.experiment, experiment.needs())
    return [path for other in others for path in _trained(other)]


def _records(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Those that lie beside some files, where these have any: files from elsewhere may not."""
    beside = (Path(f"{path}.provenance.json") for path in files)
    return [store.load_json(record) for record in beside if record.is_file()]
