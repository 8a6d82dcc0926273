"""Parameters that no rule covers: one gradient per sample and output, whatever uses them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from flatlab.derivatives.record import rows_of_jacobian


def generic_squares(
    model: nn.Module, inputs: Tensor, names: list[str]
) -> dict[str, tuple[Tensor, Tensor]]:
    """By name: the sum over outputs of (df_k/dtheta)^2, and with theta^2, for each sample."""
    if not names:
        return {}
    parameters = [model.get_parameter(name) for name in names]
    edges = [get_gradient_edge(parameter) for parameter in parameters]
    result = {
        name: (inputs.new_zeros(len(inputs)), inputs.new_zeros(len(inputs))) for name in names
    }
    with torch.enable_grad():
        for number, sample in enumerate(inputs.split(1)):
            rows = rows_of_jacobian(model(sample), edges)
            for name, row, parameter in zip(names, rows, parameters, strict=True):
                squares = row.square().sum(0)
                plain, adaptive = result[name]
                plain[number] = squares.sum()
                adaptive[number] = (squares * parameter.detach().square()).sum()
    return result
