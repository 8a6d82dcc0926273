"""Parameters that no rule covers: one gradient per sample and output, whatever uses them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from flatlab.derivatives.record import rows_of_jacobian


def generic_squares(model: nn.Module, inputs: Tensor, names: list[str]) -> tuple[Tensor, Tensor]:
    """Sum over outputs and the named parameters of (df_k/dtheta)^2, and with theta^2."""
    parameters = [model.get_parameter(name) for name in names]
    edges = [get_gradient_edge(parameter) for parameter in parameters]
    plain, adaptive = inputs.new_zeros(len(inputs)), inputs.new_zeros(len(inputs))
    for number, sample in enumerate(inputs.split(1)):
        rows = rows_of_jacobian(model(sample), edges)
        with torch.no_grad():
            for row, parameter in zip(rows, parameters, strict=True):
                squares = row.square().sum(0)
                plain[number] += squares.sum()
                adaptive[number] += (squares * parameter.square()).sum()
    return plain, adaptive
