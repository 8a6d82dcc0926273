"""Training: many small networks at once, each from its own seed.

A pack is the unit: its members, their order, the mode and the precision are declared, never chosen
by what fits, because batched arithmetic rounds differently at different widths. On one type of
machine and with one thread a pack repeats bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn

from flatlab.data import DataError
from flatlab.models import build, initialize
from flatlab.splits import Split, prepare
from flatlab.store import as_strings
from flatlab.train import batched, loop

CURVE_POINTS = 25
"""How many iterations, evenly spaced in their logarithm, the training curves show."""

MODES: dict[str, Callable[..., None]] = {"batched": batched.train, "loop": loop.train}


def train_pack(
    raw: xr.Dataset, settings: Mapping[str, Any], device: str = "cpu"
) -> tuple[tuple[dict[str, np.ndarray], dict[str, Any]], xr.Dataset]:
    """Train the runs of a pack.

    raw: a data file.  settings: `data`, `network`, `training`, `outputs`, `seeds`, `runs`.
    Returns the weights (arrays (run, checkpoint, ...) by parameter name, and their description) and
    the training curves (run, iteration): loss |f-y|^2/2 and accuracy in % on the training set.
    """
    training = settings["training"]
    dtype = getattr(torch, training["precision"])
    split = prepare(raw, settings["data"], settings["outputs"], dtype, device).train
    if training["batch_size"] > len(split.labels):
        raise DataError(
            f"training.batch_size is {training['batch_size']}, "
            f"the training set has {len(split.labels)} samples"
        )
    shape, outputs = tuple(split.inputs.shape[1:]), split.targets.shape[1]
    models = []
    for seed in settings["seeds"]:
        model = build(settings["network"], shape, outputs)
        initialize(model, settings["network"]["initialization"], seed)
        models.append(model.to(device, dtype))
    curves = Curves(split, settings["runs"], training["iterations"])
    MODES[training["mode"]](models, split, training, settings["seeds"], curves)
    states = [model.state_dict() for model in models]
    weights = {
        name: torch.stack([state[name] for state in states]).unsqueeze(1).cpu().numpy()
        for name in states[0]
    }
    about = {"runs": list(settings["runs"]), "iterations": [training["iterations"]]}
    return (weights, about), curves.dataset()


class Curves:
    """Loss and accuracy on the whole training set at a few iterations."""

    def __init__(self, split: Split, runs: list[str], iterations: int) -> None:
        self.split, self.runs = split, runs
        spaced = np.geomspace(1, iterations, CURVE_POINTS).round().astype(int)
        self.iterations = sorted({0, *spaced.tolist()})
        self.values: dict[str, list[Tensor]] = {"train_loss": [], "train_accuracy": []}

    def observe(self, forward: Callable[[Tensor], Tensor]) -> None:
        """Record one iteration. forward: inputs -> outputs (run, sample, output)."""
        with torch.no_grad():
            outputs = forward(self.split.inputs)
            error = (outputs - self.split.targets).square().sum(-1) / 2
            right = outputs.argmax(-1) == self.split.labels
            self.values["train_loss"].append(error.mean(-1))
            self.values["train_accuracy"].append(100 * right.double().mean(-1))

    def dataset(self) -> xr.Dataset:
        units = {"train_loss": "1", "train_accuracy": "%"}
        variables = {
            name: (("run", "iteration"), torch.stack(rows, 1).cpu().numpy(), {"units": units[name]})
            for name, rows in self.values.items()
        }
        coordinates = {"run": as_strings(self.runs), "iteration": self.iterations}
        return xr.Dataset(variables, coords=coordinates)


def parameters_at(
    weights: Mapping[str, np.ndarray], run: int, checkpoint: int, model: nn.Module
) -> None:
    """Load one network of a weights file into a model."""
    state = {name: torch.from_numpy(array[run, checkpoint]) for name, array in weights.items()}
    model.load_state_dict(state)
