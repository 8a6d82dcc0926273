"""`flatlab estimate`: the time and disk space that a configuration takes, before anything starts.

Each job leaves its run time in the record beside its output. On a CPU the processor's time counts,
since other work may have run beside it. Resumed jobs know that of their last part alone, and do not
count. From these records, training and measuring are predicted in proportion to their work, or, if
their work is unknown, from jobs at the same scale.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from flatlab.core import store
from flatlab.lab import plan

JOB_S = 2.0
"""Seconds for starting the process of a job and importing torch, added to its computation."""

PUBLISHED = "benchmarks.json"
"""The run times of a published scale, a file in `results/published/<scale>/`."""

NAMES = ("kind", "network", "device", "seconds", "work", "jobs")
"""The columns of that file."""

Times = dict[tuple[str, str, str], tuple[float, ...]]
"""Seconds, work and number of finished jobs, by kind, network and device."""


class TimedJob(NamedTuple):
    """One job, finished or not.

    stage: `train`, or the family that it measures.  kind, network, work: those of its
    `flatlab.lab.plan.PlannedJob`.  file: its output.  stops: whether it may end before all of its
    work.
    """

    stage: str
    scale: str
    kind: str
    network: str
    work: float
    file: Path
    stops: bool

    @property
    def recorded_as(self) -> str:
        """The kind in the records: without a network, jobs compare only at one scale."""
        return self.kind if self.network else f"{self.kind} {self.scale}"


class Forecast(NamedTuple):
    """The prediction for jobs of one kind and network.

    hours: None without any record; an upper bound if some of them stop when they have learnt.
    basis: how many records it rests on.
    """

    kind: str
    network: str
    jobs: int
    done: int
    hours: float | None
    basis: str


def jobs_of(
    chosen: plan.Plan, scale: str, experiments: Collection[str] | None = None
) -> Iterator[TimedJob]:
    """All jobs that compute experiments, and the training of networks that these measure.

    experiments: by default those of the figures that the configuration names.
    """
    shown = set(experiments_named(chosen) if experiments is None else experiments)
    for key in with_needs(chosen, scale, shown):
        experiment = chosen.experiment(key, scale)
        for pack in experiment.packs:
            stages = {"train": (experiment.training(pack), experiment.weights(pack)["weights"])}
            for family in experiment.families if key in shown else []:
                if (path := experiment.metrics(pack, family)) not in experiment.missing_files:
                    stages[family] = (experiment.measuring(pack, family), str(path))
            for name, (stage, file) in stages.items():
                if stage:
                    about = stage.kind, stage.network, stage.work
                    stops = bool(stage.settings.get("training", {}).get("stop"))
                    yield TimedJob(name, scale, *about, Path(file), stops)


def with_needs(chosen: plan.Plan, scale: str, experiments: Collection[str]) -> list[str]:
    needed = {other for key in experiments for other in chosen.experiment(key, scale).needs()}
    return sorted({*experiments, *needed})


def experiments_named(chosen: plan.Plan, names: Sequence[str] = ()) -> set[str]:
    """The experiments that names of experiments, figures and papers mean; `all` is all papers.

    Without names, those of the figures that the configuration names. Raises `PlanError` for an
    unknown name.
    """
    if not names:
        return {key for figure in chosen.figures for key in figure.experiments}
    keys: set[str] = set()
    for name in names:
        figures = [figure for paper in chosen.papers.values() for figure in paper]
        meant = [each for each in figures if name in ("all", each.paper, each.target)]
        if name in chosen.experiments:
            keys.add(name)
        elif meant:
            keys |= {key for figure in meant for key in figure.experiments}
        else:
            raise plan.PlanError(chosen.why_not(name))
    return keys


def recorded(
    chosen: plan.Plan,
    scales: Sequence[str] = plan.SCALES,
    experiments: Collection[str] | None = None,
) -> Times:
    """The run times of finished jobs in this folder.  experiments: as for `jobs_of`."""
    times = []
    for job in (job for scale in scales for job in jobs_of(chosen, scale, experiments)):
        if (record := plan.record_of(job.file)).is_file():
            about = store.load_json(record)
            if about.get("resumed"):
                continue
            device = about.get("device", "cuda" if about.get("gpu") else "cpu")
            spent = "runtime_s" if device == "cuda" else "processor_s"
            key = (job.recorded_as, job.network, device)
            times.append((key, (about.get(spent, about["runtime_s"]), job.work, 1)))
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


def forecast(
    chosen: plan.Plan, times: Times, experiments: Collection[str] | None = None
) -> list[Forecast]:
    """What experiments will take, for each kind of job and each network.

    experiments: as for `jobs_of`. Of measured packs nothing is left, their training included.
    """
    groups: dict[tuple[str, str], list[TimedJob]] = {}
    for job in jobs_of(chosen, chosen.config.scale, experiments):
        groups.setdefault((job.kind, job.network), []).append(job)
    forecasts = []
    for (kind, network), group in groups.items():
        lacking = [job for job in group if not job.file.is_file()]
        left = lacking if chosen.config.packs == "all" else []
        seconds, work, jobs = times.get(
            (group[0].recorded_as, network, chosen.config.device), (0, 0, 0)
        )
        hours, basis = None, ""
        if work:
            hours = sum(seconds / work * job.work + JOB_S for job in left) / 3600
            basis = f"{jobs} jobs"
            if any(job.stops for job in left):
                basis += "; less where networks stop once they have learnt"
        forecasts.append(
            Forecast(kind, network, len(left), len(group) - len(lacking), hours, basis)
        )
    return forecasts
