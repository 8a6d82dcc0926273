"""`flatlab estimate`: the time and disk space that a configuration takes, before anything starts.

Each job leaves its run time in the record beside its output. On a CPU the processor's time counts,
since other work may have run beside it. Resumed jobs know that of their last part alone, and do not
count. A job is predicted from those of its network that are the most alike in work, in proportion
to it: time is in proportion to work only nearby. If its work is unknown, jobs at the same scale
count; if no job of its network is known, those of the network, if possible of the same
architecture, whose jobs are the most alike. Published records are of other machines: those of jobs
that were done here as well say how much slower or faster this one is.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import log
from pathlib import Path
from typing import Any, NamedTuple

from flatlab.core import store
from flatlab.lab import plan

JOB_S = {"cpu": 0.2, "cuda": 2.0}
"""Seconds for starting a job, added to its computation: without a GPU it is a fork (`forks`)."""

PUBLISHED = "benchmarks.json"
"""The run times of a published scale, a file in `results/published/<scale>/`."""

NAMES = ("kind", "network", "device", "seconds", "work", "jobs")
"""The columns of that file."""

Times = dict[tuple[str, str, str, float], tuple[float, ...]]
"""Seconds, work and number of finished jobs, by kind, network, device, and work of one job."""


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
    basis: how many records it rests on, and of which networks.
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
            key = (job.recorded_as, job.network, device, job.work)
            times.append((key, (about.get(spent, about["runtime_s"]), job.work, 1)))
    return _added_up(times)


def published() -> Times:
    """The run times of published results, over all scales."""
    files = [plan.published_at(scale).folder / PUBLISHED for scale in plan.published_scales()]
    read = [from_records(store.load_json(path)) for path in files if path.is_file()]
    return _added_up(item for times in read for item in times.items())


def slower(here: Times, there: Times, device: str) -> float:
    """How many times longer the jobs took here that a device did in both places; 1 if none."""
    both = [key for key in here.keys() & there.keys() if key[2] == device]
    seconds = sum(here[key][0] for key in both)
    expected = sum(here[key][2] * there[key][0] / there[key][2] for key in both)
    return seconds / expected if seconds and expected else 1.0


def _added_up(times: Iterable[tuple[tuple[str, str, str, float], tuple[float, ...]]]) -> Times:
    """Times by key; jobs of one kind may be at several scales."""
    total: Times = {}
    for key, numbers in times:
        before = total.get(key, (0, 0, 0))
        total[key] = tuple(a + b for a, b in zip(before, numbers, strict=True))
    return total


def as_records(times: Times) -> list[dict[str, Any]]:
    """Times as they are published."""
    return [dict(zip(NAMES, (*k[:3], *value), strict=True)) for k, value in sorted(times.items())]


def from_records(records: Iterable[Mapping[str, Any]]) -> Times:
    """The inverse of `as_records`."""
    rows = ([record[name] for name in NAMES] for record in records)
    return {(*row[:3], row[4] / row[5]): tuple(row[3:]) for row in rows}


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
        wanted = (group[0].recorded_as, chosen.config.device)
        known: dict[str, list[tuple[float, ...]]] = {}
        for (recorded_as, net, device, _), time in times.items():
            if (recorded_as, device) == wanted and time[1]:
                known.setdefault(net, []).append(time)
        hours, basis = None, ""
        if known:
            peer = network if network in known else _most_alike(known, network, group)
            hours = sum(_seconds(known[peer], job.work) + JOB_S[wanted[1]] for job in left) / 3600
            jobs = sum(round(of_work[2]) for of_work in known[peer])
            basis = f"{jobs} jobs" if peer == network else f"roughly, {jobs} jobs of {peer}"
            if any(job.stops for job in left):
                basis += "; less where networks stop once they have learnt"
        forecasts.append(
            Forecast(kind, network, len(left), len(group) - len(lacking), hours, basis)
        )
    return forecasts


def _seconds(known: Sequence[tuple[float, ...]], work: float) -> float:
    """What a job takes.  known: seconds, work and number of the jobs of each size."""
    seconds, of_known, _ = min(known, key=lambda time: _apart(time, work))
    return seconds / of_known * work


def _apart(time: tuple[float, ...], work: float) -> float:
    """How unlike in size recorded jobs are to one of some work."""
    _, of_known, jobs = time
    return abs(log(of_known / jobs / work)) if work else 0.0


def _most_alike(
    known: Mapping[str, Sequence[tuple[float, ...]]], network: str, group: Sequence[TimedJob]
) -> str:
    """The network whose jobs stand in for those of another one.

    known: seconds, work and number of jobs of each size, by network.  group: jobs of the other one.
    """
    mean = sum(job.work for job in group) / len(group)

    def unlike(name: str) -> tuple[bool, float]:
        architectures = {each.partition(" (")[0] for each in (name, network)}  # without widths
        return len(architectures) > 1, min(_apart(time, mean) for time in known[name])

    return min(known, key=unlike)
