"""Packs of networks, and the engine that trains them, for the benchmarks of training."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from flatlab.core.registry import literal
from flatlab.core.resume_state import ResumeState
from flatlab.data._tensors import Split
from flatlab.lab import plan
from flatlab.lab.train.determinism import deterministic_arithmetic
from flatlab.lab.train.initializations import draw
from flatlab.lab.train.pack import PackTraining
from flatlab.networks import build, options_of

Settings = dict[str, Any]

SAMPLES = 2000
BATCH = 20
TRAINING = {"lr": 0.01, "batch_size": BATCH, "iterations": 10**9}  # more than are ever taken


@dataclass(frozen=True)
class Kind:
    """Networks of one architecture on random data.

    packs, runs: number of packs, and of networks in each.  ours, baseline: steps of each network
    in one timing.  modes: those that are timed; by default that of the architecture.
    threads: of the engine, against as many of the eager loop; by default one, against the better.
    """

    shape: tuple[int, ...]
    outputs: int
    packs: int
    runs: int
    ours: int
    baseline: int
    modes: tuple[str | None, ...] = (None,)
    threads: tuple[int, ...] = ()


IMAGE = (3, 32, 32)
RELU = {"activation": "relu"}
NARROW = (16, "pool", 16, "pool", 32, "pool", 64, "pool", 64, "pool")
NETWORKS: dict[str, Settings] = {
    "mlp": {"name": "mlp", "options": RELU},
    "lenet5": {"name": "lenet5", "options": RELU},
    "vgg, narrow": {
        "name": "vgg",
        "options": {**RELU, "widths": NARROW, "hidden": [128], "padding": 2},
    },
    "resnet, narrow": {"name": "resnet", "options": {**RELU, "widths": (8, 16, 32)}},
    "vgg": {"name": "vgg", "options": RELU},
}


class Engine:
    """Packs that are trained side by side as in `train_packs`, but record nothing.

    deterministic: use only algorithms that are reproducible bit for bit, as everywhere else.
    """

    def __init__(self, packs: Sequence[Settings], split: Split, deterministic: bool = True) -> None:
        self.packs, self.mode = packs, "error" if deterministic else "default"
        unused = ResumeState(tempfile.gettempdir(), {})  # these trainings save nothing
        with deterministic_arithmetic(packs):
            self.trainings = [
                PackTraining(networks(settings, split), split, settings, unused)
                for settings in packs
            ]
        for training in self.trainings:
            training.handled = training.total - 1  # as if everything had been recorded
        self.running = [training.run() for training in self.trainings]

    def steps(self, count: int, threads: int = 1) -> None:
        """Take `count` steps with each network."""
        with deterministic_arithmetic(self.packs):
            torch.set_num_threads(threads)
            torch.set_deterministic_debug_mode(self.mode)
            for _ in range(count):
                for run in self.running:
                    next(run)


def networks(settings: Mapping[str, Any], split: Split) -> list[nn.Sequential]:
    """The networks of a pack before their first step."""
    shape, outputs = tuple(split.inputs.shape[1:]), split.targets.shape[1]
    models = [build(settings["network"], shape, outputs) for _ in settings["seeds"]]
    for model, seed in zip(models, settings["seeds"], strict=True):
        draw(model, settings["network"]["initialization"], seed)
    return [model.to(split.inputs.device, split.inputs.dtype) for model in models]


def changed(
    base: Settings, network: Settings, seeds: Sequence[int], data: Settings, **training: Any
) -> Settings:
    """A pack of another network, in its default mode, and of other seeds and data."""
    return {
        **base,
        "data": {**base["data"], **data},
        "network": {**base["network"], **network},
        "outputs": None,
        "training": {**base["training"], "mode": default_mode(network), **training},
        "seeds": list(seeds),
        "runs": [f"s{seed}" for seed in seeds],
    }


def default_mode(network: Settings) -> str:
    """The mode of a network in a grid that names none."""
    narrow = options_of(network).narrow
    return "batched" if narrow else str(literal("networks", network["name"], "MODE"))


def random_split(kind: Kind, device: str, samples: int = SAMPLES) -> Split:
    """Uniformly random inputs in [0, 1] and labels."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(samples, *kind.shape, generator=generator)
    labels = torch.randint(kind.outputs, (samples,), generator=generator)
    targets = nn.functional.one_hot(labels, kind.outputs).float()
    return Split(inputs.to(device), labels.to(device), targets.to(device))


def demo_packs() -> list[Settings]:
    """The packs of perceptrons at scale `demo`, from which others are made by `changed`."""
    grid = plan.Plan({"scale": "demo"}).experiment("mlp-grid")
    return [stage.settings for stage in map(grid.training, grid.packs) if stage]
