"""Networks and samples as users have them, and how they are measured in these tests."""

from collections import OrderedDict, namedtuple
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

import flatlab
from flatlab.core.registry import keys_of, measures_samples

SMALL = {"adaptive": {"draws": 2}, "sharpness": {"sharpness_radii": {"worst-standard-l2": [0.1]}}}
SPECIAL = {"linear", "diagonal"}
FAMILIES = [f for f in keys_of("metrics") if measures_samples(f) and f not in SPECIAL]
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


class Named(Plain):
    """Inputs and outputs by name, as those of Hugging Face's models."""

    def forward(self, input_values=None, labels=None):
        hidden = self.hidden(input_values)
        return OrderedDict(logits=self.last(hidden), hidden_states=hidden)


class Attributes(Plain):
    def forward(self, x):
        hidden = self.hidden(x)
        return SimpleNamespace(logits=self.last(hidden), hidden=hidden, loss=None)


class Several(Plain):
    def forward(self, x):
        hidden = self.hidden(x)
        return hidden, self.last(hidden)


Pair = namedtuple("Pair", ["features", "scores"])


class NamedTuple(Plain):
    def forward(self, x):
        hidden = self.hidden(x)
        return Pair(hidden, self.last(hidden))


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.u, self.v, self.last = nn.Linear(6, 5), nn.Linear(2, 5), nn.Linear(5, 4)

    def forward(self, u, v):
        return self.last(torch.tanh(self.u(u) + self.v(v)))


class OneInput(TwoInputs):
    """The same function of one tensor."""

    def forward(self, x):
        return super().forward(*x.split([6, 2], 1))


class Segmentation(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(3, 4, 1)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


class Language(nn.Module):
    """Tokens to the next ones."""

    def __init__(self):
        super().__init__()
        self.embedding, self.mix, self.head = nn.Embedding(7, 5), nn.GRU(5, 4), nn.Linear(4, 7)

    def forward(self, tokens):
        return self.head(self.mix(self.embedding(tokens).movedim(0, 1))[0].movedim(0, 1))


class Vectors(nn.Module):
    """A network whose outputs are one vector of all positions, the classes side by side."""

    def __init__(self, inner, last):
        super().__init__()
        self.inner, self.last = inner, last

    def forward(self, x):
        out = self.inner(x)
        return (out if self.last else out.movedim(1, -1)).flatten(1)


def same(one, other):
    for name in one.data_vars:
        assert np.allclose(one[name], other[name], rtol=1e-9, atol=1e-12, equal_nan=True), name


def hessian_of(model, loss, *inputs):
    """By torch.func, in all parameters."""
    named = dict(model.named_parameters())

    def total(vector):
        parts = vector.split([p.numel() for p in named.values()])
        pieces = zip(named.items(), parts, strict=True)
        state = {name: part.view_as(p) for (name, p), part in pieces}
        return loss(torch.func.functional_call(model, state, inputs))

    theta = torch.cat([p.detach().flatten() for p in named.values()])
    return torch.autograd.functional.hessian(total, theta)
