"""The training of one pack: step by step, recorded on a schedule, resumable."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import nn

from flatlab.core.resume_state import Content, ResumeState
from flatlab.core.store import as_strings
from flatlab.data._tensors import EVALUATED, Split
from flatlab.lab.train.evaluation import evaluate
from flatlab.lab.train.minibatch_transforms import random_numbers, transforms_of
from flatlab.lab.train.minibatches import chunk_steps, minibatches, steps_per_epoch
from flatlab.lab.train.modes import MODES, Networks
from flatlab.lab.train.schedules import drawn_rates, learning_rates, steps_of
from flatlab.losses._base import loss_of


@dataclass(frozen=True)
class Trained:
    """The results of a training.

    weights: arrays (run, checkpoint, ...) by name, at the end, and their description.
    dense: the same at the steps of `checkpoints`; where `fitted` is asked for, a last checkpoint
        has those of each run at its own step `fitted`, None and NaN if there is none.
    curves: loss and accuracy (%) on the training set, (run, iteration).
    """

    weights: Content
    dense: Content
    curves: xr.Dataset


class PackTraining:
    """One pack: its networks, and what is recorded of them.

    models: one for each of `settings["runs"]`.
    split: the training set.
    settings: as for `train_packs`.
    resume_state: where states and checkpoints are saved, and read when the training resumes.
    """

    def __init__(
        self,
        models: list[nn.Module],
        split: Split,
        settings: Mapping[str, Any],
        resume_state: ResumeState,
    ) -> None:
        self.split, self.settings, self.resume_state = split, settings, resume_state
        self.training: Mapping[str, Any] = settings["training"]
        self.loss = loss_of(self.training)
        epochs = self.training["epochs"]
        self.per_epoch = steps_per_epoch(len(split), self.training)
        self.total: int = epochs * self.per_epoch if epochs else self.training["iterations"]
        self.networks: Networks = MODES[self.training["mode"]](models, split, settings)
        self.checkpoints = steps_of(settings["checkpoints"], self.total)
        curves = steps_of(settings["curves"], self.total)
        self.recorded_steps = sorted({*curves, *self.checkpoints, self.total})
        self.iteration, self.handled = 0, -1
        self.ended: dict[int, tuple[str, int]] = {}
        """The runs that take no more steps: why, and since which step."""
        self.fitted: dict[int, int] = {}
        """The first epoch's end at which the training error of a run was small enough."""
        self.curves: list[np.ndarray] = []  # at each of `shown`: (loss or accuracy, run)
        self.tested: list[np.ndarray] = []  # the same, where the rule to stop was tested
        self.resume()
        seeds = list(settings["seeds"])
        self.order = minibatches(seeds, len(split), self.training, start=self.iteration)
        self.random = random_numbers(
            transforms_of(settings, split), seeds, self.training["batch_size"], self.iteration
        )
        self.longest_chunk = chunk_steps(len(seeds), len(split), self.training, split.device.type)
        self._loaded: dict[str, np.ndarray] = {"order": np.empty((0, len(seeds), 0), np.int64)}
        self._upcoming: dict[str, np.ndarray] = {}  # the chunk after the one that is loaded
        self._start = self.iteration

    @property
    def active(self) -> list[int]:
        """The runs that still take steps."""
        return [run for run in range(len(self.settings["runs"])) if run not in self.ended]

    @property
    def _test_interval(self) -> int:
        """The steps between tests of the rule to stop."""
        return self.training["stop"]["every"] or self.per_epoch

    def run(self) -> Iterator[None]:
        """Train to the end. Yields about once a step; there it can be saved or abandoned."""
        stop = self.training["stop"]
        tests = range(self._test_interval, self.total, self._test_interval) if stop else ()
        epoch = self.per_epoch if "fitted" in self.settings else self.total
        epoch_ends = range(epoch, self.total, epoch)
        for event in sorted({0, self.total, *self.recorded_steps, *tests, *epoch_ends}):
            if event <= self.handled:
                continue
            while self.iteration < event and self.active:
                if not len(self._loaded["order"]):
                    self._load(self._upcoming or self._next_chunk(event))
                self.networks.step()
                self.iteration += 1
                last = self.iteration - self._start == len(self._loaded["order"])
                if last and self.iteration < event:  # draw it while a GPU computes
                    self._upcoming = self._next_chunk(event)
                yield
                if last:
                    self._find_diverged()
            yield from self._handle(event)

    def _next_chunk(self, event: int) -> dict[str, np.ndarray]:
        """The chunk of the next steps, at most to an event."""
        count = min(self.longest_chunk, event - self.iteration)
        steps, seeds = range(self.iteration, self.iteration + count), self.settings["seeds"]
        drawn = [*itertools.islice(self.random, count)]
        return {
            "order": np.stack([*itertools.islice(self.order, count)]),
            "rates": learning_rates(self.training, seeds, self.total, steps),
            **{name: np.stack([step[name] for step in drawn]) for name in drawn[0]},
        }

    def _handle(self, event: int) -> Iterator[None]:
        stop = self.training["stop"]
        tested = bool(stop and self.active and event and event % self._test_interval == 0)
        of_epoch = tested and "epoch_loss" in stop
        unfitted = self._unfitted(event)
        if event in self.recorded_steps or unfitted or (tested and not of_epoch):
            values = yield from evaluate(self.networks, self.loss, self.split)
        # From here until `handled` is set nothing may be saved: an event is handled as a whole.
        if event in self.recorded_steps:
            self.curves.append(values)
        if event in self.checkpoints:
            self.resume_state.save(f"checkpoint-{event}", self.weights(), {})
        for run in unfitted:
            if np.isfinite(values[0, run]) and 100 - values[1, run] <= self.settings["fitted"]:
                self.resume_state.save(f"fitted-{run}", self._arrays(run, "model."), {})
                self.fitted[run] = self._moved_until(run, event)
        if of_epoch:
            values = (self.networks.epoch_losses() / self.per_epoch).numpy()[None]
        if tested:
            self.tested.append(values)
            for run in self.active:
                if self._has_reached(stop, run):
                    self._end_run(run, event, "stopped")
        self.handled = event

    def _has_reached(self, stop: Mapping[str, Any], run: int) -> bool:
        if "epoch_loss" in stop:
            return bool(self.tested[-1][0, run] < stop["epoch_loss"])
        if stop["accuracy"] is not None:
            return bool(self.tested[-1][1, run] >= stop["accuracy"])
        last = [tested[0, run] for tested in self.tested[-stop["mean_of"] :]]
        return len(last) == stop["mean_of"] and bool(np.mean(last) < stop["loss"])

    def _unfitted(self, event: int) -> list[int]:
        """At the end of an epoch, the runs that have moved in it and had too large an error."""
        if "fitted" not in self.settings or (event % self.per_epoch and event < self.total):
            return []
        before = (event - 1) // self.per_epoch * self.per_epoch
        runs = range(len(self.settings["runs"]))
        moved = (run for run in runs if self._moved_until(run, event) > max(before, 0))
        return [run for run in moved if run not in self.fitted]

    def _moved_until(self, run: int, event: int) -> int:
        """The last step of a run, at an event."""
        return self.ended.get(run, ("", event))[1]

    def _load(self, chunk: dict[str, np.ndarray]) -> None:
        self._loaded, self._start = chunk, self.iteration
        if chunk is self._upcoming:
            self._upcoming = {}
        if len(chunk["order"]):
            self.networks.load({name: torch.from_numpy(array) for name, array in chunk.items()})

    def _find_diverged(self) -> None:
        """Find out which networks have diverged in this chunk, and at which step."""
        done = self.iteration - self._start
        if not done:
            return
        if diverged := self._diverged():
            # Repeat the chunk, at whose start everything was finite, and check every step.
            self.networks.rewind(diverged)
            for step in range(self._start + 1, self.iteration + 1):
                self.networks.step()
                for run in self._diverged():
                    self._end_run(run, step, "diverged")
        self._load({name: array[done:] for name, array in self._loaded.items()})

    def _diverged(self) -> list[int]:
        finite = self.networks.finite()
        return [run for run in self.active if not finite[run]]

    def _end_run(self, run: int, step: int, reason: str) -> None:
        self.ended[run] = reason, step
        self.networks.freeze(run)

    def losses(self) -> np.ndarray:
        """The loss of each run on its next minibatch, for the progress display."""
        order = self._loaded["order"]
        batch = order[0] if len(order) else np.zeros((1, 1), int)
        index = torch.from_numpy(batch)[:, : EVALUATED["cpu"]].to(self.split.device)
        outputs = self.networks.forward(self.split.inputs[index])
        losses = self.loss.values(outputs, self.split.targets[index])
        return self.loss.of_batch(losses).cpu().numpy()

    def _arrays(self, run: int, prefix: str = "") -> dict[str, np.ndarray]:
        """The state of one run: what has this prefix in its name, without it."""
        state = self.networks.read(run).items()
        return {n.removeprefix(prefix): t.cpu().numpy() for n, t in state if n.startswith(prefix)}

    def _states(self, prefix: str = "") -> dict[str, np.ndarray]:
        states = [self._arrays(run, prefix) for run in range(len(self.settings["runs"]))]
        return {name: np.stack([state[name] for state in states]) for name in states[0]}

    def weights(self) -> dict[str, np.ndarray]:
        """The models: arrays (run, ...) by name."""
        return self._states("model.")

    def _first_fits(self) -> dict[str, np.ndarray]:
        """The models when they fitted the training set first, (run, 1, ...); NaN if never."""
        loaded = {run: self.resume_state.load(f"fitted-{run}") for run in self.fitted}
        arrays = {
            name: np.full_like(a, np.nan if a.dtype.kind == "f" else 0)
            for name, a in self.weights().items()
        }
        for run, content in loaded.items():
            if content:
                for name, array in arrays.items():
                    array[run] = content[0][name]
        return {name: array[:, None] for name, array in arrays.items()}

    def save(self) -> None:
        """Save all that the training needs to resume."""
        self._find_diverged()
        values = {"curves": self.curves, "tested": self.tested}
        arrays = {name: np.stack(rows) for name, rows in values.items() if rows}
        ended = {str(run): list(reason) for run, reason in self.ended.items()}
        about = {"iteration": self.iteration, "handled": self.handled, "ended": ended}
        about["fitted"] = {str(run): step for run, step in self.fitted.items()}
        self.resume_state.save("state", {**self._states(), **arrays}, about)

    def resume(self) -> None:
        """Continue from the saved state, if there is one."""
        saved = self.resume_state.load("state")
        if saved is None:
            return
        arrays, about = dict(saved[0]), saved[1]
        self.iteration, self.handled = about["iteration"], about["handled"]
        self.fitted = {int(run): step for run, step in about["fitted"].items()}
        self.curves, self.tested = (list(arrays.pop(name, [])) for name in ("curves", "tested"))
        states = {name: torch.from_numpy(array) for name, array in arrays.items()}
        for run in range(len(self.settings["runs"])):
            self.networks.write(run, {name: state[run] for name, state in states.items()})
        for run, (reason, step) in about["ended"].items():
            self._end_run(int(run), step, reason)

    def results(self) -> Trained:
        """The results of a training that has ended."""
        runs, seeds = list(self.settings["runs"]), self.settings["seeds"]
        ends = [self.ended.get(run, ("finished", self.total)) for run in range(len(runs))]
        about = {
            "runs": runs,
            "steps": [step for _, step in ends],
            "ended": [reason for reason, _ in ends],
        }
        if (rates := drawn_rates(self.training, seeds)) is not None:
            about["lr"] = rates.tolist()
        final = {name: array[:, None] for name, array in self.weights().items()}
        saved = [self.resume_state.load(f"checkpoint-{step}") for step in self.checkpoints]
        dense = [{n: a[:, None] for n, a in arrays.items()} for arrays, _ in filter(None, saved)]
        about_dense = {**about, "iterations": self.checkpoints}
        if "fitted" in self.settings:
            dense.append(self._first_fits())
            about_dense["fitted"] = [self.fitted.get(run) for run in range(len(runs))]
        names = dense[0] if dense else {}
        joined = {name: np.concatenate([arrays[name] for arrays in dense], 1) for name in names}
        loss, accuracy = np.stack(self.curves, axis=1).transpose(0, 2, 1)
        curves = xr.Dataset(
            {
                "train_loss": (("run", "iteration"), loss, {"units": "1"}),
                "train_accuracy": (("run", "iteration"), accuracy, {"units": "%"}),
            },
            {"run": as_strings(runs), "iteration": self.recorded_steps},
        )
        weights = final, {**about, "iterations": [self.total]}
        return Trained(weights, (joined, about_dense), curves)
