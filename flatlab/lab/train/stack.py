"""Networks of one architecture that advance together: one kernel serves the same layer of all."""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.core.registry import imported
from flatlab.data._tensors import Split
from flatlab.lab.train.cuda_graphs import RecordedSteps, recordable
from flatlab.lab.train.minibatch_transforms import Transforms, transform
from flatlab.lab.train.minibatches import Chunk, each_step
from flatlab.lab.train.regularizers._rules import ascent_rules
from flatlab.lab.train.stacked_layers import Layer
from flatlab.lab.train.stacking import stack_models
from flatlab.losses._base import loss_of


class Stack:
    """Networks of one architecture that advance together, with a step that can be recorded.

    models: the networks, whose weights are copied.
    split: the training set.
    training: the section `training` of their pack.
    rules: the files of `flatlab.lab.train.layers` that stack them, by key.
    transforms: of their minibatches.
    """

    def __init__(
        self,
        models: list[nn.Module],
        split: Split,
        training: Mapping[str, Any],
        rules: Sequence[str],
        transforms: Transforms,
    ) -> None:
        self.split, self.training, self.runs = split, training, len(models)
        self.transforms = transforms
        self.loss = loss_of(training)
        self.ascents = ascent_rules(training)
        optimizer = imported("train/optimizers", training["optimizer"])
        recorded = recordable(split.device)
        sums = self.ascents or training["minibatches"] == "full"  # of whole gradients
        products = (
            not sums and hasattr(optimizer, "takes_products") and optimizer.takes_products(training)
        )
        self.layers, self.tensors = stack_models(models, rules, products)
        sums_losses = "epoch_loss" in (training.get("stop") or {})
        # The sum of the losses of each run's minibatches since the epoch began.
        self.losses = torch.zeros(self.runs, dtype=torch.float64, device=split.device)
        self.state = {"losses": self.losses} if sums_losses else {}
        # Where a step takes its gradients. A twin leaves statistics of batch norm as they are.
        self.perturbed = stack_models(models, rules)[0] if self.ascents else self.layers
        self.update = optimizer.Stacked(self.layers.parameters, training, self.runs)
        self.recorded = RecordedSteps(split, self.runs, training) if recorded else None

    def __len__(self) -> int:
        return self.runs

    def load(self, chunk: Chunk) -> None:
        """Set what the next steps use."""
        one_rate = not isinstance(self.training["lr"], Mapping)
        chunk = {**chunk, "rates": chunk["rates"][:, 0] if one_rate else chunk["rates"]}
        if self.recorded:
            self.recorded.load(chunk)
        else:
            self.steps = each_step(chunk, self.split.inputs, one_rate)

    def step(self) -> None:
        """Take one step, or ask for it where steps are recorded."""
        if self.recorded:
            self.recorded.step(self)
        else:
            self.advance(next(self.steps))

    @torch.no_grad()
    def advance(self, step: Mapping[str, Tensor]) -> None:
        """One step.  step: what it uses of a chunk, (runs, ...)."""
        for rule in self.ascents:
            self._perturb(rule, self._gradients(step, self.layers))
        self.update.step(self._gradients(step, self.perturbed), step["rates"])

    def _perturb(self, rule: ModuleType, gradients: list[Tensor]) -> None:
        """Set the parameters at which the step takes its gradients."""
        factors = rule.uphill(gradients, self.training, self.runs)
        tensors = zip(self.perturbed.parameters, self.layers.parameters, gradients, strict=True)
        for triple in tensors:
            perturbed, parameter, gradient = (t.unflatten(0, (self.runs, -1)) for t in triple)
            factor = factors.view(-1, *[1] * (parameter.ndim - 1))
            torch.addcmul(parameter, gradient, factor, out=perturbed)

    def _gradients(self, step: Mapping[str, Tensor], layers: Layer) -> list[Tensor]:
        """Gradients of each run's loss on the samples of a step, in parameter order."""
        order, size = step["order"], self.training["batch_size"]
        parts = order.split(size, 1)
        gradients = self._part_gradients(parts[0], layers, step)
        if len(parts) > 1:
            shares = [self.loss.share(part.shape[1], order.shape[1]) for part in parts]
            torch._foreach_mul_(gradients, shares[0])
            for part, share in zip(parts[1:], shares[1:], strict=True):
                part_gradients = self._part_gradients(part, layers, step)
                torch._foreach_add_(gradients, part_gradients, alpha=share)
        return gradients

    def _part_gradients(
        self, index: Tensor, layers: Layer, step: Mapping[str, Tensor]
    ) -> list[Tensor]:
        """Gradients of each run's loss on some samples (runs, batch), in parameter order."""
        samples = index.shape[1]
        if self.training["minibatches"] == "full":
            index = index[:1]  # all runs see the same samples: they are gathered once
        rows = index.flatten()  # `index_select` takes half the time of `[]`
        inputs, targets = (
            tensor.index_select(0, rows)
            .unflatten(0, index.shape)
            .expand(self.runs, *[-1] * tensor.ndim)
            for tensor in (self.split.inputs, self.split.targets)
        )
        inputs, targets = transform(self.transforms, inputs, targets, step)
        outputs, backward = layers.forward(inputs, True)
        if self.state and layers is self.layers:
            losses = self.loss.of_batch(self.loss.values(outputs, targets)).double()
            self.losses.add_(losses, alpha=self.loss.share(samples, step["order"].shape[1]))
        return backward(self.loss.gradient(outputs, targets), False)[1]

    @torch.no_grad()
    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs (runs, samples, outputs) in evaluation mode; inputs (runs or 1, samples, ...)."""
        self._wait()
        return self.layers.forward(inputs.expand(self.runs, *inputs.shape[1:]), False)[0]

    def read(self, number: int) -> dict[str, Tensor]:
        """A copy of the whole state of one run."""
        return {name: t[number].contiguous().clone() for name, t in self.views().items()}

    def write(self, number: int, state: Mapping[str, Tensor]) -> None:
        """Set one run to a state that `read` returned."""
        for name, tensor in self.views().items():
            tensor[number].copy_(state[name])

    def copy(self, into: list[Tensor]) -> list[Tensor]:
        """A copy of the whole state, written into an earlier one, if there is one."""
        state = [*self.views().values()]
        if not into:
            return [tensor.clone() for tensor in state]
        torch._foreach_copy_(into, state)
        return into

    def views(self) -> dict[str, Tensor]:
        """The whole state of the runs, (runs, ...) each; the stack computes with these tensors."""
        self._wait()
        views = {f"model.{name}": tensor for name, tensor in self.tensors.items()} | self.state
        for number, tensor in enumerate(self.update.state):
            flat = tensor.ndim == 4 or len(tensor) != self.runs  # a layer of images
            views[f"update.{number}"] = tensor.unflatten(0, (self.runs, -1)) if flat else tensor
        return views

    def epoch_losses(self) -> Tensor:
        """The sum of the losses of each run's minibatches, (runs), of an epoch that ends here."""
        self._wait()
        losses = self.losses.cpu().clone()
        self.losses.zero_()
        return losses

    def finite(self) -> list[bool]:
        """Whether all numbers of each run are finite."""
        self._wait()
        tensors = [tensor for tensor in self.tensors.values() if tensor.is_floating_point()]
        zeros = torch._foreach_mul(tensors, 0.0)  # NaN where a number is not finite
        sums = torch.stack([zero.reshape(self.runs, -1).sum(1) for zero in zeros])
        return sums.isfinite().all(0).tolist()

    def _wait(self) -> None:
        if self.recorded:
            self.recorded.settle()
