"""The networks of a pack during training, in one of three modes.

batched: all of them as one stack, a few kernels for each layer; on a CPU convolutional networks
    in several (`widest`).
graphs: each of them as a stack of its own; on a GPU they run side by side on several streams.
loop: one after the other, by the framework's own modules, autograd and optimizer: the reference.
A mode is constructed from the models, the samples and the settings of a pack, and has the methods
of `Loop`, where `run` is the number of a network, from 0.
"""

import copy
import math
from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.losses import loss_of
from flatlab.networks import options_of
from flatlab.plan.registry import imported
from flatlab.splits import Split
from flatlab.train.changes import changed, changes_of
from flatlab.train.minibatches import Chunk, each_step
from flatlab.train.optimizers import tensors_of
from flatlab.train.regularizers import climbs_of
from flatlab.train.stacks import Group

MOST, IMAGES = 6, 192
"""The most convolutional networks in a stack on a CPU, and the most images in one of its steps."""


def widest(batch_size: int) -> int:
    """How many convolutional networks a stack has at most on a CPU.

    Where channels are few, kernels for several groups are faster; the images of many networks
    leave the caches.
    """
    return min(MOST, max(2, IMAGES // batch_size))


class Loop:
    """One network after the other, by the framework's own means.

    What a network draws in a step, for example for drop path, comes from torch's generator. Each
    run has its own state of it, which its seed gives at first and then each step leaves behind.
    width: how many networks a forward pass computes at once.
    """

    width = 1

    def __init__(self, models: list[nn.Module], split: Split, settings: Mapping[str, Any]) -> None:
        self.models, self.split, self.training = models, split, settings["training"]
        self.optimizer = imported("train/optimizers", self.training["optimizer"])
        self.loss = loss_of(self.training)
        self.changes = changes_of(settings, split)
        self.climbs = climbs_of(self.training)
        # Where a step takes its gradients. A twin leaves statistics of batch norm as they are.
        self.uphill = copy.deepcopy(models[0]) if self.climbs else models[0]
        self.watched = "epoch_loss" in (self.training.get("stop") or {})
        self.losses = torch.zeros(len(models), dtype=torch.float64, device=split.device)
        parameters = [list(model.parameters()) for model in models]
        self.updates = [self.optimizer.reference(each, self.training) for each in parameters]
        self.left = self.moving = list(range(len(models)))
        self.random = torch.default_generator
        if split.device.type == "cuda":
            self.random = torch.cuda.default_generators[split.device.index or 0]
        seeded = (torch.Generator(split.device).manual_seed(seed) for seed in settings["seeds"])
        self.drawn = [generator.get_state() for generator in seeded]

    def load(self, chunk: Chunk) -> None:
        """Set what the next steps use."""
        self.chunk, self.moving = chunk, list(self.left)
        self.start = {run: self.read(run) for run in self.left}
        self._begin()

    def rewind(self, runs: Collection[int]) -> None:
        """Go back to where the chunk begins, with some runs; until the next, only these move.

        With them go those that advance together with them.
        """
        self.moving = [run for run in self.moving if run in runs]
        for run in self.moving:
            self.write(run, self.start[run])
        self._begin()

    def _begin(self) -> None:
        self.steps = each_step(self.chunk, self.split.inputs, numbers=True)
        for model in self.models:
            model.train()

    def step(self) -> None:
        """Take one step of all runs that are not left out."""
        now = next(self.steps)
        before = self.random.get_state()
        for run in self.moving:
            self.random.set_state(self.drawn[run])
            self._step(run, {name: each[run] for name, each in now.items()})
            self.drawn[run] = self.random.get_state()
        self.random.set_state(before)

    def _step(self, run: int, now: Mapping[str, Any]) -> None:
        model, update = self.models[run], self.updates[run]
        update.param_groups[0]["lr"] = now["rates"]
        loss = self._differentiate(model, now)
        if self.watched:
            self.losses[run] += loss
        for rule in self.climbs:
            self._climb(rule, model)
            self._differentiate(self.uphill, now)
            for parameter, there in zip(model.parameters(), self.uphill.parameters(), strict=True):
                parameter.grad = there.grad
        update.step()

    @torch.no_grad()
    def _climb(self, rule: ModuleType, model: nn.Module) -> None:
        """Set the parameters at which the step takes its gradients."""
        for there, here in zip(self.uphill.buffers(), model.buffers(), strict=True):
            there.copy_(here)
        pairs = [*zip(self.uphill.parameters(), model.parameters(), strict=True)]
        gradients = [here.grad[None] for _, here in pairs if here.grad is not None]
        factors = rule.uphill(gradients, self.training, 1)
        for there, here in pairs:
            if here.grad is None:
                there.copy_(here)
            else:
                torch.addcmul(here, here.grad, factors[0], out=there)

    def _differentiate(self, model: nn.Module, now: Mapping[str, Any]) -> Tensor:
        """Set the gradients to those of the loss on the samples of a step; returns that loss."""
        model.zero_grad()
        losses = []
        drawn = {name: each[None] for name, each in now.items() if name != "rates"}
        for index in now["order"].split(self.training["batch_size"]):
            batch = self.split.inputs[index][None], self.split.targets[index][None]
            [inputs], [targets] = changed(self.changes, *batch, drawn)
            loss = self.loss.reference(model(inputs), targets)
            losses.append(loss * self.loss.share(len(index), len(now["order"])))
            losses[-1].backward()
        return torch.stack(losses).detach().sum()

    def leave_out(self, run: int) -> None:
        """Let a run stand still: it no longer changes, whatever steps the others take."""
        self.left.remove(run)
        self.moving = [each for each in self.moving if each != run]

    @torch.no_grad()
    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs (runs, samples, outputs) in evaluation mode; inputs (runs or 1, samples, ...)."""
        sets = inputs.expand(len(self.models), *inputs.shape[1:])
        outputs = torch.stack([model.eval()(x) for model, x in zip(self.models, sets, strict=True)])
        for model in self.models:
            model.train()
        return outputs

    def _tensors(self, run: int) -> dict[str, Tensor]:
        tensors = tensors_of(self.models[run], self.updates[run], self.optimizer)
        watched = {"losses": self.losses[run]} if self.watched else {}
        return {**tensors, **watched, "drawn": self.drawn[run]}

    def read(self, run: int) -> dict[str, Tensor]:
        """A copy of the whole state of one run: `model.<name>`, `update.<...>` of the optimizer.

        In mode `loop` also `drawn`, the state of the random generator. `losses`, if they are asked
        for: the sum of those of the minibatches since the epoch began.
        """
        return {name: tensor.detach().clone() for name, tensor in self._tensors(run).items()}

    @torch.no_grad()
    def write(self, run: int, state: Mapping[str, Tensor]) -> None:
        """Set one run to a state that `read` returned."""
        for name, tensor in self._tensors(run).items():
            tensor.copy_(state[name])

    def epoch(self) -> Tensor:
        """The sum of the losses of each run's minibatches, (runs), of an epoch that ends here."""
        losses = self.losses.cpu().clone()
        self.losses.zero_()
        return losses

    def finite(self) -> list[bool]:
        """Whether all numbers of each run's model are finite."""
        states = (model.state_dict().values() for model in self.models)
        return [all(bool(t.isfinite().all()) for t in state) for state in states]


class Stacks:
    """Networks in stacks: all of them in one or a few, or each in its own."""

    def __init__(self, models: list[nn.Module], split: Split, settings: Mapping[str, Any]) -> None:
        rules = options_of(settings["network"]).layers()
        stacks = 1 if settings["training"]["mode"] == "batched" else len(models)
        if "convolution" in rules and split.device.type == "cpu":
            at_most = widest(settings["training"]["batch_size"])
            stacks = max(stacks, math.ceil(len(models) / at_most))
        self.runs, self.width = len(models), math.ceil(len(models) / stacks)
        parts = [models[start : start + self.width] for start in range(0, self.runs, self.width)]
        given = split, settings["training"], rules, changes_of(settings, split)
        self.groups = [Group(part, *given) for part in parts]

    def load(self, chunk: Chunk) -> None:
        self.moving = self.groups
        for number, group in enumerate(self.groups):
            runs = slice(number * self.width, (number + 1) * self.width)
            group.load({name: tensor[:, runs] for name, tensor in chunk.items()})

    def rewind(self, runs: Collection[int]) -> None:
        numbers = sorted({run // self.width for run in runs})
        self.moving = [self.groups[number] for number in numbers]
        for group in self.moving:
            group.rewind()

    def step(self) -> None:
        for group in self.moving:
            group.step()

    def leave_out(self, run: int) -> None:
        self.groups[run // self.width].leave_out(run % self.width)

    def forward(self, inputs: Tensor) -> Tensor:
        sets = inputs.expand(self.runs, *inputs.shape[1:]).split(self.width)
        pairs = zip(self.groups, sets, strict=True)
        return torch.cat([group.whole().forward(given) for group, given in pairs])

    def read(self, run: int) -> dict[str, Tensor]:
        return self.groups[run // self.width].whole().read(run % self.width)

    def write(self, run: int, state: Mapping[str, Tensor]) -> None:
        self.groups[run // self.width].whole().write(run % self.width, state)

    def epoch(self) -> Tensor:
        return torch.cat([group.whole().epoch() for group in self.groups])

    def finite(self) -> list[bool]:
        return [good for group in self.groups for good in group.whole().finite()]


Networks = Loop | Stacks
MODES: dict[str, type[Networks]] = {"batched": Stacks, "graphs": Stacks, "loop": Loop}
