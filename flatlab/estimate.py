"""What a configuration will take, before anything starts: `flatlab estimate`.

Each job has left how long it took in the record beside its output. Training and measuring are
predicted in proportion to their work where that is known, else by what they took at the same scale.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatlab import plan, store
from flatlab.plan import Stage
from flatlab.tables.published import network_now

JOB_S = 2.0
"""What a job takes beside its computation on one machine: a new process, and torch's import."""

PUBLISHED = "benchmarks.json"
"""What a scale's published run took, in `results/published/<scale>/`."""


@dataclass(frozen=True)
class Task:
    """One job to come, or done.

    kind, network: as of a `flatlab.plan.Stage`.
    work: what its time is proportional to, among tasks of one kind and network.  file: its output.
    """

    kind: str
    network: str
    scale: str
    work: float
    file: Path


@dataclass(frozen=True)
class Forecast:
    """What tasks of one kind and network will take; hours: None where there is no record.

    basis: on how many records it rests, and on which networks.
    """

    kind: str
    network: str
    jobs: int
    done: int
    hours: float | None
    basis: str


Times = dict[tuple[str, str, str], tuple[float, float, int]]
"""Seconds, work and number of jobs by kind, network and device."""


def tasks(
    chosen: plan.Plan, scale: str, experiments: Collection[str] | None = None
) -> Iterator[Task]:
    """All jobs that compute some experiments, and what these need of others, at one scale.

    experiments: those of the figures that the configuration asks for if none are given.
    """
    shown = set(experiments or ())
    if experiments is None:
        shown = {key for figure in chosen.figures for key in figure.experiments}
    needed = {other for key in shown for other in chosen.experiment(key, scale).needs()}
    for key in sorted(shown | needed):
        experiment = chosen.experiment(key, scale)
        for pack in experiment.packs:
            if training := experiment.training(pack):
                yield _task(training, scale, Path(experiment.weights(pack)["weights"]))
            for family in experiment.families if key in shown else []:
                stage = experiment.measuring(pack, family)
                yield _task(stage, scale, experiment.metrics(pack, family))


def _task(stage: Stage, scale: str, file: Path) -> Task:
    return Task(stage.kind, stage.network, scale, stage.work, file)


def recorded(
    chosen: plan.Plan,
    scales: Sequence[str] = plan.SCALES,
    experiments: Collection[str] | None = None,
) -> Times:
    """How long the jobs of this folder took.  experiments: as for `tasks`."""
    times: Times = {}
    for scale in scales:
        for task in tasks(chosen, scale, experiments):
            record = Path(f"{task.file}.provenance.json")
            if record.is_file():
                about = store.load_json(record)
                kind = task.kind if task.network else f"{task.kind} {scale}"
                device = about.get("device", "cuda" if about.get("gpu") else "cpu")
                _add(times, (kind, task.network, device), about["runtime_s"], task.work, 1)
    return times


def _add(times: Times, key: tuple[str, str, str], seconds: float, work: float, jobs: int) -> None:
    """Count jobs among those of their kind, which may be at several scales."""
    before = times.get(key, (0.0, 0.0, 0))
    times[key] = before[0] + seconds, before[1] + work, before[2] + jobs


def published() -> Times:
    """How long the jobs of published runs took."""
    times: Times = {}
    for scale in plan.published_scales():
        path = plan.PUBLISHED / scale / PUBLISHED
        took = from_records(store.load_json(path) if path.is_file() else [])
        for key, value in took.items():
            _add(times, key, *value)
    return times


NAMES = ("kind", "network", "device", "seconds", "work", "jobs")


def as_records(times: Times) -> list[dict[str, Any]]:
    """Times, to be published."""
    return [dict(zip(NAMES, (*key, *value), strict=True)) for key, value in sorted(times.items())]


def from_records(records: Sequence[Mapping[str, Any]]) -> Times:
    """Times as they were published."""
    times: Times = {}
    for record in records:
        kind, network, device, *value = (record[name] for name in NAMES)
        _add(times, (kind, network_now(network), device), *value)
    return times


def forecast(chosen: plan.Plan, times: Times) -> list[Forecast]:
    """What the configuration will take, for each kind of job and each network."""
    groups: dict[tuple[str, str], list[Task]] = {}
    for task in tasks(chosen, chosen.config.scale):
        groups.setdefault((task.kind, task.network), []).append(task)
    return [_of_group(chosen, group, times) for group in groups.values()]


def _of_group(chosen: plan.Plan, group: Sequence[Task], times: Times) -> Forecast:
    first, device = group[0], chosen.config.device
    left = [task for task in group if not task.file.is_file()]
    kind = first.kind if first.network else f"{first.kind} {first.scale}"
    known = {net: t for (k, net, d), t in times.items() if k == kind and d == device and t[1] > 0}
    own = {first.network: known[first.network]} if first.network in known else known
    if not own:
        return Forecast(first.kind, first.network, len(left), len(group) - len(left), None, "")
    seconds, work, jobs = (sum(numbers) for numbers in zip(*own.values(), strict=True))
    hours = sum(seconds / work * task.work + JOB_S for task in left) / 3600
    basis = f"{jobs} jobs"
    if first.network not in own:
        basis = f"roughly, {basis} of {', '.join(own)}"
    return Forecast(first.kind, first.network, len(left), len(group) - len(left), hours, basis)


def as_text(chosen: plan.Plan) -> str:
    """The forecast for a configuration, for people."""
    found = forecast(chosen, published() | recorded(chosen))
    width, wide = (
        max(least, 2 + max((len(getattr(each, name)) for each in found), default=0))
        for name, least in (("kind", 26), ("network", 24))
    )
    lines = [f"  {'jobs of':<{width}}{'network':<{wide}}{'to do':>6}{'done':>6}{'hours':>9}  from"]
    for each in found:
        hours = "unknown" if each.hours is None else f"{each.hours:.2f}"
        basis = each.basis or "no record: build one such job first"
        counts = f"{each.jobs:>6}{each.done:>6}{hours:>9}"
        lines.append(f"  {each.kind:<{width}}{each.network:<{wide}}{counts}  {basis}".rstrip())
    known = sum(each.hours for each in found if each.hours is not None)
    unknown = sum(each.jobs for each in found if each.hours is None)
    more = f", and {unknown} jobs of unknown length" if unknown else ""
    jobs = sum(each.jobs for each in found)
    lines.append(
        f"{jobs} jobs, {known:.2f} hours one after the other{more}, each with {JOB_S:.0f} s beside "
        f"its computation; on {chosen.config.device}, as fast as where the records were made"
    )
    return "\n".join([*lines, chosen.disk_use])
