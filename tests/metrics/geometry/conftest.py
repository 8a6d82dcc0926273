"""Networks that several modules look at."""

import pytest
import torch
from torch import nn


@pytest.fixture
def convolutional():
    """Convolution, batch norm in evaluation mode, pooling and two linear layers."""
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(27, 8), nn.ReLU(), nn.Linear(8, 3)),
    )
    model[1].bias.data.fill_(0.5)  # no sample is dead
    return model.double().eval()


@pytest.fixture
def images():
    """Make images of 1 x 8 x 8 from a seed."""

    def draw(count=6, size=8, seed=0):
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(count, 1, size, size, generator=generator, dtype=torch.float64)

    return draw
