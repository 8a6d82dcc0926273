"""`flatlab run`: train and measure packs in one process, without Snakemake.

For a machine with a GPU but no Snakemake, and for debugging. It writes the same files to the same
places as the workflow, which then uses them as if it had made them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flatlab import data, jobs, plan, store, train
from flatlab.plan import Experiment, Stage


class Named(SimpleNamespace):
    """Values by name, like those that Snakemake passes to a job; iterating lists single values."""

    def __iter__(self) -> Iterator[Any]:
        for value in vars(self).values():
            yield from value if isinstance(value, list) else [value]

    def get(self, name: str, default: Any = None) -> Any:
        return vars(self).get(name, default)

    def items(self) -> Any:
        return vars(self).items()


def run(
    chosen: plan.Plan,
    key: str,
    packs: Sequence[str] = (),
    families: Sequence[str] = (),
    force: bool = False,
) -> list[Path]:
    """Train packs of an experiment, on a GPU all of them at once, and measure them.

    packs, families: keys; all of them if none are named.  force: recompute existing files.
    Experiments whose weights this one measures are trained first. Returns the metric files. Raises
    `PlanError` for unknown names, and the errors of training.
    """
    experiment = chosen.experiment(key)
    known = [*((p, experiment.packs) for p in packs), *((f, experiment.families) for f in families)]
    for name, names in known:
        if name not in names:
            raise plan.PlanError(f"unknown {name!r} of {key}; {plan.closest(name, names)}")
    packs = packs or list(experiment.packs)
    for name in experiment.data_sets:
        _prepare(chosen, experiment.scale, name)
    for other in map(chosen.experiment, experiment.needs()):
        _train_all(chosen, other, list(other.packs), force=False)
    _train_all(chosen, experiment, packs, force)
    files = []
    for pack in packs:
        for family in families or experiment.families:
            files.append(experiment.metrics(pack, family))
            names = {"experiment": key, "family": family, "pack": pack}
            stage = experiment.measuring(pack, family)
            job = _job(
                chosen, "measure", {"metrics": str(files[-1])}, stage, experiment.scale, **names
            )
            if force or not _exists(job):
                print(f"measure: {family} of {pack}", file=sys.stderr)
                with jobs.task(job) as task:
                    task.save(experiment.measure(task))
    return files


def _prepare(chosen: plan.Plan, scale: str, name: str) -> None:
    stage = Stage(inputs={}, settings={}, code=plan.fingerprint(plan.module_of("data", name)))
    outputs = {"data": str(plan.built_at(scale).data(name))}
    job = _job(chosen, "prepare", outputs, stage, scale, dataset=name)
    del job.params.settings  # the workflow's job has no settings either
    if not _exists(job):
        with jobs.task(job) as task:
            task.save(data.load(name, chosen.config.data_folder))


def _train_all(
    chosen: plan.Plan, experiment: Experiment, packs: Sequence[str], force: bool
) -> None:
    """Train packs, those with the same data and code in one go."""
    groups: dict[tuple[str, str], list[Named]] = {}
    for pack in packs:
        if (stage := experiment.training(pack)) is None:
            continue
        outputs, names = experiment.weights(pack), {"experiment": experiment.key, "pack": pack}
        job = _job(chosen, "train", outputs, stage, experiment.scale, **names)
        if force or not _exists(job):
            groups.setdefault((job.input.data, job.params.code), []).append(job)
    for group in groups.values():
        _train(group)


def _train(group: list[Named]) -> None:
    print(f"train: {', '.join(job.wildcards.pack for job in group)}", file=sys.stderr)
    with contextlib.ExitStack() as stack:
        tasks = [stack.enter_context(jobs.task(job)) for job in group]
        results = train.train_packs(
            store.load_dataset(tasks[0].input.data),
            [task.params.settings for task in tasks],
            tasks[0].device,
            folders=[task.unfinished for task in tasks],
            code=tasks[0].params.code,
            save_every_s=tasks[0].config.save_every_s,
        )
        for task, trained in zip(tasks, results, strict=True):
            task.save(**vars(trained))


def _job(
    chosen: plan.Plan,
    rule: str,
    outputs: dict[str, str],
    stage: Stage,
    scale: str,
    **wildcards: str,
) -> Named:
    """What Snakemake would pass to the job that carries out a stage."""
    config = chosen.config
    return Named(
        rule=rule,
        input=Named(**stage.inputs),
        output=Named(**outputs),
        params=Named(settings=stage.settings, code=stage.code),
        wildcards=Named(scale=scale, **wildcards),
        config=Named(
            save_every_s=config.save_every_s, device=config.device, data_folder=config.data_folder
        ),
        resources=Named(gpu=int(config.device == "cuda" and stage.gpu)),
    )


def _exists(job: Named) -> bool:
    """Whether the outputs exist and were made with this code and these settings."""
    for output in job.output:
        try:
            about = store.load_json(plan.record_of(output))
        except store.StoreError:
            return False
        same = all(about.get(key) == job.params.get(key) for key in ("code", "settings"))
        if not (Path(output).exists() and same):
            return False
    print(f"{job.rule}: {', '.join(job.output)}: up to date", file=sys.stderr)
    return True
