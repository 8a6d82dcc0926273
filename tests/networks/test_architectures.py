"""Architectures and their initial weights."""

from itertools import pairwise
from typing import get_args

import numpy as np
import pytest
import torch
from torch import nn

from flatlab import data
from flatlab.core.options import Activation, options_of
from flatlab.core.registry import literal
from flatlab.data._tensors import prepare
from flatlab.lab.plan import convert, keys_of
from flatlab.lab.train.initializations import draw
from flatlab.networks import ACTIVATIONS, Gaussian, build

NETWORK = {"name": "mlp", "options": {"activation": "relu"}}
NARROW = (16, "pool", 16, "pool", 32, "pool", 64, "pool", 64, "pool")
RELU, WIDE, SMALL = {"activation": "relu"}, (3, 32, 32), (1, 8, 8)
PLAIN = {**RELU, "normalization": "none"}
CHEN_VGG = {**RELU, "widths": NARROW, "hidden": [128], "padding": 2}
SMALL_VGG = {**RELU, "widths": [8, 8, "pool", 16, 16, "pool"], "hidden": [32, 32]}
FLAT_VGG = {**RELU, "widths": [3], "hidden": [], "padding": 0}
SMALL_RESNET = {**RELU, "widths": [8, 16, 32]}
SMALL_VIT = {"patch": 2, "width": 16, "depth": 2, "heads": 3, "head_width": 5, "mlp_width": 7}
NETWORKS = {
    "of the chen papers": ("mlp", RELU, (1, 28, 28), 10, 898_510),
    "of the chen papers, small": ("mlp", {**RELU, "width": 64}, (1, 8, 8), 10, 13_130),
    "of macdonald2023": ("mlp", {**RELU, "width": 200, "depth": 3}, WIDE, 10, 656_810),
    "its regression": ("mlp", {"activation": "gaussian", "width": 256}, (1,), 1, 132_353),
    "of one layer": ("mlp", {**RELU, "depth": 1}, (9,), 4, 40),
    "of several widths": ("mlp", {**RELU, "width": [7, 6, 5]}, (9,), 4, 177),
    "LeNet-5": ("lenet5", RELU, WIDE, 10, 62_006),
    "LeNet-5, small": ("lenet5", {**RELU, "kernel": 3, "padding": 1}, (1, 8, 8), 10, 19_754),
    "VGG-11": ("vgg", RELU, WIDE, 10, 9_750_922),
    "VGG-11, batch norm": ("vgg", {**RELU, "normalization": "batch"}, WIDE, 10, 9_756_426),
    "VGG of the chen papers": ("vgg", CHEN_VGG, WIDE, 10, 97_018),
    "VGG, small": ("vgg", SMALL_VGG, SMALL, 10, 7_618),
    "VGG without pooling": ("vgg", FLAT_VGG, (2, 7, 5), 3, 195),
    "ResNet-18": ("resnet", RELU, WIDE, 10, 11_173_962),
    "ResNet-18, plain": ("resnet", PLAIN, WIDE, 10, 11_169_162),
    "ResNet, small": ("resnet", SMALL_RESNET, SMALL, 10, 44_226),
    "preactivation ResNet-18": ("resnet", {**RELU, "order": "pre"}, WIDE, 10, 11_172_170),
    "preactivation ResNet-18, plain": ("resnet", {**PLAIN, "order": "pre"}, WIDE, 10, 11_169_162),
    "preactivation ResNet, small": ("resnet", {**SMALL_RESNET, "order": "pre"}, SMALL, 10, 44_130),
    "SimpleViT": ("simple-vit", {}, WIDE, 10, 18_927_114),
    "SimpleViT, small": ("simple-vit", SMALL_VIT, (1, 8, 12), 10, 2_824),
    "linear": ("linear", {}, (100,), 1, 100),
    "diagonal linear": ("diagonal-linear", {}, (200,), 1, 400),
}
"""Architecture, options, shape of an input, outputs and number of parameters."""


def linear_layers(model):
    return [module for module in model if isinstance(module, nn.Linear)]


@pytest.mark.parametrize(
    ("width", "image", "sizes"),
    [
        (500, (28, 28), [784, 500, 500, 500, 10]),
        (500, (1, 28, 28), [784, 500, 500, 500, 2]),
        (64, (8, 8), [64, 64, 64, 64, 10]),
        (256, (1,), [1, 256, 256, 256, 1]),
        ([5, 6, 7], (1,), [1, 5, 6, 7, 1]),
        (200, (3, 32, 32), [3072, 200, 200, 10]),
        ([32, 16], (8, 8), [64, 32, 16, 10]),
    ],
)
@pytest.mark.parametrize(
    ("activation", "kind"), [("relu", nn.ReLU), ("tanh", nn.Tanh), ("gaussian", Gaussian)]
)
def test_a_perceptron_has_linear_layers_with_bias(width, image, sizes, activation, kind):
    """Four, or as many as its depth says."""
    depth, outputs = len(sizes) - 1, sizes[-1]
    options = {"width": width, "activation": activation} | ({} if depth == 4 else {"depth": depth})
    model = build({"name": "mlp", "options": options}, image, outputs)
    inner = [name for number in range(1, depth) for name in (f"fc{number}", f"act{number}")]
    assert [child for child, _ in model.named_children()] == ["flatten", *inner, f"fc{depth}"]
    assert all(isinstance(getattr(model, f"act{number}"), kind) for number in range(1, depth))
    shapes = [tuple(layer.weight.shape) for layer in linear_layers(model)]
    assert shapes == [(fan_out, fan_in) for fan_in, fan_out in pairwise(sizes)]
    assert [layer.bias.shape[0] for layer in linear_layers(model)] == sizes[1:]
    assert model(torch.zeros(3, *image)).shape == (3, outputs)


def test_every_architecture_is_among_them():
    assert {name for name, *_ in NETWORKS.values()} == {*keys_of("networks")} - {"timm"}


@pytest.mark.parametrize(
    ("name", "options", "shape", "outputs", "parameters"), NETWORKS.values(), ids=NETWORKS
)
def test_every_architecture_maps_a_batch_to_its_outputs_sample_by_sample(
    name, options, shape, outputs, parameters
):
    """And its number of parameters is the one from which disk use is predicted."""
    model = build({"name": name, "options": options}, shape, outputs).double().eval()
    x = torch.randn(2, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    together, alone = model(x), torch.cat([model(sample[None]) for sample in x])
    assert together.shape == (2, outputs)
    assert torch.allclose(together, alone, rtol=1e-12, atol=1e-14)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    # As planning sees it: from the syntax of the file.
    planned = convert(options, options_of("networks", name), "")
    assert planned.parameters(shape, outputs) == parameters


@pytest.mark.parametrize("name", ["digits", "eight-points", "gaussian-pair", "sparse-regression"])
def test_data_sets_have_the_shape_from_which_networks_are_predicted(name):
    raw = data.load(name)
    scaling = "none" if "train_targets" in raw else "unit"
    train = prepare(raw, {"classes": "all", "scaling": scaling}).train
    assert tuple(train.inputs.shape[1:]) == literal("data", name, "SHAPE")
    assert train.targets.shape[1] == literal("data", name, "OUTPUTS")


def test_an_activation_has_a_stacked_form():
    assert set(ACTIVATIONS) <= {*keys_of("train/layers")}
    assert {*get_args(get_args(Activation)[0])} == set(ACTIVATIONS)


def test_a_linear_model_starts_near_zero_without_a_bias():
    model = build({"name": "linear"}, (5, 2000), 10)
    draw(model, "framework", 3)
    ((name, weight),) = model.named_parameters()
    assert (name, tuple(weight.shape)) == ("fc.weight", (10, 10_000))
    assert weight.detach().std().item() == pytest.approx(1 / 500, rel=0.02)


def test_a_diagonal_linear_network_is_linear_with_products_as_coefficients():
    model = build({"name": "diagonal-linear"}, (7,), 2).double()
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
        model = build({"name": "diagonal-linear"}, (400,), 1)
        draw(model, "framework", seed)
        u, v = model.diagonal.u.detach(), model.diagonal.v.detach()
        assert u.std().item() == pytest.approx(v.std().item(), rel=0.25)
        scales.append(torch.cat([u, v]).std().item())
        products.append((u * v).mean().item() / scales[-1] ** 2)
    share = np.log(np.array(scales) / 0.01) / np.log(100)
    assert np.histogram(share, bins=4, range=(-0.05, 1.05))[0].min() > 30
    assert abs(np.mean(products)) < 4 / (200 * 400) ** 0.5


@pytest.mark.parametrize("order", ["post", "pre"])
def test_blocks_without_normalization_start_as_their_shortcuts(order):
    options = {**RELU, "normalization": "none", "order": order}
    model = build({"name": "resnet", "options": options}, WIDE, 2)
    x = torch.randn(2, 64, 32, 32, generator=torch.Generator().manual_seed(0))
    *before, changing = [model.block3] if order == "post" else model.block3
    for scheme in ("framework", "he-normal", "xavier-normal"):
        draw(model, scheme, 0)
        assert torch.equal(model.block1(x), x)
        assert not changing.body[-1].bias.any()
        assert torch.equal(model.block3(x), changing.shortcut(nn.Sequential(*before)(x)))


DO_NOT_FIT = [
    *(
        ("simple-vit", {}, shape, r"\(.*\) do not fit the network: patch is 4")
        for shape in [(9,), (8, 8), (1, 10, 8), (1, 8, 10)]
    ),
    *(("lenet5", RELU, shape, r"\(.*\) do not fit the network") for shape in [(8, 8), SMALL]),
    *(("simple-vit", {"width": width}, WIDE, r"options\.width") for width in (4, 18)),
    ("mlp", {**RELU, "width": [32, 32]}, (4,), r"options\.width: depth 4 needs 3 widths"),
]


@pytest.mark.parametrize(("name", "options", "shape", "words"), DO_NOT_FIT)
def test_images_and_widths_that_do_not_fit_are_refused_in_words(name, options, shape, words):
    with pytest.raises(ValueError, match=words):
        build({"name": name, "options": options}, shape, 10)


def test_the_default_initialization_is_the_frameworks_with_the_same_seed():
    model = build(NETWORK, (8, 8), 10)
    draw(model, "framework", seed=7)
    torch.manual_seed(7)
    for layer in linear_layers(model):
        expected = nn.Linear(layer.in_features, layer.out_features)
        assert torch.equal(layer.weight, expected.weight)
        assert torch.equal(layer.bias, expected.bias)
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
    draw(model, scheme, seed=0)
    for layer in linear_layers(model):
        weight = layer.weight.detach().double().numpy()
        scaled = weight / variance(layer.in_features, layer.out_features) ** 0.5
        count = weight.size
        assert abs((scaled**2).sum() - count) < 5 * np.sqrt(2 * count)
        assert abs(scaled.sum()) < 5 * np.sqrt(count)
        assert np.mean(np.abs(scaled) < 1) == pytest.approx(0.6827, abs=2.5 / np.sqrt(count))
        assert not layer.bias.any()


@pytest.mark.parametrize("scheme", ["framework", "he-normal", "xavier-normal"])
def test_initial_weights_depend_on_the_seed_alone_and_leave_the_generator_alone(scheme):
    def weights(seed, before):
        torch.manual_seed(before)
        model = build(NETWORK, (8, 8), 10)
        draw(model, scheme, seed)
        return torch.cat([parameter.flatten() for parameter in model.parameters()])

    model, state = build(NETWORK, (8, 8), 10), torch.get_rng_state()
    draw(model, scheme, seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(weights(3, before=0), weights(3, before=1))
    assert not torch.equal(weights(3, before=0), weights(4, before=0))
