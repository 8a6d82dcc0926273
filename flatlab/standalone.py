"""Packs computed in one process, without the workflow: `flatlab run`.

For a machine with a GPU and without Snakemake, and for a job in a debugger. The files are those
that the workflow makes, in the same places, so that it takes them as they are.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flatlab import data, jobs, plan, store, train
from flatlab.plan import Experiment, Stage


class Named(SimpleNamespace):
    """Values by name, as Snakemake hands them to a job: attributes, listed as single values."""

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
    """Train packs of an experiment, all of them at once on a GPU, and measure them.

    packs, families: keys; all of them if none are named.  force: also where the files are there.
    What an experiment needs of another one is trained, too. Returns the metric files. Raises
    `PlanError` for unknown names, and what training raises.
    """
    experiment = chosen.experiment(key)
    known = [*((p, experiment.packs) for p in packs), *((f, experiment.families) for f in families)]
    for name, names in known:
        if name not in names:
            raise plan.PlanError(f"unknown {name!r} of {key}; {plan.closest(name, names)}")
    wanted = list(packs or experiment.packs)
    for name in experiment.data_sets:
        _prepare(chosen, experiment, name)
    for other in map(chosen.experiment, experiment.needs()):
        _train_all(chosen, other, list(other.packs), force=False)
    _train_all(chosen, experiment, wanted, force)
    measuring = [
        _measuring_job(chosen, experiment, pack, family)
        for pack in wanted
        for family in families or experiment.families
    ]
    for job in measuring:
        if force or not _is_there(job):
            print(f"measure: {job.wildcards.family} of {job.wildcards.pack}", file=sys.stderr)
            with jobs.task(job) as task:
                task.save(experiment.measure(task))
    return [Path(job.output.metrics) for job in measuring]


def _prepare(chosen: plan.Plan, experiment: Experiment, name: str) -> None:
    made = Named(data=str(experiment.place / "data" / f"{name}.zarr.zip"))
    code = plan.fingerprint(plan.module_of("data", name))
    job = _job(
        chosen, "prepare", made, Stage(inputs={}, settings={}, code=code), scale=experiment.scale
    )
    del job.params.settings  # it has none: the workflow's job leaves none either
    if not _is_there(job):
        with jobs.task(job) as task:
            task.save(data.load(name, chosen.config.data_folder))


def _train_all(
    chosen: plan.Plan, experiment: Experiment, packs: Sequence[str], force: bool
) -> None:
    """Train what of some packs is not there."""
    todo = []
    for pack in packs:
        if (stage := experiment.training(pack)) is None:
            continue
        names = {"scale": experiment.scale, "experiment": experiment.key, "pack": pack}
        job = _job(chosen, "train", Named(**experiment.weights(pack)), stage, **names)
        if force or not _is_there(job):
            todo.append(job)
    for together in _alike(todo):
        _train(together)


def _measuring_job(chosen: plan.Plan, experiment: Experiment, pack: str, family: str) -> Named:
    names = {"scale": experiment.scale, "experiment": experiment.key}
    return _job(
        chosen,
        "measure",
        Named(metrics=str(experiment.metrics(pack, family))),
        experiment.measuring(pack, family),
        **names,
        family=family,
        pack=pack,
    )


def _job(chosen: plan.Plan, rule: str, outputs: Named, stage: Stage, **wildcards: str) -> Named:
    config = chosen.config
    return Named(
        rule=rule,
        input=Named(**stage.inputs),
        output=outputs,
        params=Named(settings=stage.settings, code=stage.code),
        wildcards=Named(**wildcards),
        config=Named(
            save_every_s=config.save_every_s, device=config.device, data_folder=config.data_folder
        ),
        resources=Named(gpu=int(config.device == "cuda" and stage.gpu)),
    )


def _is_there(job: Named) -> bool:
    """Whether the outputs were made with this code and these settings."""
    for output in job.output:
        try:
            about = store.load_json(f"{output}.provenance.json")
        except store.StoreError:
            return False
        same = all(about.get(key) == job.params.get(key) for key in ("code", "settings"))
        if not (Path(output).exists() and same):
            return False
    print(f"{job.rule}: {', '.join(job.output)}: there already", file=sys.stderr)
    return True


def _alike(waiting: Iterable[Named]) -> Iterable[list[Named]]:
    """Jobs of the same data and the same code, which can be trained in one go."""
    groups: dict[tuple[str, str], list[Named]] = {}
    for job in waiting:
        groups.setdefault((job.input.data, job.params.code), []).append(job)
    return groups.values()


def _train(together: list[Named]) -> None:
    """Train the packs of some jobs in one go."""
    names = ", ".join(job.wildcards.pack for job in together)
    print(f"train: {names}", file=sys.stderr)
    with contextlib.ExitStack() as stack:
        tasks = [stack.enter_context(jobs.task(job)) for job in together]
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
