"""Train and measure packs of an experiment without Snakemake.

For a machine with a GPU but no Snakemake, and for debugging. The files are those of the workflow,
which uses them as if it had made them.
"""

import argparse
import contextlib
import importlib
import itertools
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from flatlab import jobs, plan, store
from flatlab.cli import add_device, add_scale, load_plan

GROUP = "Plan and run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", help="key of an experiment")
    parser.add_argument("pack", nargs="*", help="packs to compute; by default all")
    help_ = "families of quantities to measure; by default all"
    parser.add_argument("--family", nargs="+", default=[], help=help_)
    add_scale(parser)
    add_device(parser)
    parser.add_argument("--force", action="store_true", help="recompute files that are up to date")


def run(options: argparse.Namespace) -> int:
    chosen = load_plan(options.scale, options.device, packs="all")
    experiment = chosen.experiment(options.experiment)
    packs = _chosen(options.pack, experiment.packs, experiment.key)
    families = _chosen(options.family, experiment.families, experiment.key)
    # Imported here because torch takes seconds, but before jobs set its number of threads.
    train, data = (importlib.import_module(f"flatlab.{name}") for name in ("train", "data"))
    try:
        for name in experiment.data_sets:
            _prepare(chosen, experiment.scale, name, data)
        for other in map(chosen.experiment, experiment.needs()):
            _train(chosen, other, other.packs, train)
        _train(chosen, experiment, packs, train, options.force)
        for pack, family in itertools.product(packs, families):
            outputs = {"metrics": str(experiment.metrics(pack, family))}
            names = {"experiment": experiment.key, "family": family, "pack": pack}
            stage = experiment.measuring(pack, family)
            job = _job(chosen, "measure", outputs, stage, experiment.scale, **names)
            _carry_out(job, experiment.measure, options.force)
    except (train.TrainError, train.Interrupted, data.DataError) as error:
        raise store.StoreError(str(error)) from error
    print("\n".join(str(experiment.metrics(p, f)) for p in packs for f in families))
    return 0


def _chosen(names: list[str], known: Iterable[str], key: str) -> list[str]:
    for name in names:
        if name not in known:
            raise plan.PlanError(f"unknown {name!r} of {key}; {plan.closest(name, known)}")
    return names or list(known)


def _prepare(chosen: plan.Plan, scale: str, name: str, data: Any) -> None:
    stage = plan.Stage(inputs={}, settings={}, code=plan.fingerprint(plan.module_of("data", name)))
    outputs = {"data": str(plan.built_at(scale).data(name))}
    job = _job(chosen, "prepare", outputs, stage, scale, dataset=name)
    del job.params["settings"]  # the workflow's job has no settings either
    _carry_out(job, lambda _: data.load(name, chosen.config.data_folder))


def _train(
    chosen: plan.Plan,
    experiment: plan.Experiment,
    packs: Iterable[str],
    train: Any,
    force: bool = False,
) -> None:
    groups = defaultdict[tuple[str, str], list[Named]](list)
    for pack in packs:
        if stage := experiment.training(pack):
            outputs, names = experiment.weights(pack), {"experiment": experiment.key, "pack": pack}
            job = _job(chosen, "train", outputs, stage, experiment.scale, **names)
            if force or not _exists(job):
                groups[job.input.data, job.params.code].append(job)
    for (data, code), group in groups.items():
        print(f"train: {', '.join(job.wildcards.pack for job in group)}", file=sys.stderr)
        with contextlib.ExitStack() as stack:
            tasks = [stack.enter_context(jobs.task(job)) for job in group]
            results = train.train_packs(
                store.load_dataset(data),
                [task.params.settings for task in tasks],
                tasks[0].device,
                starts=[[*map(store.load_weights, t.input.get("start", []))] for t in tasks],
                folders=[task.unfinished for task in tasks],
                code=code,
                save_every_s=chosen.config.save_every_s,
            )
            for task, trained in zip(tasks, results, strict=True):
                task.save(**vars(trained))


def _carry_out(job: Any, compute: Callable[[Any], Any], force: bool = False) -> None:
    if force or not _exists(job):
        print(f"{job.rule}: {', '.join(job.output)}", file=sys.stderr)
        with jobs.task(job) as task:
            task.save(compute(task))


class Named(dict[str, Any]):
    """Values by name, like those that Snakemake passes to a job; iterating lists single values."""

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def __iter__(self) -> Iterator[Any]:
        for value in self.values():
            yield from value if isinstance(value, list) else [value]


def _job(
    chosen: plan.Plan,
    rule: str,
    outputs: dict[str, str],
    stage: plan.Stage,
    scale: str,
    **wildcards: str,
) -> Named:
    """What Snakemake would pass to the job that carries out a stage."""
    return Named(
        rule=rule,
        input=Named(stage.inputs),
        output=Named(outputs),
        params=Named(settings=stage.settings, code=stage.code),
        wildcards=Named(scale=scale, **wildcards),
        config=Named(asdict(chosen.config)),
        resources=Named(gpu=int(chosen.config.device == "cuda" and stage.gpu)),
    )


def _date(path: str) -> float:
    """When a file was last written; 0 if there is none, as of weights needed only once."""
    return Path(path).stat().st_mtime if Path(path).exists() else 0


def _exists(job: Named) -> bool:
    """Whether its outputs are there, made by this code with these settings after its inputs."""
    made = [_date(path) for path in job.input]
    for output in job.output:
        try:
            about = store.load_json(plan.record_of(output))
        except store.StoreError:
            return False
        same = all(about.get(key) == job.params.get(key) for key in ("code", "settings"))
        if not (Path(output).exists() and same and _date(output) >= max(made, default=0)):
            return False
    print(f"{job.rule}: {', '.join(job.output)}: up to date", file=sys.stderr)
    return True
