"""Changes of a network's parameters: they leave its function alone, and only where that is sure."""

import copy

import pytest
import torch
from torch import nn

from flatlab.networks import Residual
from flatlab.networks._transformations import normalized, pairs, transformed
from tests.networks.small_networks import LINEAR, small

KINDS = ("layers", "neurons", "permutation", "batch-norm", "last-layer")
APPLIES = {
    "mlp-relu": {"layers", "neurons", "permutation", "last-layer"},
    "mlp-tanh": {"permutation"},
    "linear": set(),
    "lenet": {"layers", "neurons", "permutation", "last-layer"},
    "vgg": {*KINDS},
    "resnet": {*KINDS} - {"last-layer"},
    "preact-resnet": {*KINDS} - {"last-layer"},
    "simple-vit": {"permutation"},
    "timm": set(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LINEAR)
def test_the_function_stays_and_the_parameters_change(name, kind):
    model, inputs, _ = small(name)
    before = copy.deepcopy(model.state_dict())
    if kind not in APPLIES[name]:
        with pytest.raises(ValueError, match=f"no layers to which '{kind}' applies"):
            transformed(model, kind)
        return
    found = [transformed(model, kind, seed) for seed in (1, 1, 2)]
    vectors = [nn.utils.parameters_to_vector(net.parameters()) for net in (model, *found)]
    assert torch.equal(vectors[1], vectors[2])
    assert not torch.allclose(vectors[0], vectors[1], rtol=1e-2)
    assert not torch.allclose(vectors[1], vectors[3], rtol=1e-2)
    for net in found:
        torch.testing.assert_close(net(inputs), model(inputs), rtol=1e-10, atol=1e-10)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_the_pairs_of_a_network_are_those_that_follow_each_other():
    model = small("lenet")[0]
    names = {id(module): name for name, module in model.named_modules()}
    assert [(names[id(p.first)], names[id(p.second)]) for p in pairs(model)] == [
        *(("0", "3"), ("3", "6"), ("6", "8"))
    ]
    model = small("resnet")[0]
    assert all(pair.norm is not None for pair in pairs(model))
    assert len(normalized(model)) == sum(isinstance(m, nn.Conv2d) for m in model.modules())


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(6, 3)),  # three tokens
        nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 4)),
        nn.Sequential(nn.Conv2d(2, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 1, groups=2)),
        nn.Sequential(nn.Conv2d(2, 4, 1), nn.ReLU(), nn.Linear(4, 4)),  # along the rows
        nn.Sequential(layer := nn.Linear(4, 4), nn.ReLU(), layer),
        nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), nn.Linear(4, 4)),
        nn.Sequential(nn.Linear(4, 4), Residual(nn.Sequential(nn.Linear(4, 4)), nn.Sequential())),
    ],
)
def test_where_the_function_would_change_nothing_is_found(model):
    assert pairs(model) == []


def test_variances_near_zero_are_scaled_exactly():
    """Also where the variance is as small as eps."""
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2)).double().eval()
    model[1].running_var.fill_(1e-6)
    x = torch.randn(3, 1, 2, 2, dtype=torch.float64)
    torch.testing.assert_close(transformed(model, "batch-norm", 3)(x), model(x), rtol=1e-9, atol=0)
