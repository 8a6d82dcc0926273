"""`flatlab estimate`: the time and disk space that a configuration takes, before anything starts.

Each job leaves its run time in the record beside its output. From these records, training and
measuring are predicted in proportion to their work, or, if their work is unknown, from jobs at the
same scale.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatlab import plan, store, text
from flatlab.tables.published import network_now

JOB_S = 2.0
"""Seconds for starting the process of a job and importing torch, added to its computation."""

PUBLISHED = "benchmarks.json"
"""The run times of a published scale, a file in `results/published/<scale>/`."""

NAMES = ("kind", "network", "device", "seconds", "work", "jobs")
"""The columns of that file."""

Times = dict[tuple[str, str, str], tuple[float, ...]]
"""Seconds, work and number of finished jobs, by kind, network and device."""


@dataclass(frozen=True)
class Task:
    """One job, finished or not.

    kind, network: as in `flatlab.plan.Stage`.  work: proportional to its time, among tasks of the
    same kind and network.  file: its output.
    """

    kind: str
    network: str
    scale: str
    work: float
    file: Path

    @property
    def recorded_as(self) -> str:
        """The kind in the records: without a network, jobs compare only at one scale."""
        return self.kind if self.network else f"{self.kind} {self.scale}"


@dataclass(frozen=True)
class Forecast:
    """The prediction for tasks of one kind and network.

    hours: None without any record.  basis: how many records it rests on, and of which networks.
    """

    kind: str
    network: str
    jobs: int
    done: int
    hours: float | None
    basis: str


def tasks(
    chosen: plan.Plan, scale: str, experiments: Collection[str] | None = None
) -> Iterator[Task]:
    """All jobs that compute experiments, and the training of networks that these measure.

    experiments: by default those of the figures that the configuration names.
    """
    shown = set(experiments or ())
    if experiments is None:
        shown = {key for figure in chosen.figures for key in figure.experiments}
    needed = {other for key in shown for other in chosen.experiment(key, scale).needs()}
    for key in sorted(shown | needed):
        experiment = chosen.experiment(key, scale)
        for pack in experiment.packs:
            if training := experiment.training(pack):
                yield _task(training, scale, experiment.weights(pack)["weights"])
            for family in experiment.families if key in shown else []:
                stage = experiment.measuring(pack, family)
                yield _task(stage, scale, experiment.metrics(pack, family))


def _task(stage: plan.Stage, scale: str, file: Path | str) -> Task:
    return Task(stage.kind, stage.network, scale, stage.work, Path(file))


def recorded(
    chosen: plan.Plan,
    scales: Sequence[str] = plan.SCALES,
    experiments: Collection[str] | None = None,
) -> Times:
    """The run times of finished jobs in this folder.  experiments: as for `tasks`."""
    times = []
    for task in (task for scale in scales for task in tasks(chosen, scale, experiments)):
        record = plan.record_of(task.file)
        if record.is_file():
            about = store.load_json(record)
            device = about.get("device", "cuda" if about.get("gpu") else "cpu")
            key = (task.recorded_as, task.network, device)
            times.append((key, (about["runtime_s"], task.work, 1)))
    return _added_up(times)


def published() -> Times:
    """The run times of published results, over all scales."""
    files = [plan.published_at(s).folder / PUBLISHED for s in plan.published_scales()]
    read = [from_records(store.load_json(path)) for path in files if path.is_file()]
    return _added_up(item for times in read for item in times.items())


def _added_up(times: Iterable[tuple[tuple[str, str, str], tuple[float, ...]]]) -> Times:
    """Times by key; jobs of one kind may be at several scales."""
    total: Times = {}
    for key, numbers in times:
        before = total.get(key, (0, 0, 0))
        total[key] = tuple(a + b for a, b in zip(before, numbers, strict=True))
    return total


def as_records(times: Times) -> list[dict[str, Any]]:
    """Times as they are published."""
    return [dict(zip(NAMES, (*key, *value), strict=True)) for key, value in sorted(times.items())]


def from_records(records: Sequence[Mapping[str, Any]]) -> Times:
    """The inverse of `as_records`."""
    rows = ([record[name] for name in NAMES] for record in records)
    return _added_up(((row[0], network_now(row[1]), row[2]), tuple(row[3:])) for row in rows)


def forecast(chosen: plan.Plan, times: Times) -> list[Forecast]:
    """What the configuration will take, for each kind of job and each network."""
    groups: dict[tuple[str, str], list[Task]] = {}
    for task in tasks(chosen, chosen.config.scale):
        groups.setdefault((task.kind, task.network), []).append(task)
    return [_of_group(group, times, chosen.config.device) for group in groups.values()]


def _of_group(group: Sequence[Task], times: Times, device: str) -> Forecast:
    first, left = group[0], [task for task in group if not task.file.is_file()]
    wanted = (first.recorded_as, device)
    known = {net: t for (kind, net, d), t in times.items() if (kind, d) == wanted and t[1] > 0}
    own = {first.network: known[first.network]} if first.network in known else known
    hours, basis = None, ""
    if own:
        seconds, work, jobs = (sum(numbers) for numbers in zip(*own.values(), strict=True))
        hours = sum(seconds / work * task.work + JOB_S for task in left) / 3600
        basis = f"{jobs} jobs"
        if first.network not in own:
            basis = f"roughly, {basis} of {', '.join(own)}"
    return Forecast(first.kind, first.network, len(left), len(group) - len(left), hours, basis)


def as_text(chosen: plan.Plan) -> str:
    """The forecast for a configuration as a table, followed by its sums."""
    found = forecast(chosen, published() | recorded(chosen))
    rows: list[list[object]] = [["jobs of", "network", "to do", "done", "hours", "from"]]
    for each in found:
        hours = "unknown" if each.hours is None else f"{each.hours:.2f}"
        basis = each.basis or "no record: build one such job first"
        rows.append([each.kind, each.network, each.jobs, each.done, hours, basis])
    known = sum(each.hours for each in found if each.hours is not None)
    unknown = sum(each.jobs for each in found if each.hours is None)
    more = f", and {unknown} jobs of unknown length" if unknown else ""
    jobs = sum(each.jobs for each in found)
    return (
        f"{text.table('<<>>><', *rows)}\n"
        f"{jobs} jobs, {known:.2f} hours one after the other{more}, with {JOB_S:.0f} s per job for "
        f"starting it; on {chosen.config.device}, at the speed of the machines in the records\n"
        f"{chosen.disk_use}"
    )
