"""The network that `flatlab.measure` is tried on, its inputs and its report."""

import pytest
import torch
from torch import nn

import flatlab
from tests.measurement.comparing import ALL_COSTLY


@pytest.fixture
def network():
    """Convolution, batch norm, dropout and linear layers in float64, one parameter frozen."""
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Dropout(0.5), nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 3)),
    ).double()
    for _ in range(3):
        model(torch.randn(20, 2, 6, 6).double())  # so that the running statistics are not trivial
    model[6].bias.requires_grad_(False)
    return model.eval()


@pytest.fixture
def inputs():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(11, 2, 6, 6, generator=generator, dtype=torch.float64)


@pytest.fixture
def report(network, inputs):
    return flatlab.measure(network, inputs, costly=ALL_COSTLY)
