"""Parameters that no rule covers: one gradient for each sample and output."""

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from flatlab.derivatives.record import rows_of_jacobian


def generic_squares(model: nn.Module, inputs: Tensor, names: list[str]) -> dict[str, Tensor]:
    """By name: the sums of (df_k/dtheta_j)^2, plain and weighted by theta_j^2, (2, samples).

    The sums are over the outputs k and the numbers j of a parameter.
    """
    if not names:
        return {}
    parameters = [model.get_parameter(name) for name in names]
    edges = [get_gradient_edge(parameter) for parameter in parameters]
    result = {name: inputs.new_zeros(2, len(inputs)) for name in names}
    with torch.enable_grad():
        for number, sample in enumerate(inputs.split(1)):
            rows = rows_of_jacobian(model(sample), edges)
            for name, row, parameter in zip(names, rows, parameters, strict=True):
                squares = row.square().sum(0)
                result[name][0, number] = squares.sum()
                result[name][1, number] = (squares * parameter.detach().square()).sum()
    return result
