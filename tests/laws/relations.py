"""Networks with what is measured of them, and comparisons of quantities up to rounding."""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from flatlab.derivatives.checks.isolation import preserving_state
from flatlab.derivatives.per_sample.engine import derivatives
from tests.networks.measuring import quantities

EXACT = 1e-10
FACTORS = st.floats(0.1, 0.6) | st.floats(1.7, 10)
"""Of rescalings, not near 1."""


def law(examples=30, **drawn):
    """Make a test a law of what is named, and of `data` to draw networks from if it asks for it."""

    def decorate(test):
        data = {"data": st.data()} if "data" in inspect.signature(test).parameters else {}
        count = min(examples, settings.default.max_examples)
        lawful = settings(max_examples=count, deadline=None, derandomize=True)
        return lawful(given(**data, **drawn)(test))

    return decorate


@dataclass
class Network:
    """A network, its inputs x (samples, ...), and its numbers of inputs and outputs."""

    model: Any
    x: Any
    inputs: int
    outputs: int
    bias: bool

    @cached_property
    def values(self):
        """The quantities of `geometry`."""
        return quantities(self.model, self.x)

    @cached_property
    def layers(self):
        """What `derivatives` finds of each layer, in float64."""
        with preserving_state(self.model):
            return derivatives(self.model, self.x).layers

    @cached_property
    def sigma(self):
        """Singular values of J, from automatic differentiation: (samples, min(N, M))."""
        jacobian = torch.func.jacrev(lambda sample: self.model(sample[None])[0])
        jacobians = [jacobian(sample).detach().flatten(1) for sample in self.x]
        return torch.linalg.svdvals(torch.stack(jacobians)).numpy()

    @property
    def full(self):
        """Which samples have a Jacobian of rank N."""
        return (self.sigma[:, -1] > 1e-14 * self.sigma[:, 0]) & (self.outputs <= self.inputs)

    def of_layers(self, name):
        """(samples, layers, ...)"""
        return np.stack([getattr(layer, name).numpy() for layer in self.layers], axis=1)

    def mean_volumes(self):
        """Of each layer: the mean of the product of singular values, 0 without full rank."""
        singular = self.of_layers("singular")
        full = singular[..., -1] > 1e-14 * singular[..., 0]
        return np.where(full, singular.prod(-1), 0.0).mean(0)


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


def layers_of(model):
    return [module for module in model if isinstance(module, nn.Linear | nn.Conv2d)]


def multiply(layer, factor):
    """Multiply what a layer returns by a number, or each neuron by its own."""
    factors = torch.as_tensor(factor, dtype=layer.weight.dtype)
    layer.weight.data *= factors.reshape(-1, *[1] * (layer.weight.ndim - 1))
    if layer.bias is not None:
        layer.bias.data *= factors


def rescaled(model, first, last, factor):
    """Layer `first` times `factor`, layer `last` divided by it, biases between accordingly."""
    model = copy.deepcopy(model)
    layers = layers_of(model)
    multiply(layers[first], factor)
    layers[last].weight.data /= factor
    for layer in layers[first + 1 : last]:
        if layer.bias is not None:
            layer.bias.data *= factor
    return model


def scaled_neurons(data, model, *numbers):
    """Each neuron of these linear layers times a factor of its own, its weights behind divided."""
    model = copy.deepcopy(model)
    layers = layers_of(model)
    for number in numbers:
        width = layers[number].out_features
        drawn = data.draw(st.lists(FACTORS, min_size=width, max_size=width))
        multiply(layers[number], drawn)
        layers[number + 1].weight.data /= torch.tensor(drawn, dtype=torch.float64)
    return model
