"""All networks of a pack as one batch of matrix products.

The weights of a layer are stacked over the runs, (runs, outputs, inputs), and one product serves
them all. The gradients are written out layer by layer: for networks this small autograd takes
longer than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from tqdm import tqdm

from flatlab.data import DataError
from flatlab.splits import Split
from flatlab.train.loop import Observer
from flatlab.train.minibatches import steps
from flatlab.train.objective import GradientDescent, loss_gradient

aten = torch.ops.aten  # the kernels that autograd itself calls


def train(
    models: list[nn.Sequential],
    split: Split,
    training: Mapping[str, Any],
    seeds: list[int],
    curves: Observer,
) -> None:
    """Train the models in place, all of them in each step. Raises on layers it cannot stack."""
    states = [dict(model.named_parameters()) for model in models]
    stacked = {name: torch.stack([state[name].detach() for state in states]) for name in states[0]}
    layers = stacked_layers(models[0], stacked)
    update = GradientDescent([p for layer in layers for p in layer.parameters], training)

    def forward(inputs: Tensor) -> Tensor:
        x = inputs.expand(len(models), *inputs.shape)
        for layer in layers:
            x = layer.forward(x)
        return x

    batches = steps(seeds, len(split.labels), training, split.labels.device)
    with torch.no_grad():
        for iteration, index in enumerate(
            tqdm(batches, total=training["iterations"], mininterval=5)
        ):
            if iteration in curves.iterations:
                curves.observe(forward)
            inputs, targets = split.inputs[index], split.targets[index]
            update.step(gradients(layers, inputs, targets, training["loss"]))
    curves.observe(forward)
    for number, model in enumerate(models):
        model.load_state_dict({name: tensor[number] for name, tensor in stacked.items()})


def gradients(
    layers: list[StackedLayer], inputs: Tensor, targets: Tensor, loss: str
) -> tuple[Tensor, ...]:
    """The gradients of each run's loss with respect to its parameters, in the order of the layers.

    inputs: (runs, batch, ...).  targets: (runs, batch, outputs).
    """
    seen = [inputs]
    for layer in layers:
        seen.append(layer.forward(seen[-1]))
    gradient = loss_gradient(seen[-1], targets, loss)
    first = next(number for number, layer in enumerate(layers) if layer.parameters)
    result: list[Tensor] = []
    for number in range(len(layers) - 1, first - 1, -1):
        layer = layers[number]
        result[:0] = layer.parameter_gradients(seen[number], gradient)
        if number > first:
            gradient = layer.backward(seen[number], seen[number + 1], gradient)
    return tuple(result)


class StackedLayer(Protocol):
    """A layer of all runs. x: (runs, batch, ...), its input; y: its output; gradient: dL/dy."""

    parameters: list[Tensor]

    def forward(self, x: Tensor) -> Tensor: ...

    def backward(self, x: Tensor, y: Tensor, gradient: Tensor) -> Tensor:
        """dL/dx."""

    def parameter_gradients(self, x: Tensor, gradient: Tensor) -> list[Tensor]:
        """dL/d of each of the parameters."""


class Linear:
    """y = x W^T + b. weight: (runs, outputs, inputs).  bias: (runs, outputs), or None."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias
        self.parameters = [weight] if bias is None else [weight, bias]

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.transpose(1, 2)
        return x @ weight if self.bias is None else torch.baddbmm(self.bias[:, None], x, weight)

    def backward(self, x: Tensor, y: Tensor, gradient: Tensor) -> Tensor:
        return gradient @ self.weight

    def parameter_gradients(self, x: Tensor, gradient: Tensor) -> list[Tensor]:
        of_weight = gradient.transpose(1, 2) @ x
        return [of_weight] if self.bias is None else [of_weight, gradient.sum(1)]


class WithoutParameters:
    """What layers without parameters have in common."""

    parameters: list[Tensor] = []  # noqa: RUF012 - nobody adds to it

    def parameter_gradients(self, x: Tensor, gradient: Tensor) -> list[Tensor]:
        return []


class ReLU(WithoutParameters):
    def forward(self, x: Tensor) -> Tensor:
        return x.relu()

    def backward(self, x: Tensor, y: Tensor, gradient: Tensor) -> Tensor:
        return aten.threshold_backward(gradient, y, 0)


class Tanh(WithoutParameters):
    def forward(self, x: Tensor) -> Tensor:
        return x.tanh()

    def backward(self, x: Tensor, y: Tensor, gradient: Tensor) -> Tensor:
        return aten.tanh_backward(gradient, y)


class Flatten(WithoutParameters):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2)

    def backward(self, x: Tensor, y: Tensor, gradient: Tensor) -> Tensor:
        return gradient.reshape(x.shape)


def stacked_layers(model: nn.Sequential, stacked: Mapping[str, Tensor]) -> list[StackedLayer]:
    """The layers of a model for all runs; stacked: parameter name -> (runs, ...)."""
    simple: dict[type[nn.Module], type[StackedLayer]] = {
        nn.Flatten: Flatten,
        nn.ReLU: ReLU,
        nn.Tanh: Tanh,
    }
    layers: list[StackedLayer] = []
    for name, layer in model.named_children():
        if isinstance(layer, nn.Linear):
            layers.append(Linear(stacked[f"{name}.weight"], stacked.get(f"{name}.bias")))
        elif type(layer) in simple:
            layers.append(simple[type(layer)]())
        else:
            raise DataError(
                f"mode `batched` cannot stack the layer {name} ({type(layer).__name__}); "
                "set training.mode to loop"
            )
    return layers
