"""The networks of a pack under training, in one of three modes.

batched: all of them as one stack, a few kernels for each layer.
graphs: each of them a stack of its own; on a GPU they run side by side on several streams.
loop: one after the other, by the framework's own modules, autograd and optimizer: the reference.
A mode is made of the models, the samples and the settings of a pack.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from flatlab.losses import loss_of
from flatlab.networks import options_of
from flatlab.splits import Split
from flatlab.train.optimizers import optimizer_of
from flatlab.train.stacks import Group


class Networks(Protocol):
    """Several networks that are trained step by step; `run` counts them from 0."""

    def load(self, order: Tensor, rates: Tensor) -> None:
        """What the next steps use: order (steps, runs, batch), sample indices; rates (steps), or
        (steps, runs) where each run has its own.
        """

    def step(self) -> None:
        """One step of all runs that are not left out."""

    def leave_out(self, run: int) -> None:
        """From now on a run stands still: it stays as it is, whatever steps the others take."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs (runs, samples, outputs) in evaluation mode; inputs (runs or 1, samples, ...)."""

    def read(self, run: int) -> dict[str, Tensor]:
        """A copy of all that one run is.

        `model.<name>`, its state dictionary, and `update.<...>` and `drawn`, what else its next
        steps depend on: the state of the optimizer, and that of the generator in the mode `loop`.
        """

    def write(self, run: int, state: Mapping[str, Tensor]) -> None:
        """Make one run what `read` returned."""

    def finite(self) -> list[bool]:
        """Whether all numbers of a run's model are finite."""


class Loop:
    """One network after the other, by the framework's own means.

    What a network draws in a step, as of drop path, comes from torch's generator, which each run
    finds in a state of its own: the one that its seed gives, and then as its last step left it.
    """

    def __init__(self, models: list[nn.Module], split: Split, settings: Mapping[str, Any]) -> None:
        self.models, self.split, self.training = models, split, settings["training"]
        self.optimizer, self.loss = optimizer_of(self.training), loss_of(self.training)
        parameters = [list(model.parameters()) for model in models]
        self.updates = [self.optimizer.reference(each, self.training) for each in parameters]
        self.left = list(range(len(models)))
        self.random = generator_of(split.device)
        seeded = (torch.Generator(split.device).manual_seed(seed) for seed in settings["seeds"])
        self.drawn = [generator.get_state() for generator in seeded]

    def load(self, order: Tensor, rates: Tensor) -> None:
        of_runs = rates.reshape(len(rates), -1).expand(-1, len(self.models))
        self.steps = zip(order.to(self.split.device), of_runs.tolist(), strict=True)
        for model in self.models:
            model.train()

    def step(self) -> None:
        order, rates = next(self.steps)
        before = self.random.get_state()
        for run in self.left:
            self.random.set_state(self.drawn[run])
            self._step(run, order[run], rates[run])
            self.drawn[run] = self.random.get_state()
        self.random.set_state(before)

    def _step(self, run: int, samples: Tensor, rate: float) -> None:
        model, update = self.models[run], self.updates[run]
        update.param_groups[0]["lr"] = rate
        update.zero_grad()
        for index in samples.split(self.training["batch_size"]):
            outputs = model(self.split.inputs[index])
            loss = self.loss.reference(outputs, self.split.targets[index])
            (loss * self.loss.share(len(index), len(samples))).backward()
        update.step()

    def leave_out(self, run: int) -> None:
        self.left.remove(run)

    def forward(self, inputs: Tensor) -> Tensor:
        training = [model.training for model in self.models]
        try:
            with torch.no_grad():
                sets = inputs.expand(len(self.models), *inputs.shape[1:])
                pairs = zip(self.models, sets, strict=True)
                return torch.stack([model.eval()(given) for model, given in pairs])
        finally:
            for model, was in zip(self.models, training, strict=True):
                model.train(was)

    def _tensors(self, run: int) -> dict[str, Tensor]:
        model, update = self.models[run], self.updates[run]
        tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
        for number, parameter in enumerate(model.parameters()):
            for part, tensor in enumerate(self.optimizer.state_of(update, parameter)):
                tensors[f"update.{number}.{part}"] = tensor
        return {**tensors, "drawn": self.drawn[run]}

    def read(self, run: int) -> dict[str, Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self._tensors(run).items()}

    def write(self, run: int, state: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in self._tensors(run).items():
                tensor.copy_(state[name])

    def finite(self) -> list[bool]:
        states = (model.state_dict().values() for model in self.models)
        return [all(bool(t.isfinite().all()) for t in state) for state in states]


class Stacks:
    """Networks in stacks: one of all of them, or one of each."""

    def __init__(
        self,
        models: list[nn.Module],
        split: Split,
        settings: Mapping[str, Any],
        together: bool,
    ) -> None:
        parts = [models] if together else [[model] for model in models]
        rules = options_of(settings["network"]).layers()
        self.groups = [Group(part, split, settings["training"], rules) for part in parts]
        width = len(parts[0])
        self.place = [divmod(run, width) for run in range(len(models))]

    def load(self, order: Tensor, rates: Tensor) -> None:
        width = order.shape[1] // len(self.groups)
        many = [rates] * len(self.groups) if rates.ndim == 1 else rates.split(width, 1)
        for group, *of_group in zip(self.groups, order.split(width, 1), many, strict=True):
            group.load(*of_group)

    def step(self) -> None:
        for group in self.groups:
            group.step()

    def leave_out(self, run: int) -> None:
        group, number = self.place[run]
        self.groups[group].leave_out(number)

    def forward(self, inputs: Tensor) -> Tensor:
        sets = inputs.split(len(self.place) // len(self.groups)) if len(inputs) > 1 else [inputs]
        given = sets if len(sets) > 1 else itertools.repeat(sets[0], len(self.groups))
        return torch.cat(
            [group.whole().forward(x) for group, x in zip(self.groups, given, strict=True)]
        )

    def read(self, run: int) -> dict[str, Tensor]:
        group, number = self.place[run]
        return self.groups[group].whole().read(number)

    def write(self, run: int, state: Mapping[str, Tensor]) -> None:
        group, number = self.place[run]
        self.groups[group].whole().write(number, state)

    def finite(self) -> list[bool]:
        return [good for group in self.groups for good in group.whole().finite()]


def generator_of(device: torch.device) -> torch.Generator:
    """The generator that layers draw from on a device."""
    if device.type == "cpu":
        return torch.default_generator
    torch.cuda.init()
    return torch.cuda.default_generators[device.index or 0]


MODES: dict[str, Any] = {
    "batched": functools.partial(Stacks, together=True),
    "graphs": functools.partial(Stacks, together=False),
    "loop": Loop,
}
