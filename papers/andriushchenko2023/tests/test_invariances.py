"""andriushchenko2023 Sec. 3.2: which reparametrizations of ResNets and ViTs change no sharpness."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab.families.sharpness import SMALLEST_RADII

SCALE_FREE = [name for name in SMALLEST_RADII if "standard" not in name]
FACTOR = 7.0


class Block(nn.Module):
    """BN -> ReLU -> conv -> BN -> ReLU -> conv, with a skip connection and a head."""

    inputs = (2, 3, 3)

    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Conv2d(2, 3, 1), nn.Linear(3, 3)
        self.first_norm, self.second_norm = (nn.BatchNorm2d(3, eps=1e-12) for _ in range(2))
        self.first, self.second = (nn.Conv2d(3, 3, 3, padding=1, bias=False) for _ in range(2))

    def forward(self, x):
        x = self.stem(x)
        z = self.first(self.first_norm(x).relu())
        return self.head((x + self.second(self.second_norm(z).relu())).mean((2, 3)))


class Transformer(nn.Module):
    """Linear -> LN, then a block of a ViT on five tokens: attention of one head, and LN -> MLP."""

    inputs = (5, 3)

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(3, 4), nn.Linear(4, 3)
        self.first_norm, self.norm = (nn.LayerNorm(4, eps=1e-12) for _ in range(2))
        self.query, self.key, self.value = (nn.Linear(4, 4, bias=False) for _ in range(3))
        self.up, self.down = nn.Linear(4, 6), nn.Linear(6, 4)

    def forward(self, x):
        x = self.first_norm(self.embed(x))
        x = x + (self.query(x) @ self.key(x).mT).softmax(2) @ self.value(x)
        return self.head((x + self.down(nn.functional.gelu(self.up(self.norm(x))))).mean(1))


INVARIANCES = {
    "batch norm before a convolution": (
        Block,
        {"second_norm.weight": 1, "second_norm.bias": 1, "second.weight": -1},
    ),
    "a convolution before batch norm": (
        Block,
        {"first.weight": 1, "second_norm.running_mean": 1, "second_norm.running_var": 2},
    ),
    "layer norm before a linear layer": (
        Transformer,
        {"norm.weight": 1, "norm.bias": 1, "up.weight": -1},
    ),
    "queries and keys": (Transformer, {"query.weight": 1, "key.weight": -1}),
    "a linear layer before layer norm": (Transformer, {"embed.weight": 1, "embed.bias": 1}),
    "linear layers around GELU": (Transformer, {"up.weight": 1, "up.bias": 1, "down.weight": -1}),
}
"""What leaves the function as it is: the powers of a factor by which tensors are multiplied."""


def without_zeros(kind):
    """A network whose biases and running means are not zero, six inputs and their classes."""
    torch.manual_seed(0)
    model = kind().double()
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                tensor.add_(
                    torch.rand_like(tensor) / 2 if "var" in name else tensor.new_tensor(0.1)
                )
    return model.eval(), torch.randn(6, *kind.inputs, dtype=torch.float64), torch.arange(6) % 3


def reparametrized(model, powers):
    other = copy.deepcopy(model)
    with torch.no_grad():
        for name, power in powers.items():
            other.state_dict()[name].mul_(FACTOR**power)
    return other


@pytest.mark.first(1)
@pytest.mark.parametrize("invariance", INVARIANCES)
def test_adaptive_sharpness_knows_the_invariances_of_modern_networks(invariance):
    kind, powers = INVARIANCES[invariance]
    model, x, y = without_zeros(kind)
    other = reparametrized(model, powers)
    radii = {name: [0.01] for name in SMALLEST_RADII}
    how = {"families": ["sharpness"], "sharpness_radii": radii}
    before, after = (flatlab.measure(m, x, y, **how).sharpness_at_radius for m in (model, other))
    change = abs(after / before - 1)
    if "GELU" in invariance:  # GELU(a z) / a is not GELU(z): the function changes, not by much
        assert not torch.allclose(model(x), other(x), rtol=1e-3)
        assert 1e-3 < change.sel(definition=SCALE_FREE).max() < 1
    else:
        assert torch.allclose(model(x), other(x), rtol=1e-9)
        np.testing.assert_allclose(change.sel(definition=SCALE_FREE), 0, atol=1e-6)
    assert change.drop_sel(definition=SCALE_FREE).max() > 0.05
