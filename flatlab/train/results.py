"""The results of a training, as they are saved."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from flatlab.jobs import Content
from flatlab.store import as_strings
from flatlab.train.pack import PackTraining
from flatlab.train.schedules import drawn_rates


@dataclass(frozen=True)
class Trained:
    """The results of a training.

    weights: arrays (run, checkpoint, ...) by name, at the end, and their description.
    dense: the same at the steps of `checkpoints`.  curves: loss and accuracy on the training set.
    """

    weights: Content
    dense: Content
    curves: xr.Dataset


def results(training: PackTraining) -> Trained:
    """The results of a training that has ended."""
    runs = list(training.settings["runs"])
    ends = [training.standing.get(run, ("finished", training.total)) for run in range(len(runs))]
    about = {"runs": runs, "steps": [step for _, step in ends], "ended": [why for why, _ in ends]}
    if (rates := drawn_rates(training.training, training.settings["seeds"])) is not None:
        about["lr"] = rates.tolist()
    final = {name: array[:, None] for name, array in training.weights().items()}
    kept = [training.keeper.load(f"checkpoint-{step}") for step in training.checkpoints]
    dense = [arrays for arrays, _ in filter(None, kept)]
    names = dense[0] if dense else {}
    stacked = {name: np.stack([arrays[name] for arrays in dense], axis=1) for name in names}
    loss, accuracy = np.stack(training.curves, axis=1).transpose(0, 2, 1)
    dims = ("run", "iteration")
    variables = {
        "train_loss": (dims, loss, {"units": "1"}),
        "train_accuracy": (dims, accuracy, {"units": "%"}),
    }
    return Trained(
        (final, {**about, "iterations": [training.total]}),
        (stacked, {**about, "iterations": training.checkpoints}),
        xr.Dataset(variables, {"run": as_strings(runs), "iteration": training.shown}),
    )
