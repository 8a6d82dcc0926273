"""The losses of samples as functions of what one linear layer of a network returns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.derivatives.per_sample.probe import Findings, run
from flatlab.derivatives.second_order.layer_curvature import ineligible_layers
from flatlab.losses._base import Loss

Change = Callable[[Tensor, slice], Tensor]
"""What is added to z = w phi + b: of the features phi of some samples, and which: (samples, d)."""


@dataclass(frozen=True)
class PerturbedLosses:
    """Of some samples.

    model: the network.
    inputs: (samples, ...).
    targets: (samples, N).
    loss: whose values they are.
    size: samples at a time.
    """

    model: nn.Module
    inputs: Tensor
    targets: Tensor
    loss: Loss
    size: int

    @torch.no_grad()
    def plain(self) -> Tensor:
        """The losses as they are: (samples,) in float64."""
        parts = [run(self.model, x).double() for x in self.inputs.split(self.size)]
        return self.loss.values(torch.cat(parts), self.targets)

    @torch.no_grad()
    def changed(self, layer: nn.Linear, change: Change) -> Tensor:
        """The losses where a change is added to what a layer returns: (samples,) in float64."""
        parts = []
        for start in range(0, len(self.inputs), self.size):
            here = slice(start, start + self.size)

            def add(
                module: nn.Module, given: tuple[Tensor, ...], output: Tensor, here: slice = here
            ) -> Tensor:
                return output + change(given[0], here)

            handle = layer.register_forward_hook(add)
            try:
                parts.append(run(self.model, self.inputs[here]).double())
            finally:
                handle.remove()
        return self.loss.values(torch.cat(parts), self.targets)


def eligible_layers(
    model: nn.Module, inputs: Tensor, findings: Findings, what: str
) -> tuple[list[tuple[int, str]], list[str]]:
    """The linear layers that see one vector of each sample, with their places among all, and why
    others do not count.

    what: the quantity.  Raises `MeasureError` where there is none.
    """
    ineligible = ineligible_layers(model, inputs, findings)
    places = [(k, name) for k, name in enumerate(findings.layers) if name not in ineligible]
    if not places:
        raise MeasureError(
            f"{what} needs a linear layer that is called as a module and sees one vector per sample"
        )
    return places, [f"{name}: {reason}" for name, reason in ineligible.items()]


def deltas_of(wanted: tuple[Any, ...], samples: int, features: int) -> np.ndarray:
    """The option `robustness_deltas` in numbers, for n samples and m features."""
    paper = samples ** (-1 / (4 + features))
    return np.array([paper if each == "paper" else each for each in wanted])
