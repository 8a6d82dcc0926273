"""The training of packs, from data and settings to weights and curves."""

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import nn

from flatlab.core.progress import Progress
from flatlab.core.registry import imported
from flatlab.core.resume_state import Content, ResumeState
from flatlab.data._dataset import DataError
from flatlab.data._tensors import Split, prepare
from flatlab.lab.train.checkpoint_timer import CheckpointTimer
from flatlab.lab.train.determinism import deterministic_arithmetic
from flatlab.lab.train.errors import TrainError, explained_memory_errors
from flatlab.lab.train.fine_tuning import copy_trained_weights
from flatlab.lab.train.initializations._draw import draw
from flatlab.lab.train.pack import PackTraining, Trained
from flatlab.lab.train.stacking import NotStackable
from flatlab.losses._base import loss_of
from flatlab.networks._build import seeded


def train_packs(
    raw: xr.Dataset,
    packs: Sequence[Mapping[str, Any]],
    device: str = "cpu",
    *,
    starts: Sequence[Sequence[Content]] = (),
    folders: Sequence[str | Path] | None = None,
    code: str = "",
    save_every_s: float = 60.0,
) -> list[Trained]:
    """Train some packs: all of them at once on a GPU, one after the other on a CPU.

    raw: a data file.
    packs: the settings of each, with `data`, `network`, `training`, `outputs`, `checkpoints`,
        `curves`, `seeds`, `runs`; `fitted`, a training error (%) at which weights are kept too; and
        `start`, if it starts from trained networks.
    device: `cpu` or `cuda`.
    starts: for each pack the files of the trained networks that it starts from.
    folders: where the state of each pack is saved, and from where an interrupted training resumes,
        to the same bits.
    code: a fingerprint of the code; a state saved by other code is ignored.
    save_every_s: seconds between saved states.

    With folders, SIGTERM and SIGINT save the states and raise `Interrupted`. Raises `DataError` and
    `TrainError` if the settings cannot be satisfied.
    """
    data = _digest({str(n): a.values for n, a in raw.items() if str(n).startswith("train_")})
    shared = {"code": code, "data": data, "device": device, "torch": torch.__version__}
    timer = CheckpointTimer(save_every_s if folders is not None else None)
    starts = starts or [()] * len(packs)
    with (
        tempfile.TemporaryDirectory() as temporary,
        deterministic_arithmetic(packs),
        explained_memory_errors(packs, device),
        timer,
    ):
        folders = folders or [Path(temporary, str(number)) for number in range(len(packs))]
        resume_states = []
        for pack, folder, start in zip(packs, folders, starts, strict=True):
            weights = [_digest(arrays) for arrays, _ in start]
            identity = {**shared, "settings": pack, "start": weights}
            resume_states.append(ResumeState(folder, identity))
        splits: dict[str, Split] = {}  # packs with the same data share them
        trainings = []
        for pack, resume_state, start in zip(packs, resume_states, starts, strict=True):
            double = pack["training"]["precision"] == "float64"
            data_settings = (
                pack["data"],
                pack["outputs"],
                torch.float64 if double else torch.float32,
            )
            key = repr(data_settings)
            if key not in splits:
                splits[key] = prepare(raw, *data_settings, device).train
            trainings.append(_pack_training(splits[key], start, pack, resume_state, timer))
        _train(trainings, device, timer)
        results = [training.results() for training in trainings]
        del trainings, splits  # what is not in use any more is given back to a GPU
        return results


def _pack_training(
    split: Split,
    start: Sequence[Content],
    settings: Mapping[str, Any],
    resume_state: ResumeState,
    timer: CheckpointTimer,
) -> PackTraining:
    """A pack before its next step, its networks built and their initial weights drawn."""
    network, seeds = settings["network"], settings["seeds"]
    _check_data(split, settings)
    shape, outputs = tuple(split.inputs.shape[1:]), split.targets.shape[1]
    try:
        models = [seeded(network, shape, outputs, seed) for seed in seeds]
    except (ValueError, DataError) as error:
        raise TrainError(f"network.name {network['name']}: {error}") from None
    for model, seed in zip(models, seeds, strict=True):
        draw(model, network["initialization"], seed)
    _fit_initial_weights(models, settings, resume_state, timer)
    models = [model.to(split.device, split.inputs.dtype) for model in models]
    if start:
        copy_trained_weights(start, models, settings["start"])
    try:
        return PackTraining(models, split, settings, resume_state)
    except NotStackable as error:
        raise TrainError(f"{error}, or set training.mode to loop") from None


def _check_data(split: Split, settings: Mapping[str, Any]) -> None:
    """Raise `DataError` or `TrainError` where a training set does not fit the settings."""
    training = settings["training"]
    if training["batch_size"] > len(split):
        size = f"training.batch_size is {training['batch_size']}"
        raise DataError(f"{size}, the training set has {len(split)} samples")
    if split.labels is None and training["stop"] and training["stop"]["accuracy"] is not None:
        raise TrainError("training.stop.accuracy: data without labels have none; stop at a loss")
    if split.labels is None and "fitted" in settings:
        raise TrainError("checkpoints.fitted: data without labels have no error; leave it out")
    if loss_of(training).signs and not bool((split.targets.abs() == 1).all()):
        raise TrainError(f"training.loss: {training['loss']} needs targets of +-1")


def _fit_initial_weights(
    models: list[nn.Module],
    settings: Mapping[str, Any],
    resume_state: ResumeState,
    timer: CheckpointTimer,
) -> None:
    """Take the steps of the initialization, unless the training itself has begun already."""
    network = settings["network"]
    rule = imported("train/initializations", network["initialization"])
    steps = network["initialization_steps"]
    if not hasattr(rule, "Fit") or resume_state.load("state"):
        return
    try:
        fits = [rule.Fit(model, steps) for model in models]
    except ValueError as error:
        raise TrainError(f"network.initialization: {error}") from None
    if saved := resume_state.load("initial"):
        with torch.no_grad():
            for number, fit in enumerate(fits):
                for name, tensor in fit.tensors().items():
                    tensor.copy_(torch.from_numpy(saved[0][name])[number])
    total = steps * len(fits)

    def done() -> int:
        return total - sum(int(fit.left) for fit in fits)

    progress = Progress(total, "steps", lambda: "fits for the initial weights", start=done())
    for fit in fits:
        while fit.left:
            fit.step()
            progress.advance(done)
            if timer.due():
                states = [fit.tensors() for fit in fits]
                arrays = {n: np.stack([s[n].numpy() for s in states]) for n in states[0]}
                resume_state.save("initial", arrays, {})
                timer.saved(f"{done():,} of {total:,} initial")
    progress.close(done())


def _train(trainings: list[PackTraining], device: str, timer: CheckpointTimer) -> None:
    """Train packs to their ends, and save their states meanwhile."""
    total = sum(t.total * len(t.settings["runs"]) for t in trainings)
    groups = [[training] for training in trainings] if device == "cpu" else [trainings]
    current: list[PackTraining] = []

    def done() -> int:
        steps = [t.iteration if t.active else t.total for t in trainings]
        return sum(n * len(t.settings["runs"]) for n, t in zip(steps, trainings, strict=True))

    def note() -> str:
        losses = np.concatenate([training.losses() for training in current])
        finite = losses[np.isfinite(losses)]
        diverged = sum(reason == "diverged" for t in trainings for reason, _ in t.ended.values())
        text = "no loss"
        if finite.size:
            text = f"minibatch loss {finite.min():.2g} to {finite.max():.2g}"
        return f"{text}, {diverged} diverged" if diverged else text

    progress = Progress(total, "model-steps", note, start=done())
    for current in groups:
        running = [training.run() for training in current]
        while running:
            running = [steps for steps in running if next(steps, "ended") is None]
            progress.advance(done)
            if timer.due():
                for training in current:
                    training.save()
                timer.saved(", ".join(f"{t.iteration:,} of {t.total:,}" for t in current))
        if timer.every_s is not None and len(trainings) > 1:
            for training in current:
                training.save()  # the next pack may be interrupted
    progress.close(done())


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()
