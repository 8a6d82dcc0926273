"""Cost of training, relative to the training loops that people write, on data in memory.

Only the steps of the engine are timed, in the arithmetic of `flatlab.lab.train`. Curves and
checkpoints are recorded neither by the engine nor by the baselines.
"""

from __future__ import annotations

import ast
import functools
import multiprocessing
from collections.abc import Callable, Sequence
from multiprocessing.pool import Pool
from multiprocessing.synchronize import Barrier
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import baselines
from benchmarks.engine import (
    BATCH,
    IMAGE,
    NETWORKS,
    RELU,
    TRAINING,
    Engine,
    Kind,
    Settings,
    changed,
    demo_packs,
    networks,
    random_split,
)
from benchmarks.timing import paired, report
from flatlab import data
from flatlab.data._tensors import Split, prepare

ITERATIONS = 600
"""Steps of each network when many networks are trained on two cores."""

PART = 10
"""With two threads, one in `PART` of these networks is timed."""


BOTH = ("graphs", "batched")
ON_CPU = {
    "mlp": Kind((1, 28, 28), 10, 1, 5, ours=100, baseline=40),
    "lenet5": Kind(IMAGE, 2, 1, 5, ours=30, baseline=20, modes=BOTH),
    "vgg, narrow": Kind(IMAGE, 2, 1, 5, ours=12, baseline=8, modes=BOTH),
    "resnet, narrow": Kind((3, 16, 16), 10, 1, 5, ours=12, baseline=8, modes=BOTH),
    "vgg": Kind(IMAGE, 2, 1, 2, ours=2, baseline=2, threads=(1, 2)),
}


def eager(
    models: Sequence[nn.Module], split: Split, training: Settings, steps: int, threads: int
) -> None:
    torch.set_num_threads(threads)
    rule = training["batch_size"], training["lr"]
    baselines.eager_loop(models, split.inputs, split.targets, steps, *rule)


def stacked(
    models: Sequence[nn.Module], split: Split, training: Settings, steps: int
) -> dict[str, Tensor]:
    torch.set_num_threads(1)
    rule = training["batch_size"], training["lr"]
    return baselines.vmap_loop(models, split.inputs, split.targets, steps, *rule)


def by_architecture(base: Settings, kinds: dict[str, Kind]) -> None:
    """Time per step and network, by architecture: the engine against the loops, and against
    itself with non-deterministic algorithms."""
    training = {**TRAINING, "precision": "float32"}
    for name, mode in [(name, mode) for name, kind in kinds.items() for mode in kind.modes]:
        kind, chosen = kinds[name], {"mode": mode} if mode else {}
        blocks = [range(n * kind.runs, (n + 1) * kind.runs) for n in range(kind.packs)]
        packs = [changed(base, NETWORKS[name], seeds, {}, **training, **chosen) for seeds in blocks]
        why_not = check(packs[0], random_split(kind, "cpu", BATCH))
        split = random_split(kind, "cpu")
        models = [model for settings in packs for model in networks(settings, split)]
        engine, free = Engine(packs, split), Engine(packs, split, deterministic=False)
        ours = functools.partial(engine.steps, kind.ours)
        given = models, split, packs[0]["training"], kind.baseline
        loops: dict[str, Callable[[], Any]] = {}
        for threads in (1, 2):
            loop = functools.partial(eager, *given, threads=threads)
            loops[f"eager_loop, threads: {threads}"] = loop
        if not why_not:
            loops["vmap_loop"] = functools.partial(stacked, *given)
        same = [functools.partial(engine.steps, kind.ours, threads) for threads in kind.threads]
        seconds, *others = paired(ours, *loops.values(), *same)
        found = seconds / kind.ours / len(models)
        baseline = {
            way: other / kind.baseline / len(models)
            for way, other in zip(loops, others, strict=False)
        }
        fastest = min((way for way in loops if "eager" in way), key=lambda way: baseline[way])
        what = f"{name}, {len(models)} networks, {packs[0]['training']['mode']}"
        for threads, alike in zip(kind.threads, others[len(loops) :], strict=True):
            way = f"eager_loop, threads: {threads}"
            with_threads = f"{what}, {threads} threads"
            report(with_threads, alike / kind.ours / len(models), baseline[way], way, "/step")
        eagerly = [] if kind.threads else [fastest]
        for way in [*eagerly, *(["vmap_loop"] if "vmap_loop" in loops else [])]:
            named = f"{way} ({1e3 * baseline[way]:.3f} ms)"
            report(what, found, baseline[way], named, "/step")
        if why_not:
            print(f"{what:<34}  vmap_loop is not possible: {why_not}")
        always, seldom = (
            each / kind.ours / len(models)
            for each in paired(ours, functools.partial(free.steps, kind.ours))
        )
        report(what, always, seldom, f"ours, any algorithm ({1e3 * seldom:.3f} ms)", "/step")
        assert all(len(t.active) == kind.runs for t in engine.trainings), f"{name} diverged"


RULES: dict[str, Settings] = {
    "sam": {"regularizer": "sam", "sam_radius": 0.05},
    "mixup": {"regularizer": "mixup", "mixup_alpha": 0.5},
}


def by_rule(base: Settings, kinds: dict[str, Kind]) -> None:
    """Time per step and network of what changes a step, against the plain step."""
    training = {**TRAINING, "precision": "float32"}
    for name, kind in kinds.items():
        split = random_split(kind, "cpu")
        for mode in ("batched", "loop"):
            given = base, NETWORKS[name], range(kind.runs), {}
            packs = [changed(*given, **training, **rule) for rule in ({}, *RULES.values())]
            for pack in packs:
                pack["training"]["mode"] = mode
            steps = [functools.partial(Engine([pack], split).steps, kind.ours) for pack in packs]
            plain, *others = (each / kind.ours / kind.runs for each in paired(*steps))
            for rule, seconds in zip(RULES, others, strict=True):
                what = f"{name}, {mode}, {rule}: {seconds / plain:.2f} plain steps"
                report(what, seconds, plain, "the plain step", "/step")


def check(settings: Settings, split: Split) -> str:
    """Check that engine and baselines take the same step if one minibatch contains all data.

    Returns why `vmap_loop` cannot be used, or an empty string.
    """
    engine = Engine([settings], split)
    engine.steps(1)
    given = networks(settings, split), split, settings["training"], 1
    why_not, stack = "", None
    try:
        stack = stacked(*given)
    except NotImplementedError as error:
        why_not = str(error)
    eager(*given, threads=1)
    exact = 1e-5 if settings["training"]["precision"] == "float32" else 1e-3
    for run, model in enumerate(given[0]):
        ours = engine.trainings[0].networks.read(run)
        for name, tensor in model.named_parameters():
            assert torch.allclose(tensor, ours[f"model.{name}"], rtol=0, atol=exact), name
            if stack is not None:
                assert torch.allclose(tensor, stack[name][run], rtol=0, atol=exact), name
    return why_not


def on_two_cores(base: Settings, demo: Sequence[Settings]) -> None:
    """Train many networks of the demo scale, initialization included, in two processes.

    Each process has one thread and has finished its imports. Packs are distributed as processes
    become free. The baselines distribute single networks, or use one process with two threads.
    """
    small = {"name": "lenet5", "options": {**RELU, "kernel": 3, "padding": 1}}
    rule = {"lr": 0.05, "batch_size": 20, "mode": "batched"}
    lenets = [
        changed(base, small, range(k, k + 10), {"classes": [0, 1]}, **rule)
        for k in range(0, 40, 10)
    ]
    context = multiprocessing.get_context("spawn")
    with context.Pool(2, ready, (context.Barrier(2),)) as pool:
        for what, packs in (("100 demo MLPs", demo), ("40 demo LeNets", lenets)):
            through_both(pool, what, packs)


def through_both(pool: Pool, what: str, packs: Sequence[Settings]) -> None:
    """Time `ITERATIONS` steps of all networks of some packs.

    Two threads are slow if the cores are busy, so they are timed on a part of the networks.
    """
    alone = [
        {**settings, "seeds": [seed], "runs": [run]}
        for settings in packs
        for seed, run in zip(settings["seeds"], settings["runs"], strict=True)
    ]
    part = alone[::PART]
    timings: dict[str, Callable[[], Any]] = {
        "ours": lambda: list(pool.imap_unordered(train_pack, packs)),
        "2 processes": lambda: list(pool.imap_unordered(train_eagerly, alone)),
        "1 process, 2 threads": lambda: [train_eagerly(settings, threads=2) for settings in part],
    }
    seconds = dict(zip(timings, paired(*timings.values(), repeats=3), strict=True))
    seconds["1 process, 2 threads"] *= len(alone) / len(part)
    ours = seconds.pop("ours")
    for way, baseline in sorted(seconds.items(), key=lambda pair: pair[1]):
        report(f"{what} on 2 cores", ours, baseline, f"eager_loop, {way} ({baseline:.2f} s)")


def ready(barrier: Barrier) -> None:
    """Wait until both processes have finished their imports."""
    barrier.wait()


def train_pack(settings: Settings) -> None:
    Engine([settings], digits(settings)).steps(ITERATIONS)


def train_eagerly(settings: Settings, threads: int = 1) -> None:
    split = digits(settings)
    eager(networks(settings, split), split, settings["training"], ITERATIONS, threads)


def digits(settings: Settings) -> Split:
    """The training set of a grid on digits; each process prepares it once."""
    return _digits(repr(settings["data"]["classes"]), settings["data"]["scaling"])


@functools.cache
def _digits(classes: str, scaling: str) -> Split:
    kept = {"classes": ast.literal_eval(classes), "scaling": scaling}
    return prepare(data.load("digits"), kept, dtype=torch.float32).train


def training() -> None:
    """The engine against common training loops, on a CPU: by architecture, and on two cores.

    `python -m benchmarks.gpu` is what is timed on a GPU.
    """
    demo = demo_packs()
    by_architecture(demo[0], ON_CPU)
    by_rule(demo[0], ON_CPU)
    on_two_cores(demo[0], demo)
    torch.set_num_threads(1)
