"""Training: many small networks at once, each from its own seed.

The unit is a pack: its members, their order, the mode and the precision are declared, never chosen
by what fits, because batched arithmetic rounds differently at different widths. On one type of
machine and with one thread a pack repeats bit for bit, whichever packs are trained beside it.
"""

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import nn

from flatlab.data import DataError
from flatlab.jobs import Content, Unfinished
from flatlab.jobs.progress import Progress
from flatlab.losses import loss_of
from flatlab.networks import seeded
from flatlab.plan.registry import imported
from flatlab.splits import Split, prepare
from flatlab.train.builder import NotStackable
from flatlab.train.conditions import Interrupted, TrainError, Watch, arithmetic, memory
from flatlab.train.initializations import draw
from flatlab.train.pack import PackTraining, Trained
from flatlab.train.start import start_from


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

    raw: a data file.  packs: the settings of each, with `data`, `network`, `training`, `outputs`,
    `checkpoints`, `curves`, `seeds`, `runs`; `fitted`, a training error (%) at which weights are
    kept too; and `start`, if it starts from trained networks, whose files `starts` has for each
    pack.  folders: where the state of each pack is saved every
    `save_every_s` seconds, and from where an interrupted training resumes, to the same bits.
    code: a fingerprint of the code; a state saved by other code is ignored.

    With folders, SIGTERM and SIGINT save the states and raise `Interrupted`. Raises `DataError` and
    `TrainError` if the settings cannot be satisfied.
    """
    data = _digest({str(n): a.values for n, a in raw.items() if str(n).startswith("train_")})
    shared = {"code": code, "data": data, "device": device, "torch": torch.__version__}
    watch = Watch(save_every_s if folders is not None else None)
    with tempfile.TemporaryDirectory() as lost, arithmetic(packs), memory(packs, device), watch:
        kept = folders or [Path(lost, str(number)) for number in range(len(packs))]
        keepers = []
        for pack, folder, start in zip(packs, kept, starts or [()] * len(packs), strict=True):
            weights = [_digest(arrays) for arrays, _ in start]
            keepers.append(Unfinished(folder, {**shared, "settings": pack, "start": weights}))
        return _trained(raw, starts, packs, keepers, device, watch)


def _trained(
    raw: xr.Dataset,
    starts: Sequence[Sequence[Content]],
    packs: Sequence[Mapping[str, Any]],
    keepers: Sequence[Unfinished],
    device: str,
    watch: Watch,
) -> list[Trained]:
    splits: dict[str, Split] = {}  # packs with the same data share them
    trainings = []
    for pack, keeper, start in zip(packs, keepers, starts or [()] * len(packs), strict=True):
        double = pack["training"]["precision"] == "float64"
        data = pack["data"], pack["outputs"], torch.float64 if double else torch.float32
        if repr(data) not in splits:
            splits[repr(data)] = prepare(raw, *data, device).train
        trainings.append(_training(splits[repr(data)], start, pack, keeper, watch))
    _run(trainings, device, watch)
    return [training.results() for training in trainings]


def _training(
    split: Split,
    start: Sequence[Content],
    settings: Mapping[str, Any],
    keeper: Unfinished,
    watch: Watch,
) -> PackTraining:
    training, network, seeds = settings["training"], settings["network"], settings["seeds"]
    if training["batch_size"] > len(split):
        size = f"training.batch_size is {training['batch_size']}"
        raise DataError(f"{size}, the training set has {len(split)} samples")
    if split.labels is None and training["stop"] and training["stop"]["accuracy"] is not None:
        raise TrainError("training.stop.accuracy: data without labels have none; stop at a loss")
    if split.labels is None and "fitted" in settings:
        raise TrainError("checkpoints.fitted: data without labels have no error; leave it out")
    if loss_of(training).signs and not bool((split.targets.abs() == 1).all()):
        raise TrainError(f"training.loss: {training['loss']} needs targets of +-1")
    shape, outputs = tuple(split.inputs.shape[1:]), split.targets.shape[1]
    try:
        models = [seeded(network, shape, outputs, seed) for seed in seeds]
    except (ValueError, DataError) as error:
        raise TrainError(f"network.name {network['name']}: {error}") from None
    for model, seed in zip(models, seeds, strict=True):
        draw(model, network["initialization"], seed)
    _fit(models, settings, keeper, watch)
    models = [model.to(split.device, split.inputs.dtype) for model in models]
    if start:
        start_from(start, models, settings["start"])
    try:
        return PackTraining(models, split, settings, keeper)
    except NotStackable as error:
        raise TrainError(f"{error}, or set training.mode to loop") from None


def _fit(
    models: list[nn.Module], settings: Mapping[str, Any], keeper: Unfinished, watch: Watch
) -> None:
    """Take the steps of the initialization, unless the training itself has begun already."""
    network = settings["network"]
    rule = imported("train/initializations", network["initialization"])
    steps = network["initialization_steps"]
    if not hasattr(rule, "Fit") or keeper.load("state"):
        return
    try:
        fits = [rule.Fit(model, steps) for model in models]
    except ValueError as error:
        raise TrainError(f"network.initialization: {error}") from None
    if saved := keeper.load("initial"):
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
            if watch.due():
                states = [fit.tensors() for fit in fits]
                arrays = {n: np.stack([s[n].numpy() for s in states]) for n in states[0]}
                keeper.save("initial", arrays, {})
                watch.saved(f"{done():,} of {total:,} initial")
    progress.close(done())


def _run(trainings: list[PackTraining], device: str, watch: Watch) -> None:
    total = sum(t.total * len(t.settings["runs"]) for t in trainings)
    groups = [[training] for training in trainings] if device == "cpu" else [trainings]
    current: list[PackTraining] = []

    def done() -> int:
        steps = [t.iteration if t.active else t.total for t in trainings]
        return sum(n * len(t.settings["runs"]) for n, t in zip(steps, trainings, strict=True))

    def note() -> str:
        losses = np.concatenate([training.losses() for training in current])
        good = losses[np.isfinite(losses)]
        diverged = sum(why == "diverged" for t in trainings for why, _ in t.standing.values())
        text = f"minibatch loss {good.min():.2g} to {good.max():.2g}" if good.size else "no loss"
        return f"{text}, {diverged} diverged" if diverged else text

    progress = Progress(total, "model-steps", note, start=done())
    for current in groups:
        left = [training.run() for training in current]
        while left:
            left = [steps for steps in left if next(steps, "ended") is None]
            progress.advance(done)
            if watch.due():
                for training in current:
                    training.save()
                watch.saved(", ".join(f"{t.iteration:,} of {t.total:,}" for t in current))
        if watch.every_s is not None and len(trainings) > 1:
            for training in current:
                training.save()  # the next pack may be interrupted
    progress.close(done())


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()
