"""Architectures and their initial weights."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from flatlab.networks import Gaussian, build
from flatlab.plan import keys_of
from flatlab.plan.registry import parameters_of
from flatlab.train.initializations import initialize

NETWORK = {"name": "mlp4", "activation": "relu"}
OWN = [name for name in keys_of("networks") if name != "timm"]


def linear_layers(model):
    return [module for module in model if isinstance(module, nn.Linear)]


@pytest.mark.parametrize(
    ("name", "image", "outputs", "sizes"),
    [
        ("mlp4", (28, 28), 10, [784, 500, 500, 500, 10]),
        ("mlp4", (1, 28, 28), 2, [784, 500, 500, 500, 2]),
        ("mlp4-small", (8, 8), 10, [64, 64, 64, 64, 10]),
        ("mlp4-regression", (1,), 1, [1, 256, 256, 256, 1]),
        ("mlp4-regression-small", (1,), 1, [1, 64, 64, 64, 1]),
    ],
)
@pytest.mark.parametrize(
    ("activation", "kind"), [("relu", nn.ReLU), ("tanh", nn.Tanh), ("gaussian", Gaussian)]
)
def test_a_perceptron_has_four_linear_layers_with_bias(
    name, image, outputs, sizes, activation, kind
):
    model = build({"name": name, "activation": activation}, image, outputs)
    names = ["flatten", "fc1", "act1", "fc2", "act2", "fc3", "act3", "fc4"]
    assert [child for child, _ in model.named_children()] == names
    assert all(isinstance(getattr(model, f"act{number}"), kind) for number in (1, 2, 3))
    shapes = [tuple(layer.weight.shape) for layer in linear_layers(model)]
    assert shapes == [(fan_out, fan_in) for fan_in, fan_out in pairwise(sizes)]
    assert [layer.bias.shape[0] for layer in linear_layers(model)] == sizes[1:]
    assert model(torch.zeros(3, *image)).shape == (3, outputs)


@pytest.mark.parametrize(
    ("name", "image", "sizes"),
    [("mlp3", (3, 32, 32), [3072, 200, 200, 10]), ("mlp3-small", (8, 8), [64, 32, 32, 10])],
)
def test_a_perceptron_of_three_layers(name, image, sizes):
    model = build({"name": name, "activation": "tanh"}, image, 10)
    shapes = [tuple(layer.weight.shape) for layer in linear_layers(model)]
    assert shapes == [(fan_out, fan_in) for fan_in, fan_out in pairwise(sizes)]
    assert sum(p.numel() for p in model.parameters()) == parameters_of(name)


@pytest.mark.parametrize("name", OWN)
def test_every_architecture_maps_a_batch_to_its_outputs_sample_by_sample(name):
    shape = (3, 8, 8) if name.startswith("mlp") or "small" in name else (3, 32, 32)
    model = build({"name": name, "activation": "relu"}, shape, 3).double().eval()
    x = torch.randn(5, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    together, alone = model(x), torch.cat([model(sample[None]) for sample in x])
    assert together.shape == (5, 3)
    assert torch.allclose(together, alone, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "weights", "parameters"),
    [("lenet5", 5, 62_006), ("vgg11", 11, 9_750_922), ("vgg-narrow", 7, 97_018)],
)
def test_convolutional_networks_have_the_published_sizes(name, weights, parameters):
    """62 thousand, 9.8 million and 97 thousand parameters for 10 classes of 32 x 32 pixels."""
    model = build({"name": name, "activation": "relu"}, (3, 32, 32), 10)
    assert sum(hasattr(module, "weight") for module in model.modules()) == weights
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


@pytest.mark.parametrize("name", OWN)
def test_the_number_of_parameters_is_that_by_which_disk_use_is_foretold(name):
    shape = (1, 28, 28) if name == "mlp4" else (1, 8, 8) if "small" in name else (3, 32, 32)
    of_papers = {"linear": (100,), "diagonal-linear": (200,)}
    of_papers |= dict.fromkeys(["mlp4-regression", "mlp4-regression-small"], (1,))
    shape, outputs = (of_papers[name], 1) if name in of_papers else (shape, 10)
    model = build({"name": name, "activation": "relu"}, shape, outputs)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters_of(name)


def test_a_linear_model_starts_near_zero_without_a_bias():
    model = build({"name": "linear", "activation": "relu"}, (5, 2000), 10)
    initialize(model, "framework", 3)
    ((name, weight),) = model.named_parameters()
    assert (name, tuple(weight.shape)) == ("fc.weight", (10, 10_000))
    assert weight.detach().std().item() == pytest.approx(1 / 500, rel=0.02)


def test_a_diagonal_linear_network_is_linear_with_products_as_coefficients():
    model = build({"name": "diagonal-linear", "activation": "relu"}, (7,), 2).double()
    x = torch.randn(4, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    u, v = model.diagonal.u.detach(), model.diagonal.v.detach()
    expected = [
        [sum(x[i, j] * u[k, j] * v[k, j] for j in range(7)) for k in range(2)] for i in range(4)
    ]
    np.testing.assert_allclose(model(x).detach(), np.array(expected, dtype=float), rtol=1e-12)


def test_the_scale_of_a_diagonal_network_is_drawn_log_uniformly_by_its_seed():
    """One scale for u and v, which are independent of each other."""
    scales, products = [], []
    for seed in range(200):
        model = build({"name": "diagonal-linear", "activation": "relu"}, (400,), 1)
        initialize(model, "framework", seed)
        u, v = model.diagonal.u.detach(), model.diagonal.v.detach()
        assert u.std().item() == pytest.approx(v.std().item(), rel=0.25)
        scales.append(torch.cat([u, v]).std().item())
        products.append((u * v).mean().item() / scales[-1] ** 2)
    share = np.log(np.array(scales) / 0.01) / np.log(100)
    assert np.histogram(share, bins=4, range=(-0.05, 1.05))[0].min() > 30
    assert abs(np.mean(products)) < 4 / (200 * 400) ** 0.5


def test_blocks_without_normalization_start_as_their_shortcuts():
    model = build({"name": "resnet18-plain", "activation": "relu"}, (3, 32, 32), 2)
    x = torch.randn(2, 64, 32, 32, generator=torch.Generator().manual_seed(0))
    for scheme in ("framework", "he-normal", "xavier-normal"):
        initialize(model, scheme, 0)
        assert torch.equal(model.block1(x), x)
        assert not model.block3.body[-1].bias.any()
        assert torch.equal(model.block3(x), model.block3.shortcut(x))


@pytest.mark.parametrize("shape", [(8, 8), (1, 8, 8)])
def test_images_that_are_too_small_are_refused_in_words(shape):
    with pytest.raises(ValueError, match="do not fit the network"):
        build({"name": "lenet5", "activation": "relu"}, shape, 10)


def test_the_default_initialization_is_the_frameworks_with_the_same_seed():
    model = build(NETWORK, (8, 8), 10)
    initialize(model, "framework", seed=7)
    torch.manual_seed(7)
    for layer in linear_layers(model):
        expected = nn.Linear(layer.in_features, layer.out_features)
        assert torch.equal(layer.weight, expected.weight)
        assert torch.equal(layer.bias, expected.bias)


def test_the_default_initialization_fills_the_range_of_one_over_the_root_of_the_fan_in():
    model = build(NETWORK, (8, 8), 10)
    initialize(model, "framework", seed=0)
    for layer in linear_layers(model):
        limit = layer.in_features**-0.5
        for parameter in (layer.weight, layer.bias):
            assert parameter.abs().max() <= limit
        assert layer.weight.abs().max() > 0.95 * limit


@pytest.mark.parametrize(
    ("scheme", "variance"),
    [
        ("he-normal", lambda fan_in, fan_out: 2 / fan_out),
        ("xavier-normal", lambda fan_in, fan_out: 2 / (fan_in + fan_out)),
    ],
)
def test_normal_initializations_have_their_variance_and_no_bias(scheme, variance):
    """The sum of squares over the variance is chi-squared: within 5 standard deviations of n."""
    model = build(NETWORK, (8, 8), 10)
    initialize(model, scheme, seed=0)
    for layer in linear_layers(model):
        weight = layer.weight.detach().double().numpy()
        scaled = weight / variance(layer.in_features, layer.out_features) ** 0.5
        count = weight.size
        assert abs((scaled**2).sum() - count) < 5 * np.sqrt(2 * count)
        assert abs(scaled.sum()) < 5 * np.sqrt(count)
        assert np.mean(np.abs(scaled) < 1) == pytest.approx(0.6827, abs=2.5 / np.sqrt(count))
        assert not layer.bias.any()


@pytest.mark.parametrize("scheme", ["framework", "he-normal", "xavier-normal"])
def test_initial_weights_depend_on_the_seed_alone(scheme):
    def weights(seed, before):
        torch.manual_seed(before)
        model = build({**NETWORK, "name": "mlp4-small"}, (8, 8), 10)
        initialize(model, scheme, seed)
        return torch.cat([parameter.flatten() for parameter in model.parameters()])

    assert torch.equal(weights(3, before=0), weights(3, before=1))
    assert not torch.equal(weights(3, before=0), weights(4, before=0))


@pytest.mark.parametrize("scheme", ["framework", "he-normal", "xavier-normal"])
def test_initializing_leaves_the_global_generator_as_it_was(scheme):
    model = build(NETWORK, (8, 8), 10)
    before = torch.get_rng_state()
    initialize(model, scheme, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
