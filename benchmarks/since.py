"""The steps of small convolutional networks on a CPU, against those of an earlier commit.

Both versions run in processes of their own, with one thread, on the same data from the same seeds.
They are timed alternately, a few steps at a time, by CPU time, so that neither a machine whose
speed drifts nor other processes on it favour one of them.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engine import default_mode
from benchmarks.timing import report

COMMIT = "5767660"
REPEATS = 25
RUNS = 5
STEPS = 20
"""Steps in a timing, of all networks of a pack together."""

HERE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Kind:
    """An architecture on random images.

    before: its name at the commit.  mode: its default mode there.  name, options: those of today.
    """

    before: str
    mode: str
    name: str
    options: dict[str, Any]
    shape: tuple[int, ...]
    outputs: int
    batch: int


RELU = {"activation": "relu"}
NARROW = (16, "pool", 16, "pool", 32, "pool", 64, "pool", 64, "pool")
VGG = {**RELU, "widths": NARROW, "hidden": [128], "padding": 2}
RESNET = {**RELU, "widths": [8, 16, 32]}
KINDS = {
    "lenet5": Kind("lenet5", "graphs", "lenet5", RELU, (3, 32, 32), 2, 20),
    "vgg, narrow": Kind("vgg-narrow", "graphs", "vgg", VGG, (3, 32, 32), 2, 20),
    "resnet, narrow": Kind("resnet-small", "batched", "resnet", RESNET, (3, 16, 16), 10, 32),
}

TRAINING = {
    **{"lr": 0.01, "schedule": "constant", "milestones": [], "decay": 0.1, "warmup": 0.0},
    **{"loss": "half-mse", "label_smoothing": 0.0, "minibatches": "reshuffled"},
    **{"optimizer": "sgd", "momentum": 0.0, "weight_decay": 0.0, "precision": "float32"},
    **{"iterations": 10**9, "epochs": None, "stop": None},
}


def pack(kind: Kind, mode: str, runs: int, earlier: bool) -> dict[str, Any]:
    """A pack as `benchmarks.steps` reads it."""
    network = {"name": kind.name, "options": kind.options}
    if earlier:
        network = {"name": kind.before, **RELU}
    return {
        "shape": kind.shape,
        "outputs": kind.outputs,
        "settings": {
            "data": {"set": "random", "classes": "all", "scaling": "none", "augmentation": "none"},
            "network": {**network, "initialization": "framework"},
            "training": {**TRAINING, "batch_size": kind.batch, "mode": mode},
            "checkpoints": "none",
            "curves": "none",
            "seeds": [*range(runs)],
            "runs": [f"s{seed}" for seed in range(runs)],
        },
    }


class Version:
    """A process that takes steps with the code in a folder."""

    def __init__(self, folder: Path) -> None:
        given = {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(HERE / "benchmarks/steps.py")]
        self.process: subprocess.Popen[str] = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **given},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, message: dict[str, Any]) -> float:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


@contextmanager
def versions() -> Iterator[tuple[Version, Version]]:
    """The earlier and the present one."""
    git = ["git", "-C", str(HERE), "worktree"]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "earlier"
        subprocess.run([*git, "add", "--quiet", "--detach", str(folder), COMMIT], check=True)
        both = Version(folder), Version(HERE)
        try:
            yield both
        finally:
            for version in both:
                version.process.communicate()  # closes its input, which ends it
            subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def compare(sides: Sequence[tuple[Version, str]], runs: int) -> tuple[float, list[float]]:
    """Seconds of a step and network of the last side, and how many times longer the others take.

    sides: versions and the packs that they step.
    """
    count = max(1, STEPS // runs)
    times = [
        [version.ask({"pack": pack, "steps": count}) / runs for version, pack in sides]
        for _ in range(REPEATS + 1)
    ][1:]  # the first warms up
    ratios = [[each / row[-1] for each in row[:-1]] for row in times]
    ours = statistics.median(row[-1] for row in times)
    return ours, [statistics.median(column) for column in zip(*ratios, strict=True)]


def since() -> None:
    """Small networks, alone and in packs, in their default mode: against the commit's modes."""
    with versions() as (earlier, now):
        for name, kind in KINDS.items():
            today = default_mode({"name": kind.name, "options": kind.options})
            for runs, networks in ((1, "1 network"), (RUNS, f"{RUNS} networks")):
                before = ["graphs", "batched"] if runs > 1 else [kind.mode]
                packs = [(earlier, mode) for mode in before] + [(now, today)]
                sides = [(side, f"{name}, {runs}, {mode}") for side, mode in packs]
                for (side, mode), (_, key) in zip(packs, sides, strict=True):
                    side.ask({"pack": key, **pack(kind, mode, runs, side is earlier)})
                ours, gains = compare(sides, runs)
                for mode, gain in zip(before, gains, strict=True):
                    default = " (its default)" * (mode == kind.mode)
                    what = f"{name}, {networks}, {today}"
                    report(what, ours, gain * ours, f"{COMMIT}, {mode}{default}", "/step")
