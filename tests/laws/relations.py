"""Comparisons of quantities up to rounding, and derivatives by automatic differentiation."""

from itertools import pairwise

import numpy as np
import pytest
import torch

EXACT = 1e-10


def singular_values(net):
    """Of J, from automatic differentiation: (samples, min(N, M))."""
    jacobian = torch.func.jacrev(lambda sample: net.model(sample[None])[0])
    jacobians = [jacobian(sample).detach().flatten(1) for sample in net.x]
    return torch.linalg.svdvals(torch.stack(jacobians)).numpy()


def of_full_rank(net, sigma):
    """Which samples have a Jacobian of rank N."""
    return (sigma[:, -1] > 1e-14 * sigma[:, 0]) & (net.outputs <= net.inputs)


def in_order(*values):
    for lower, upper in pairwise(values):
        assert np.all(lower <= upper * (1 + EXACT)), values


def in_order_of_logarithms(*values):
    for lower, upper in pairwise(values):
        assert np.all((lower <= upper) | np.isclose(lower, upper, rtol=EXACT, atol=EXACT)), values


def is_one(ratios):
    """Where it is defined: 0 / 0 says nothing."""
    defined = ratios[~np.isnan(ratios)]
    assert defined == pytest.approx(np.ones_like(defined), rel=EXACT)


def of_layers(found, name):
    """(samples, layers)"""
    return np.stack([getattr(layer, name).numpy() for layer in found.layers], axis=1)


def mean_volumes(layers):
    """Of each layer, from singular values: the mean of their product, 0 without full rank."""
    singular = np.stack([layer.singular.numpy() for layer in layers])  # (layers, samples, N)
    full = singular[..., -1] > 1e-14 * singular[..., 0]
    return np.where(full, singular.prod(-1), 0.0).mean(1)
