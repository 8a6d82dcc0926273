"""Packs trained and measured in one process, without the workflow: `flatlab run`.

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

from flatlab import data, jobs, metrics, plan, store, train
from flatlab.plan import Grid, Pack


class Named(SimpleNamespace):
    """Values by name, as Snakemake hands them to a job: attributes, listed as values."""

    def __iter__(self) -> Iterator[Any]:
        return iter(vars(self).values())

    def get(self, name: str, default: Any = None) -> Any:
        return vars(self).get(name, default)

    def items(self) -> Any:
        return vars(self).items()


def run(
    chosen: plan.Plan,
    grid_key: str,
    packs: Sequence[str] = (),
    families: Sequence[str] = (),
    force: bool = False,
) -> list[Path]:
    """Train packs of a grid, all of them at once on a GPU, and measure them.

    packs, families: keys; all of them if none are named.  force: also where the files are there.
    Returns the metric files. Raises `PlanError` for unknown names, and what training raises.
    """
    grid = chosen.grid(grid_key, chosen.config.scale)
    for name, known in (*((p, grid.packs) for p in packs), *((f, grid.families) for f in families)):
        if name not in known:
            raise plan.PlanError(f"unknown {name!r} of {grid.key}; {plan.closest(name, known)}")
    wanted = [grid.packs[key] for key in packs or grid.packs]
    for name in dict.fromkeys(pack.data.set for pack in wanted):
        _prepare(chosen, grid, name)
    jobs = [_training_job(chosen, grid, pack) for pack in wanted]
    for together in _alike(job for job in jobs if force or not _is_there(job)):
        _train(together)
    measuring = [
        _measuring_job(chosen, grid, pack, family)
        for pack in wanted
        for family in families or grid.families
    ]
    for job in measuring:
        if force or not _is_there(job):
            _measure(job)
    return [Path(job.output.metrics) for job in measuring]


def _place(grid: Grid) -> str:
    return f"results/{grid.scale}"


def _data_file(grid: Grid, name: str) -> str:
    return f"{_place(grid)}/data/{name}.zarr.zip"


def _prepare(chosen: plan.Plan, grid: Grid, name: str) -> None:
    made = Named(data=_data_file(grid, name))
    code = Named(code=plan.fingerprint(plan.module_of("data", name)))
    job = _job(chosen, "prepare", Named(), made, code, scale=grid.scale)
    if not _is_there(job):
        with jobs.task(job) as task:
            task.save(data.load(name, chosen.config.data_folder))


def _training_job(chosen: plan.Plan, grid: Grid, pack: Pack) -> Named:
    stem = f"{_place(grid)}/models/{grid.key}/{pack.key}"
    return _job(
        chosen,
        "train",
        Named(data=_data_file(grid, pack.data.set)),
        Named(
            weights=f"{stem}.safetensors",
            dense=f"{stem}.dense.safetensors",
            curves=f"{stem}.curves.zarr.zip",
        ),
        Named(settings=plan.train_settings(pack), code=plan.train_code(pack)),
        scale=grid.scale,
        grid=grid.key,
        pack=pack.key,
    )


def _measuring_job(chosen: plan.Plan, grid: Grid, pack: Pack, family: str) -> Named:
    trained = _training_job(chosen, grid, pack).output
    return _job(
        chosen,
        "measure",
        Named(weights=trained.weights, dense=trained.dense, data=_data_file(grid, pack.data.set)),
        Named(metrics=str(grid.metrics(pack.key, family))),
        Named(
            settings=plan.measure_settings(grid, pack, family),
            code=plan.measure_code(family, pack.network.name),
        ),
        scale=grid.scale,
        grid=grid.key,
        family=family,
        pack=pack.key,
    )


def _job(
    chosen: plan.Plan, rule: str, inputs: Named, outputs: Named, params: Named, **wildcards: str
) -> Named:
    device = chosen.config.device
    gpu = device == "cuda" and rule != "prepare"
    return Named(
        rule=rule,
        input=inputs,
        output=outputs,
        params=params,
        wildcards=Named(**wildcards),
        config=Named(save_every_s=chosen.config.save_every_s, device=device),
        resources=Named(gpu=int(gpu)),
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


def _alike(jobs: Iterable[Named]) -> Iterable[list[Named]]:
    """Jobs of the same data and the same code, which can be trained in one go."""
    groups: dict[tuple[str, str], list[Named]] = {}
    for job in jobs:
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


def _measure(job: Named) -> None:
    print(f"measure: {job.wildcards.family} of {job.wildcards.pack}", file=sys.stderr)
    with jobs.task(job) as task:
        weights = [store.load_weights(task.input.weights), store.load_weights(task.input.dense)]
        raw = store.load_dataset(task.input.data)
        task.save(metrics.measure_pack(weights, raw, task.params.settings, task.device))
