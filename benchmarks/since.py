"""Measuring and training steps on a CPU, against those of an earlier commit: what became slower.

And how often torch's operators are called, which a GPU waits for: as a GPU would have them, with as
much at a time, for the first checkpoint of a network and for each later one.

Both versions run in processes of their own, with one thread, on the same data from the same seeds.
They are timed alternately, by processor time, so that neither a machine whose speed drifts nor
other processes on it favour one of them. What the checks of a call cost is in its time.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engine import NETWORKS, RELU, TRAINING, default_mode
from benchmarks.timing import report

COMMIT = "b2dd2a3e"
PAIRS, SECONDS = 10, 0.6
"""Of timings, and about how long each takes: two cores that share a cache differ by a few percent,
for seconds at a time."""
SLOWER = 1.03
"""What the lower end of an interval must not exceed."""

HERE = Path(__file__).parents[1]
IMAGE = (3, 32, 32)
PERCEPTRON = {"name": "mlp", "options": {**RELU, "width": 256}}
SMALL = {"name": "mlp", "options": {**RELU, "width": 64}, "initialization": "framework"}
SAMPLES = {"size": 100, "seed": 0, "only": "all"}


def call(network: dict[str, Any], shape: tuple[int, ...], samples: int, **how: Any) -> Any:
    given = {"network": {**network, "initialization": "framework"}, "shape": shape}
    return {"what": "call", **given, "outputs": 10, "samples": samples, **how}


def steps(name: str, shape: tuple[int, ...], outputs: int, batch: int, runs: int) -> Any:
    plain = {"schedule": "constant", "milestones": [], "decay": 0.1, "warmup": 0.0}
    plain |= {"loss": "half-mse", "label_smoothing": 0.0, "minibatches": "reshuffled"}
    plain |= {"optimizer": "sgd", "momentum": 0.0, "weight_decay": 0.0, "precision": "float32"}
    plain |= {**TRAINING, "epochs": None, "stop": None, "batch_size": batch}
    settings = {
        "data": {"set": "random", "classes": "all", "scaling": "none", "augmentation": "none"},
        "network": {**NETWORKS[name], "initialization": "framework"},
        "training": {**plain, "mode": default_mode(NETWORKS[name])},
        **{"checkpoints": "none", "curves": "none"},
        **{"seeds": [*range(runs)], "runs": [f"s{seed}" for seed in range(runs)]},
    }
    return {"what": "steps", "settings": settings, "shape": shape, "outputs": outputs}


def pack(families: str, network: Any = SMALL, width: int = 8, **how: Any) -> Any:
    """Ten checkpoints of a network on images, by default of a 64-wide perceptron."""
    settings = {
        **{"family": families, "data": {"classes": "all", "scaling": "unit"}, "network": network},
        **{"outputs": None, "setting": "", "hyperparameters": {}, "seeds": [0]},
        **{"precision": "float64", "loss": {"loss": "half-mse"}},
        "samples": {"train": {"split": "train", **SAMPLES}},
        "options": {name: {} for name in families.split("+")},
    }
    settings |= how
    return {"what": "pack", "settings": settings, "outputs": 10, "checkpoints": 10, "width": width}


CROSS_ENTROPY = {"loss": "cross-entropy"}
CASES = {
    **{
        f"{family} of {name}": call(network, shape, samples, families=[family], **loss)
        for name, network, shape, samples in (
            ("an MLP", PERCEPTRON, (784,), 100),
            ("LeNet-5", NETWORKS["lenet5"], IMAGE, 100),
            ("a ResNet", NETWORKS["resnet, narrow"], (3, 16, 16), 30),
        )
        for family, loss in (
            ("geometry", {"accuracy": "exact"}),
            ("jacobian", {"accuracy": "exact"}),
            ("hessian", CROSS_ENTROPY),
            ("flatness", {**CROSS_ENTROPY, "flatness": ["exact"]}),
        )
    },
    "geometry of VGG-11": call(NETWORKS["vgg"], IMAGE, 10, families=["geometry"], costly=()),
    "sharpness of an MLP": call(PERCEPTRON, (784,), 100, families=["sharpness"], **CROSS_ENTROPY),
    "a pack of MLPs, accuracy": pack("accuracy"),
    "a pack of MLPs, accuracy+geometry": pack("accuracy+geometry"),
    **{
        f"steps of {networks} x {name}": steps(name, *data, networks)
        for name, *data in (
            ("mlp", (784,), 10, 20),
            ("lenet5", IMAGE, 2, 20),
            ("vgg, narrow", IMAGE, 2, 20),
            ("resnet, narrow", (3, 16, 16), 10, 32),
        )
        for networks in (1, 5)
    },
}


class Version:
    """A process that works with the code in a folder."""

    def __init__(self, folder: Path) -> None:
        given = {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        self.process: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, str(HERE / "benchmarks/since_work.py")],
            cwd=folder,
            env={**os.environ, **given},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def ask(self, name: str, **message: Any) -> float:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps({"case": name, **message}) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


@contextmanager
def versions() -> Iterator[tuple[Version, Version]]:
    """The present and the earlier one."""
    git = ["git", "-C", str(HERE), "worktree"]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "earlier"
        subprocess.run([*git, "add", "--quiet", "--detach", str(folder), COMMIT], check=True)
        both = Version(HERE), Version(folder)
        try:
            yield both
        finally:
            for version in both:
                version.process.communicate()  # closes its input, which ends it
            subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def operators(now: Version, earlier: Version) -> None:
    """Calls of operators by `geometry` in float32, with as much at a time as on a GPU."""
    for name, size in (("mlp", 100), ("lenet5", 100), ("vgg", 10)):
        network = SMALL if name == "mlp" else {**NETWORKS[name], "initialization": "framework"}
        samples = {"train": {"split": "train", **SAMPLES, "size": size}}
        case = pack("geometry", network, 32, precision="float32", samples=samples)
        calls = []
        for version in (now, earlier):
            of_counts = []
            for count in (1, 9):
                version.ask(name, **{**case, "checkpoints": count, "on_gpu": True})
                of_counts.append(version.ask(name, operators=True))
            calls.append((of_counts[0], (of_counts[1] - of_counts[0]) / 8))
        (first, later), (before, _) = calls
        what = f"operators of {name}: the first checkpoint {first:.0f}, a later one {later:.0f}"
        print(f"{what}; {COMMIT}: {before:.0f} and {calls[1][1]:.0f}; {later / before:.2f} of it")


def since() -> None:
    """Each case: the median time, and the mean ratio to the commit's with its 95 % interval."""
    slower = []
    with versions() as (now, earlier):
        for name, case in CASES.items():
            for version in (now, earlier):
                version.ask(name, **case)
                first = version.ask(name, times=1)
            times = max(1, round(SECONDS / first))
            pairs = []
            for number in range(PAIRS):
                order = (now, earlier)[:: 1 if number % 2 else -1]
                of = {version: version.ask(name, times=times) for version in order}
                pairs.append((of[now], of[earlier]))
            ratios = np.log([b / a for a, b in pairs])
            half = 2.26 * ratios.std(ddof=1) / PAIRS**0.5
            low, high = np.exp(ratios.mean() + np.array([-half, half]))
            report(
                name,
                float(np.median([a for a, _ in pairs])),
                float(np.median([a for a, _ in pairs]) * np.exp(ratios.mean())),
                f"{COMMIT} [{low:.2f}, {high:.2f}]",
            )
            slower += [name] * bool(1 / high > SLOWER)
        operators(now, earlier)
    print(f"slower than {COMMIT}: {', '.join(slower) or 'nothing'}")
