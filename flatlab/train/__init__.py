"""Training: many small networks at once, each from its own seed.

A pack is the unit: its members, their order, the mode and the precision are declared, never chosen
by what fits, because batched arithmetic rounds differently at different widths. On one type of
machine and with one thread a pack repeats bit for bit, whichever packs are trained beside it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import nn

from flatlab.data import DataError
from flatlab.jobs import Unfinished
from flatlab.jobs.progress import Progress
from flatlab.networks import seeded
from flatlab.splits import Split, prepare
from flatlab.train.builder import NotStackable
from flatlab.train.initializations import draw, fit_of
from flatlab.train.pack import Keeper, Memory, PackTraining, Trained

__all__ = ["Interrupted", "TrainError", "Trained", "train_packs"]

SAVE_EVERY_S = 60.0


class TrainError(RuntimeError):
    """A training that cannot be done as declared; the message names the key to change."""


class Interrupted(RuntimeError):
    """A training that was asked to stop, and has saved what it had."""


def train_packs(
    raw: xr.Dataset,
    packs: Sequence[Mapping[str, Any]],
    device: str = "cpu",
    *,
    folders: Sequence[str | Path] | None = None,
    code: str = "",
    save_every_s: float = SAVE_EVERY_S,
) -> list[Trained]:
    """Train some packs, all of them at once on a GPU, one after the other on a CPU.

    raw: a data file.  packs: for each `data`, `network`, `training`, `outputs`, `checkpoints`,
    `curves`, `seeds`, `runs`.  folders: where each pack's state is saved every `save_every_s`
    seconds, and looked for: a training that was interrupted goes on from there, to the same bits.
    code: a fingerprint of what computes; a state that was saved with other code counts as none.

    With folders SIGTERM and SIGINT save the states and raise `Interrupted`. Raises `DataError` and
    `TrainError` where the settings cannot be had.
    """
    keepers: Sequence[Keeper] = [Memory() for _ in packs]
    if folders is not None:
        shared = {"code": code, "data": _digest(raw), "device": device, "torch": torch.__version__}
        pairs = zip(folders, packs, strict=True)
        keepers = [Unfinished(folder, {**shared, "settings": pack}) for folder, pack in pairs]
    with _arithmetic(packs), _memory(packs), _signals(folders is not None) as asked:
        watch = Watch(asked, save_every_s if folders is not None else None)
        trainings = [
            _training(raw, settings, keeper, device, watch)
            for settings, keeper in zip(packs, keepers, strict=True)
        ]
        _run(trainings, device, watch)
        return [training.trained() for training in trainings]


class Watch:
    """Knows when a state is to be saved: now and then, and when the process is asked to stop.

    asked: signals that came.  every_s: None where nothing is saved.
    """

    def __init__(self, asked: list[int], every_s: float | None) -> None:
        self.asked, self.every_s = asked, every_s
        self.last = time.monotonic()

    def due(self) -> bool:
        late = self.every_s is not None and time.monotonic() - self.last > self.every_s
        return late or bool(self.asked)

    def saved(self, steps: str) -> None:
        """It was saved after so many steps. Raises `Interrupted` if that was asked for."""
        self.last = time.monotonic()
        if self.asked:
            name = signal.Signals(self.asked[0]).name
            raise Interrupted(f"stopped by {name} after {steps} steps; the next run goes on")


def _training(
    raw: xr.Dataset, settings: Mapping[str, Any], keeper: Keeper, device: str, watch: Watch
) -> PackTraining:
    training = settings["training"]
    dtype = torch.float64 if training["precision"] == "float64" else torch.float32
    split = prepare(raw, settings["data"], settings["outputs"], dtype, device).train
    _check(training, split)
    shape, outputs = tuple(split.inputs.shape[1:]), split.targets.shape[1]
    models: list[nn.Module] = []
    for seed in settings["seeds"]:
        try:
            model = seeded(settings["network"], shape, outputs, seed)
        except (ValueError, DataError) as error:
            raise TrainError(f"network.name {settings['network']['name']}: {error}") from None
        draw(model, settings["network"]["initialization"], seed)
        models.append(model)
    _fit(models, settings, keeper, watch)
    models = [model.to(device, dtype) for model in models]
    try:
        return PackTraining(models, split, settings, keeper)
    except NotStackable as error:
        raise TrainError(f"{error}, or set training.mode to loop") from None


def _fit(
    models: list[nn.Module], settings: Mapping[str, Any], keeper: Keeper, watch: Watch
) -> None:
    """Let the initialization take its own steps, unless the training has begun already."""
    try:
        network = settings["network"]
        steps = network["initialization_steps"]
        made = [fit_of(model, network["initialization"], steps) for model in models]
    except ValueError as error:
        raise TrainError(f"network.initialization: {error}") from None
    fits = [fit for fit in made if fit]
    if not fits or keeper.load("state"):
        return
    total = sum(fit.left for fit in fits)
    if saved := keeper.load("initial"):
        for number, fit in enumerate(fits):
            fit.go_on(
                {
                    name.removeprefix(f"{number}."): torch.from_numpy(array)
                    for name, array in saved[0].items()
                    if name.startswith(f"{number}.")
                }
            )

    def done() -> int:
        return total - sum(fit.left for fit in fits)

    progress = Progress(total, "steps", lambda: "fits for the initial weights", start=done())
    for fit in fits:
        while fit.left:
            fit.step()
            progress.advance(done)
            if watch.due():
                states = [fit.state().items() for fit in fits]
                arrays = {f"{n}.{name}": t.numpy() for n, s in enumerate(states) for name, t in s}
                keeper.save("initial", arrays, {})
                watch.saved(f"{done():,} of {total:,} initial")
    progress.close(done())


def _check(training: Mapping[str, Any], split: Split) -> None:
    if training["batch_size"] > len(split):
        raise DataError(
            f"training.batch_size is {training['batch_size']}, "
            f"the training set has {len(split)} samples"
        )
    if split.labels is None and training["stop"] and training["stop"]["accuracy"] is not None:
        raise TrainError("training.stop.accuracy: there is none without labels; stop at a loss")


def _run(trainings: list[PackTraining], device: str, watch: Watch) -> None:
    """Advance all trainings to their end, side by side where that is faster."""
    beside = device != "cpu"
    waiting = list(trainings)
    total = sum(t.total * len(t.settings["runs"]) for t in trainings)

    def done() -> int:
        steps = [t.iteration if t.active else t.total for t in trainings]
        return sum(n * len(t.settings["runs"]) for n, t in zip(steps, trainings, strict=True))

    current = waiting[:1]

    def note() -> str:
        losses = np.concatenate([training.losses() for training in current])
        good = losses[np.isfinite(losses)]
        diverged = sum(s.why == "diverged" for t in trainings for s in t.standing.values())
        text = f"minibatch loss {good.min():.2g} to {good.max():.2g}" if good.size else "no loss"
        return f"{text}, {diverged} diverged" if diverged else text

    progress = Progress(total, "model-steps", note, start=done())
    while waiting:
        current = waiting if beside else waiting[:1]
        left = [(training, training.run()) for training in current]
        while left:
            left = [pair for pair in left if next(pair[1], pair) is None]
            progress.advance(done)
            if watch.due():
                for training in current:
                    training.save()
                watch.saved(", ".join(f"{t.iteration:,} of {t.total:,}" for t in current))
        for training in current:
            if watch.every_s is not None and len(trainings) > 1:
                training.save()  # the next pack may be interrupted
        waiting = [training for training in waiting if training not in current]
    progress.close(done())


@contextlib.contextmanager
def _signals(wanted: bool) -> Iterator[list[int]]:
    """Collect requests to stop instead of dying of them, where that is wanted and possible."""
    asked: list[int] = []
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield asked
        return
    kinds = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(kind, lambda number, frame: asked.append(number)) for kind in kinds]
    try:
        yield asked
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)


@contextlib.contextmanager
def _arithmetic(packs: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """Algorithms that repeat bit for bit; TF32 products only where `precision` says so.

    Denormal numbers count as zero: the momentum of a dead unit decays into them and stays there,
    where a CPU is slow, and no weight is moved by less than 1e-38.
    """
    wanted = {settings["training"]["precision"] for settings in packs}
    if "tf32" in wanted and len(wanted) > 1:
        raise TrainError("packs with training.precision tf32 are trained apart from others")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    backends = torch.backends
    filling: Any = torch.utils.deterministic
    before = torch.get_deterministic_debug_mode(), filling.fill_uninitialized_memory
    benchmark = backends.cudnn.benchmark
    matmul, convolution = backends.cuda.matmul.allow_tf32, backends.cudnn.allow_tf32
    flushed = not torch.tensor(torch.finfo(torch.float32).tiny).div(2).item()
    torch.set_flush_denormal(True)
    torch.set_deterministic_debug_mode("error")
    filling.fill_uninitialized_memory = False  # it helps to find errors, and costs time
    backends.cudnn.benchmark = False
    backends.cuda.matmul.allow_tf32 = backends.cudnn.allow_tf32 = "tf32" in wanted
    try:
        yield
    finally:
        torch.set_flush_denormal(flushed)
        torch.set_deterministic_debug_mode(before[0])
        filling.fill_uninitialized_memory = before[1]
        backends.cudnn.benchmark = benchmark
        backends.cuda.matmul.allow_tf32, backends.cudnn.allow_tf32 = matmul, convolution


@contextlib.contextmanager
def _memory(packs: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # On a CPU torch says so by a RuntimeError like any other.
        full = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not full and not (type(error) is RuntimeError and "allocate memory" in str(error)):
            raise
        runs = sum(len(settings["runs"]) for settings in packs)
        raise TrainError(
            f"out of memory with {runs} networks at a time; smaller blocks of `seeds` in the grid, "
            "training.mode graphs or loop, or a smaller training.batch_size need less"
        ) from None


def _digest(raw: xr.Dataset) -> str:
    digest = hashlib.sha256()
    for name in sorted(str(name) for name in raw if str(name).startswith("train_")):
        digest.update(np.ascontiguousarray(raw[name].values).tobytes())
    return digest.hexdigest()
