"""One pack on its way: step by step, with records on a schedule, able to stop and go on."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn

from flatlab.losses import loss_of
from flatlab.splits import EVALUATED, Split
from flatlab.store import as_strings
from flatlab.train.minibatches import Order, chunk_steps, steps_per_epoch
from flatlab.train.modes import MODES, Networks
from flatlab.train.schedules import drawn_rates, learning_rates, steps_of

Weights = tuple[dict[str, np.ndarray], dict[str, Any]]


class Keeper(Protocol):
    """Keeps arrays with a description under a name: `flatlab.jobs.Unfinished`, or memory."""

    def save(self, name: str, arrays: dict[str, np.ndarray], about: Mapping[str, Any]) -> None: ...

    def load(self, name: str) -> Weights | None: ...


class Memory:
    """A keeper for a training that nobody interrupts."""

    def __init__(self) -> None:
        self.kept: dict[str, Weights] = {}

    def save(self, name: str, arrays: dict[str, np.ndarray], about: Mapping[str, Any]) -> None:
        self.kept[name] = arrays, dict(about)

    def load(self, name: str) -> Weights | None:
        return self.kept.get(name)


@dataclass(frozen=True)
class Trained:
    """What a training leaves.

    weights: arrays (run, checkpoint, ...) by name, of the end, and their description.
    dense: the same at the steps of `checkpoints`.  curves: loss and accuracy on the training set.
    """

    weights: Weights
    dense: Weights
    curves: xr.Dataset


@dataclass
class Standing:
    """A run that takes no more steps: why, and since which."""

    why: str
    step: int


class PackTraining:
    """The training of one pack.

    models: one for each of `settings["runs"]`.  settings: as for `train_packs`.
    keeper: where states are saved, and read from by `resume`.
    """

    def __init__(
        self,
        models: list[nn.Module],
        split: Split,
        settings: Mapping[str, Any],
        keeper: Keeper,
    ) -> None:
        self.split, self.settings, self.keeper = split, settings, keeper
        self.training: Mapping[str, Any] = settings["training"]
        self.loss = loss_of(self.training)
        samples = len(split)
        epochs = self.training["epochs"]
        per_epoch = steps_per_epoch(samples, self.training)
        self.total: int = epochs * per_epoch if epochs else self.training["iterations"]
        self.networks: Networks = MODES[self.training["mode"]](models, split, settings)
        self.checkpoints = steps_of(settings["checkpoints"], self.total)
        curves = steps_of(settings["curves"], self.total)
        self.shown = sorted({*curves, *self.checkpoints, self.total})
        self.iteration, self.handled = 0, -1
        self.standing: dict[int, Standing] = {}
        self.curves: list[np.ndarray] = []  # at each of `shown`: (loss or accuracy, run)
        self.tested: list[np.ndarray] = []  # the same, where the rule to stop was tried
        self.resume()
        seeds = list(settings["seeds"])
        self.order = Order(seeds, samples, self.training, start=self.iteration)
        self.most = chunk_steps(len(seeds), samples, self.training)
        self._loaded = np.empty((0, len(seeds), 0), np.int64), np.empty(0)
        self._start = self.iteration
        self._before: dict[int, dict[str, Tensor]] = {}

    @property
    def active(self) -> list[int]:
        """The runs that still take steps."""
        return [run for run in range(len(self.settings["runs"])) if run not in self.standing]

    def run(self) -> Iterator[None]:
        """Train to the end. Yields after each step or so; there it may be saved, or left."""
        for event in self._events():
            if event <= self.handled:
                continue
            while self.iteration < event and self.active:
                if not len(self._loaded[0]):
                    order = self.order.take(min(self.most, event - self.iteration))
                    self._load(order, self._rates(len(order)))
                self.networks.step()
                self.iteration += 1
                yield
                if self.iteration - self._start == len(self._loaded[0]):
                    self._settle()
            yield from self._handle(event)

    def _events(self) -> Iterator[int]:
        """The steps at which something is recorded or tried, in order."""
        stop = self.training["stop"]
        tries = range(stop["every"], self.total, stop["every"]) if stop else ()
        yield from sorted({0, self.total, *self.shown, *tries})

    def _handle(self, event: int) -> Iterator[None]:
        stop = self.training["stop"]
        tried = bool(stop and self.active and event and event % stop["every"] == 0)
        if event in self.shown or tried:
            values = yield from self._evaluate()
        # From here on nothing may be saved before `handled`: it all counts as done, or none of it.
        if event in self.shown:
            self.curves.append(values)
        if event in self.checkpoints:
            self.keeper.save(f"checkpoint-{event}", self._weights(), {})
        if tried:
            self.tested.append(values)
            for run in self.active:
                if self._reached(stop, run):
                    self._stand(run, event, "stopped")
        self.handled = event

    def _reached(self, stop: Mapping[str, Any], run: int) -> bool:
        if stop["accuracy"] is not None:
            return bool(self.tested[-1][1, run] >= stop["accuracy"])
        last = [tested[0, run] for tested in self.tested[-stop["mean_of"] :]]
        return len(last) == stop["mean_of"] and bool(np.mean(last) < stop["loss"])

    def _rates(self, count: int) -> np.ndarray:
        seeds = self.settings["seeds"]
        return learning_rates(self.training, seeds, self.total, self.iteration, count)

    def _load(self, order: np.ndarray, rates: np.ndarray) -> None:
        self._loaded, self._start = (order, rates), self.iteration
        if len(order):
            self._before = {run: self.networks.read(run) for run in self.active}
            self.networks.load(torch.from_numpy(order), torch.from_numpy(rates))

    def _settle(self) -> None:
        """See whether a network has diverged since the last time, and at which step."""
        order, rates = self._loaded
        done = self.iteration - self._start
        if not done:
            return
        if any(not finite for _, finite in self._watched()):
            # Once more from where all was finite, with a look at each step.
            for run, state in self._before.items():
                self.networks.write(run, state)
            self.networks.load(torch.from_numpy(order), torch.from_numpy(rates))
            for step in range(self._start + 1, self.iteration + 1):
                self.networks.step()
                for run, finite in self._watched():
                    if not finite:
                        self._stand(run, step, "diverged")
        self._load(order[done:], rates[done:])

    def _watched(self) -> list[tuple[int, bool]]:
        finite = self.networks.finite()
        return [(run, finite[run]) for run in self.active]

    def _stand(self, run: int, step: int, why: str) -> None:
        self.standing[run] = Standing(why, step)
        self.networks.leave_out(run)

    def _evaluate(self) -> Generator[None, None, np.ndarray]:
        """Loss and accuracy (%) on the whole training set: (2, run). Yields on the way.

        There is no accuracy without labels: NaN.
        """
        losses, right = [], []
        split, piece = self.split, EVALUATED
        for start in range(0, len(split), piece):
            part = slice(start, start + piece)
            outputs = self.networks.forward(split.inputs[part][None])
            losses.append(self.loss.values(outputs, split.targets[part]))
            if split.labels is not None:
                right.append(outputs.argmax(-1) == split.labels[part])
            yield
        loss = self.loss.of_batch(torch.cat(losses, 1))
        if split.labels is None:
            accuracy = torch.full_like(loss, torch.nan, dtype=torch.float64)
        else:
            accuracy = 100 * torch.cat(right, 1).double().mean(1)
        return np.stack([loss.cpu().numpy(), accuracy.cpu().numpy()])

    def losses(self) -> np.ndarray:
        """The loss of each run on samples of its own next minibatch, to show how it goes."""
        index = torch.from_numpy(
            self._loaded[0][0] if len(self._loaded[0]) else np.zeros((1, 1), int)
        )
        index = index[:, :EVALUATED].to(self.split.device)
        outputs = self.networks.forward(self.split.inputs[index])
        losses = self.loss.values(outputs, self.split.targets[index])
        return self.loss.of_batch(losses).cpu().numpy()

    def _weights(self) -> dict[str, np.ndarray]:
        states = [self.networks.read(run) for run in range(len(self.settings["runs"]))]
        names = [name for name in states[0] if name.startswith("model.")]
        return {
            name.removeprefix("model."): np.stack([state[name].cpu().numpy() for state in states])
            for name in names
        }

    def save(self) -> None:
        """Save all that `resume` needs."""
        self._settle()
        arrays = {
            f"{run}.{name}": tensor.cpu().numpy()
            for run in range(len(self.settings["runs"]))
            for name, tensor in self.networks.read(run).items()
        }
        for name in ("curves", "tested"):
            if rows := getattr(self, name):
                arrays[name] = np.stack(rows)
        standing = {str(run): [s.why, s.step] for run, s in self.standing.items()}
        about = {"iteration": self.iteration, "handled": self.handled, "standing": standing}
        self.keeper.save("state", arrays, about)

    def resume(self) -> None:
        """Go on from what was saved, if anything was."""
        saved = self.keeper.load("state")
        if saved is None:
            return
        arrays, about = saved
        self.iteration, self.handled = about["iteration"], about["handled"]
        for name in ("curves", "tested"):
            setattr(self, name, list(arrays.get(name, [])))
        for run in range(len(self.settings["runs"])):
            prefix = f"{run}."
            self.networks.write(
                run,
                {
                    name.removeprefix(prefix): torch.from_numpy(array)
                    for name, array in arrays.items()
                    if name.startswith(prefix)
                },
            )
        for run, (why, step) in about["standing"].items():
            self._stand(int(run), step, why)

    def trained(self) -> Trained:
        """What came of it."""
        runs = list(self.settings["runs"])
        standing = [self.standing.get(run) for run in range(len(runs))]
        about = {
            "runs": runs,
            "steps": [s.step if s else self.total for s in standing],
            "ended": [s.why if s else "finished" for s in standing],
        }
        if (rates := drawn_rates(self.training, self.settings["seeds"])) is not None:
            about["lr"] = rates.tolist()
        final = {name: array[:, None] for name, array in self._weights().items()}
        kept = [self.keeper.load(f"checkpoint-{step}") for step in self.checkpoints]
        dense = [arrays for arrays, _ in filter(None, kept)]
        names = dense[0] if dense else {}
        stacked = {name: np.stack([arrays[name] for arrays in dense], axis=1) for name in names}
        return Trained(
            (final, {**about, "iterations": [self.total]}),
            (stacked, {**about, "iterations": self.checkpoints}),
            self._curves(runs),
        )

    def _curves(self, runs: list[str]) -> xr.Dataset:
        values = np.stack(self.curves, axis=1).transpose(0, 2, 1)
        dims = ("run", "iteration")
        variables = {
            "train_loss": (dims, values[0], {"units": "1"}),
            "train_accuracy": (dims, values[1], {"units": "%"}),
        }
        return xr.Dataset(variables, {"run": as_strings(runs), "iteration": self.shown})
