"""Train and measure packs of an experiment without Snakemake.

For a machine with a GPU but no Snakemake, and for debugging. The workflow uses the files as if it
had made them.
"""

import argparse
import contextlib
import importlib
import itertools
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable

from msgspec.structs import asdict

from flatlab.cli._main import add_device, add_scale, load_plan
from flatlab.core.paths import built_at
from flatlab.core.schema import PlanError, closest
from flatlab.lab.jobs import bodies
from flatlab.lab.jobs.job import running
from flatlab.lab.jobs.standalone import Named, as_passed, described, is_done
from flatlab.lab.plan.experiments import Experiment, PlannedJob
from flatlab.lab.plan.plan import Plan


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
    importlib.import_module("flatlab.lab.train")  # torch, before jobs set its number of threads
    for name in experiment.data_sets:
        _prepare(chosen, experiment.scale, name)
    for other in map(chosen.experiment, experiment.needs()):
        _train(chosen, other, other.packs)
    _train(chosen, experiment, packs, options.force)
    for pack, family in itertools.product(packs, families):
        outputs = {"metrics": str(experiment.metrics(pack, family))}
        named = {"experiment": experiment.key, "family": family, "pack": pack}
        planned = chosen.with_content(experiment.measuring(pack, family))
        job = _job(chosen, "measure", outputs, planned, experiment.scale, **named)
        job.params["kind"] = experiment.kind
        _carry_out(bodies.measure, [job], options.force)
    print("\n".join(str(experiment.metrics(p, f)) for p in packs for f in families))
    return 0


def _chosen(names: list[str], known: Iterable[str], key: str) -> list[str]:
    for name in names:
        if name not in known:
            raise PlanError(f"unknown {name!r} of {key}; {closest(name, known)}")
    return names or list(known)


def _prepare(chosen: Plan, scale: str, name: str) -> None:
    outputs = {"data": str(built_at(scale).data(name))}
    job = _job(chosen, "prepare", outputs, chosen.preparing(name), scale, dataset=name)
    del job.params["settings"]  # the workflow's job has no settings either
    _carry_out(bodies.prepare, [job])


def _train(chosen: Plan, experiment: Experiment, packs: Iterable[str], force: bool = False) -> None:
    groups = defaultdict[tuple[str, str], list[Named]](list)
    for pack in packs:
        if planned := experiment.training(pack):
            outputs, names = experiment.weights(pack), {"experiment": experiment.key, "pack": pack}
            job = _job(chosen, "train", outputs, planned, experiment.scale, **names)
            groups[job.input.get("data", pack), job.params.code].append(job)
    for group in groups.values():
        _carry_out(bodies.train, group, force)


def _carry_out(body: Callable[..., None], group: Iterable[Named], force: bool = False) -> None:
    """Run a body on those jobs of a group whose outputs are missing or outdated."""
    waiting = []
    for job in group:
        if not force and is_done(job):
            print(f"{job.rule}: {', '.join(job.output)}: up to date", file=sys.stderr)
        else:
            waiting.append(job)
    if not waiting:
        return
    made = [path for job in waiting for path in job.output]
    print(f"{waiting[0].rule}: {', '.join(made)}", file=sys.stderr)
    with contextlib.ExitStack() as stack:
        together = len(waiting)
        body(*[stack.enter_context(running(job, together)) for job in waiting])


def _job(
    chosen: Plan,
    rule: str,
    outputs: dict[str, str],
    planned: PlannedJob,
    scale: str,
    **wildcards: str,
) -> Named:
    """What Snakemake would pass to the job that carries out a planned job."""
    job = described(rule, planned, outputs, {"scale": scale, **wildcards})
    return as_passed(job, asdict(chosen.config))
