"""Linear and convolution layers as the matrices that they are."""

import copy

import numpy as np
import torch
from torch import nn


def weight_gradient(layer, s, name):
    """df_k/dW as the sum over uses of Gamma U^T."""
    total = 0
    start = 0
    for x in s.inputs[name]:
        weight = layer.weight.detach().clone().requires_grad_()
        z = torch.func.functional_call(copy.deepcopy(plain(layer)), {"weight": weight}, (x,))
        gamma = s.gamma[name][:, start : start + z.numel()]
        start += z.numel()
        total = total + np.stack(
            [
                torch.autograd.grad(z, weight, torch.from_numpy(g).view_as(z), retain_graph=True)[0]
                .numpy()
                .ravel()
                for g in gamma
            ]
        )
    return total


def plain(layer):
    """The layer without a parametrization."""
    if not nn.utils.parametrize.is_parametrized(layer):
        return layer
    other = nn.Linear(layer.in_features, layer.out_features, dtype=torch.float64)
    other.weight.data, other.bias.data = layer.weight.detach(), layer.bias.detach()
    return other


def operator_of(layer, shape):
    """The matrix of the map from one input to its output, column by column."""
    if isinstance(layer, nn.Linear):
        return layer.weight.detach().numpy()
    size = int(np.prod(shape))
    basis = torch.eye(size, dtype=torch.float64).view(size, *shape)
    zero = layer(torch.zeros(1, *shape, dtype=torch.float64)).detach()
    return (layer(basis).detach() - zero).flatten(1).numpy().T


def smallest(layer, inputs):
    """Smallest singular value of U over the groups; 0 where it has more columns than rows."""
    values = []
    groups = getattr(layer, "groups", 1)
    width = layer.weight[0].numel()
    for group in range(groups):
        row = group * (len(layer.weight) // groups)
        weight = layer.weight.detach().clone().requires_grad_()
        numbers = []
        for x in inputs:
            z = torch.func.functional_call(copy.deepcopy(plain(layer)), {"weight": weight}, (x,))
            numbers += [*(z[..., row] if isinstance(layer, nn.Linear) else z[:, row]).flatten()]
        if len(numbers) > width:
            return 0.0
        columns = [torch.autograd.grad(v, weight, retain_graph=True)[0][row] for v in numbers]
        u = torch.stack([column.flatten() for column in columns], 1).numpy()
        values.append(np.linalg.svd(u)[1][-1])
    return min(values)
