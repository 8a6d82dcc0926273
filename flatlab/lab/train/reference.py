"""The reference mode: one network after the other, by the framework's own means."""

import copy
from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.core.registry import imported
from flatlab.data._tensors import Split
from flatlab.lab.train.minibatch_transforms import transform, transforms_of
from flatlab.lab.train.minibatches import Chunk, each_step
from flatlab.lab.train.optimizers._update import tensors_of
from flatlab.lab.train.regularizers._rules import ascent_rules
from flatlab.losses._base import loss_of


class Loop:
    """One network after the other, by the framework's modules, autograd and optimizer.

    models: the networks of a pack.
    split: the training set.
    settings: those of the pack.

    What a network draws in a step, for example for drop path, comes from torch's generator. Each
    run has its own state of it, which its seed gives at first and then each step leaves behind.
    width: how many networks a forward pass computes at once.
    """

    width = 1

    def __init__(self, models: list[nn.Module], split: Split, settings: Mapping[str, Any]) -> None:
        self.models, self.split, self.training = models, split, settings["training"]
        self.rule = imported("train/optimizers", self.training["optimizer"])
        self.optimizers = [self.rule.reference([*m.parameters()], self.training) for m in models]
        self.loss = loss_of(self.training)
        self.transforms = transforms_of(settings, split)
        self.ascents = ascent_rules(self.training)
        # Where a step takes its gradients. A twin leaves statistics of batch norm as they are.
        self.perturbed = copy.deepcopy(models[0]) if self.ascents else models[0]
        self.sums_losses = "epoch_loss" in (self.training.get("stop") or {})
        self.losses = torch.zeros(len(models), dtype=torch.float64, device=split.device)
        self.active = self.moving = list(range(len(models)))
        self.random = torch.default_generator
        if split.device.type == "cuda":
            self.random = torch.cuda.default_generators[split.device.index or 0]
        seeded = (torch.Generator(split.device).manual_seed(seed) for seed in settings["seeds"])
        self.random_states = [generator.get_state() for generator in seeded]

    def load(self, chunk: Chunk) -> None:
        """Set what the next steps use."""
        self.chunk, self.moving = chunk, list(self.active)
        self.start = {run: self.read(run) for run in self.active}
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
        """Take one step of all runs that are not frozen."""
        step = next(self.steps)
        before = self.random.get_state()
        for run in self.moving:
            self.random.set_state(self.random_states[run])
            self._step(run, {name: tensor[run] for name, tensor in step.items()})
            self.random_states[run] = self.random.get_state()
        self.random.set_state(before)

    def _step(self, run: int, step: Mapping[str, Any]) -> None:
        model, optimizer = self.models[run], self.optimizers[run]
        optimizer.param_groups[0]["lr"] = step["rates"]
        loss = self._differentiate(model, step)
        if self.sums_losses:
            self.losses[run] += loss
        for rule in self.ascents:
            self._perturb(rule, model)
            self._differentiate(self.perturbed, step)
            for parameter, other in zip(
                model.parameters(), self.perturbed.parameters(), strict=True
            ):
                parameter.grad = other.grad
        optimizer.step()

    def _differentiate(self, model: nn.Module, step: Mapping[str, Any]) -> Tensor:
        """Set the gradients to those of the loss on the samples of a step; returns that loss."""
        model.zero_grad()
        losses = []
        drawn = {name: tensor[None] for name, tensor in step.items() if name != "rates"}
        for index in step["order"].split(self.training["batch_size"]):
            batch = self.split.inputs[index][None], self.split.targets[index][None]
            [inputs], [targets] = transform(self.transforms, *batch, drawn)
            loss = self.loss.reference(model(inputs), targets)
            losses.append(loss * self.loss.share(len(index), len(step["order"])))
            losses[-1].backward()
        return torch.stack(losses).detach().sum()

    @torch.no_grad()
    def _perturb(self, rule: ModuleType, model: nn.Module) -> None:
        """Set the parameters at which the step takes its gradients."""
        for copied, buffer in zip(self.perturbed.buffers(), model.buffers(), strict=True):
            copied.copy_(buffer)
        pairs = [*zip(self.perturbed.parameters(), model.parameters(), strict=True)]
        gradients = [parameter.grad[None] for _, parameter in pairs if parameter.grad is not None]
        factors = rule.uphill(gradients, self.training, 1)
        for perturbed, parameter in pairs:
            if parameter.grad is None:
                perturbed.copy_(parameter)
            else:
                torch.addcmul(parameter, parameter.grad, factors[0], out=perturbed)

    def freeze(self, run: int) -> None:
        """Let a run stand still: it no longer changes, whatever steps the others take."""
        self.active.remove(run)
        self.moving = [other for other in self.moving if other != run]

    @torch.no_grad()
    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs (runs, samples, outputs) in evaluation mode; inputs (runs or 1, samples, ...)."""
        sets = inputs.expand(len(self.models), *inputs.shape[1:])
        outputs = torch.stack([model.eval()(x) for model, x in zip(self.models, sets, strict=True)])
        for model in self.models:
            model.train()
        return outputs

    def _tensors(self, run: int) -> dict[str, Tensor]:
        tensors = tensors_of(self.models[run], self.optimizers[run], self.rule)
        losses = {"losses": self.losses[run]} if self.sums_losses else {}
        return {**tensors, **losses, "drawn": self.random_states[run]}

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

    def epoch_losses(self) -> Tensor:
        """The sum of the losses of each run's minibatches, (runs), of an epoch that ends here."""
        losses = self.losses.cpu().clone()
        self.losses.zero_()
        return losses

    def finite(self) -> list[bool]:
        """Whether all numbers of each run's model are finite."""
        states = (model.state_dict().values() for model in self.models)
        return [all(bool(t.isfinite().all()) for t in state) for state in states]
