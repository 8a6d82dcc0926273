"""Networks and samples as users have them, and how they are measured in these tests."""

import numpy as np
import torch
from torch import nn

import flatlab

SMALL = {"adaptive": {"draws": 2}, "sharpness": {"sharpness_radii": {"worst-standard-l2": [0.1]}}}
GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(10, 6, generator=GENERATOR).double()
V = torch.randn(10, 2, generator=GENERATOR).double()
LABELS = torch.randint(4, (10,), generator=GENERATOR)


def measured(family, model, *data, **options):
    options = {"loss": "cross-entropy"} | SMALL.get(family, {}) | options
    return flatlab.measure(model, *data, families=family, **options)


def seeded(module):
    torch.manual_seed(0)
    return module().double().eval()


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 5), nn.Linear(5, 4)

    def hidden(self, x):
        return torch.tanh(self.first(x))

    def forward(self, x):
        return self.last(self.hidden(x))


def same(one, other):
    for name in one.data_vars:
        assert np.allclose(one[name], other[name], rtol=1e-9, atol=1e-12, equal_nan=True), name
