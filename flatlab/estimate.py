"""`flatlab estimate`: the time and disk space that a configuration takes, before anything starts.

Each job leaves its run time in the record beside its output. From these records, training and
measuring are predicted in proportion to their work, or, if their work is unknown, from jobs at the
same scale.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from flatlab import plan, store, text

JOB_S = 2.0
"""Seconds for starting the process of a job and importing torch, added to its computation."""

PUBLISHED = "benchmarks.json"
"""The run times of a published scale, a file in `results/published/<scale>/`."""

NAMES = ("kind", "network", "device", "seconds", "work", "jobs")
"""The columns of that file."""

Times = dict[tuple[str, str, str], tuple[float, ...]]
"""Seconds, work and number of finished jobs, by kind, network and device."""


class Task(NamedTuple):
    """One job, finished or not.

    stage: `train`, or the family that it measures.  kind, network, work: those of its
    `flatlab.plan.Stage`.  file: its output.
    """

    stage: str
    scale: str
    kind: str
    network: str
    work: float
    file: Path

    @property
    def recorded_as(self) -> str:
        """The kind in the records: without a network, jobs compare only at one scale."""
        return self.kind if self.network else f"{self.kind} {self.scale}"


class Forecast(NamedTuple):
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
            stages = {"train": (experiment.training(pack), experiment.weights(pack)["weights"])}
            for family in experiment.families if key in shown else []:
                file = str(experiment.metrics(pack, family))
                stages[family] = (experiment.measuring(pack, family), file)
            for name, (stage, file) in stages.items():
                if stage:
                    yield Task(name, scale, stage.kind, stage.network, stage.work, Path(file))


def recorded(
    chosen: plan.Plan,
    scales: Sequence[str] = plan.SCALES,
    experiments: Collection[str] | None = None,
) -> Times:
    """The run times of finished jobs in this folder.  experiments: as for `tasks`."""
    times = []
    for task in (task for scale in scales for task in tasks(chosen, scale, experiments)):
        if (record := plan.record_of(task.file)).is_file():
            about = store.load_json(record)
            device = about.get("device", "cuda" if about.get("gpu") else "cpu")
            key = (task.recorded_as, task.network, device)
            times.append((key, (about["runtime_s"], task.work, 1)))
    return _added_up(times)


def published() -> Times:
    """The run times of published results, over all scales."""
    files = [plan.published_at(scale).folder / PUBLISHED for scale in plan.published_scales()]
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


def from_records(records: Iterable[Mapping[str, Any]]) -> Times:
    """The inverse of `as_records`."""
    rows = ([record[name] for name in NAMES] for record in records)
    return {(row[0], row[1], row[2]): tuple(row[3:]) for row in rows}


def forecast(chosen: plan.Plan, times: Times) -> list[Forecast]:
    """What the configuration will take, for each kind of job and each network."""
    groups: dict[tuple[str, str], list[Task]] = {}
    for task in tasks(chosen, chosen.config.scale):
        groups.setdefault((task.kind, task.network), []).append(task)
    found = []
    for (kind, network), group in groups.items():
        left = [task for task in group if not task.file.is_file()]
        wanted = (group[0].recorded_as, chosen.config.device)
        known = {net: t for (k, net, device), t in times.items() if (k, device) == wanted and t[1]}
        own = {network: known[network]} if network in known else known
        hours, basis = None, ""
        if own:
            seconds, work, jobs = (sum(numbers) for numbers in zip(*own.values(), strict=True))
            hours = sum(seconds / work * task.work + JOB_S for task in left) / 3600
            basis = (
                f"{jobs} jobs" if network in own else f"roughly, {jobs} jobs of {', '.join(own)}"
            )
        found.append(Forecast(kind, network, len(left), len(group) - len(left), hours, basis))
    return found


def as_text(chosen: plan.Plan) -> str:
    """The forecast for a configuration as a table, followed by its sums."""
    found = forecast(chosen, published() | recorded(chosen))
    rows: list[Sequence[object]] = [("jobs of", "network", "to do", "done", "hours", "from")]
    for *head, hours, basis in found:
        shown = "unknown" if hours is None else f"{hours:.2f}"
        rows.append([*head, shown, basis or "no record: build one such job first"])
    known = sum(each.hours for each in found if each.hours is not None)
    unknown = sum(each.jobs for each in found if each.hours is None)
    more = f", and {unknown} jobs of unknown length" if unknown else ""
    jobs = sum(each.jobs for each in found)
    return (
        f"{text.table('<<>>><', *rows)}\n"
        f"{jobs} jobs, {known:.2f} hours one after the other{more}, with {JOB_S:.0f} s per job for "
        f"starting it; on {chosen.config.device}, at the speed of the machines in the records\n"
        f"{chosen.disk_use()}"
    )
