"""All networks of a pack as one batch of matrix products.

The weights of a layer are stacked over the runs, (runs, outputs, inputs), and one product serves
them all; the sum of the runs' losses has for each run the gradient of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from flatlab.data import DataError
from flatlab.splits import Split
from flatlab.train.loop import Observer
from flatlab.train.minibatches import steps
from flatlab.train.objective import GradientDescent, loss

ELEMENTWISE = (nn.ReLU, nn.Tanh)


def train(
    models: list[nn.Sequential],
    split: Split,
    training: Mapping[str, Any],
    seeds: list[int],
    curves: Observer,
) -> None:
    """Train the models in place, all of them in each step. Raises on layers it cannot stack."""
    stacked = {
        name: torch.stack([dict(model.named_parameters())[name] for model in models]).detach()
        for name, _ in models[0].named_parameters()
    }
    for tensor in stacked.values():
        tensor.requires_grad_()
    parameters = list(stacked.values())
    update = GradientDescent(parameters, training)

    def forward(inputs: Tensor) -> Tensor:
        """Inputs (runs, samples, ...), or (samples, ...) for all, -> (runs, samples, outputs)."""
        if inputs.ndim == split.inputs.ndim:
            inputs = inputs.expand(len(models), *inputs.shape)
        return stacked_forward(models[0], stacked, inputs)

    batches = steps(seeds, len(split.labels), training, split.labels.device)
    for iteration, index in enumerate(tqdm(batches, total=training["iterations"], mininterval=5)):
        if iteration in curves.iterations:
            curves.observe(forward)
        outputs = forward(split.inputs[index])
        objective = loss(outputs, split.targets[index], training["loss"])
        update.step(torch.autograd.grad(objective, parameters))
    curves.observe(forward)
    for number, model in enumerate(models):
        model.load_state_dict({name: tensor[number].detach() for name, tensor in stacked.items()})


def stacked_forward(model: nn.Sequential, stacked: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
    """The outputs of networks of one architecture on inputs of their own.

    model: gives the layers.  stacked: their parameters, (runs, ...).  inputs: (runs, samples, ...).
    """
    x = inputs
    for name, layer in model.named_children():
        if isinstance(layer, nn.Flatten):
            x = x.flatten(2)
        elif isinstance(layer, nn.Linear):
            weight, bias = stacked[f"{name}.weight"].transpose(1, 2), stacked.get(f"{name}.bias")
            x = x @ weight if bias is None else torch.baddbmm(bias.unsqueeze(1), x, weight)
        elif isinstance(layer, ELEMENTWISE):
            x = layer(x)
        else:
            raise DataError(
                f"mode `batched` cannot stack the layer {name} ({type(layer).__name__}); "
                "set training.mode to loop"
            )
    return x
