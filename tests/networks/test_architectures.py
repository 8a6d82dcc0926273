"""Architectures, as others publish them too, and their initial weights."""

import math
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest
import scipy.stats
import torch
import torch.nn.functional as F
from torch import nn

from flatlab.core.options import Activation, options_of
from flatlab.core.registry import keys_of, literal
from flatlab.core.schema import convert
from flatlab.data import load
from flatlab.data._tensors import prepare
from flatlab.lab.train import train_packs
from flatlab.lab.train.initializations import draw
from flatlab.networks import ACTIVATIONS, Gaussian, build
from tests.lab.train.packs import settings

NETWORK = {"name": "mlp", "options": {"activation": "relu"}}
NARROW = (16, "pool", 16, "pool", 32, "pool", 64, "pool", 64, "pool")
RELU, WIDE, SMALL = {"activation": "relu"}, (3, 32, 32), (1, 8, 8)
PLAIN = {**RELU, "normalization": "none"}
CHEN_VGG = {**RELU, "widths": NARROW, "hidden": [128], "padding": 2}
SMALL_VGG = {**RELU, "widths": [8, 8, "pool", 16, 16, "pool"], "hidden": [32, 32]}
FLAT_VGG = {**RELU, "widths": [3], "hidden": [], "padding": 0}
SMALL_RESNET = {**RELU, "widths": [8, 16, 32]}
SMALL_VIT = {"patch": 2, "width": 16, "depth": 2, "heads": 3, "head_width": 5, "mlp_width": 7}
PENALIZED = {**RELU, "jacobian_penalty": 0.1}
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
    "penalized LeNet-5": ("penalized", {**PENALIZED, "base": "lenet5"}, (1, 8, 8), 10, 19_754),
    "penalized perceptron": ("penalized", {**PENALIZED, "base": "mlp"}, (1, 8, 8), 10, 42_634),
    "linear": ("linear", {}, (100,), 1, 100),
    "diagonal linear": ("diagonal-linear", {}, (200,), 1, 400),
}
"""Architecture, options, shape of an input, outputs and number of parameters."""


def linear_layers(model):
    return [module for module in model if isinstance(module, nn.Linear)]


@pytest.mark.parametrize(
    ("width", "image", "sizes"),
    [
        (500, (1, 28, 28), [784, 500, 500, 500, 2]),
        (64, (8, 8), [64, 64, 64, 64, 10]),
        ([5, 6, 7], (1,), [1, 5, 6, 7, 1]),
        (200, (3, 32, 32), [3072, 200, 200, 10]),
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


def test_every_architecture_is_among_them_and_every_activation_has_a_stacked_form():
    assert {name for name, *_ in NETWORKS.values()} == {*keys_of("networks")} - {"timm"}
    assert set(ACTIVATIONS) <= {*keys_of("train/layers")}
    assert {*get_args(get_args(Activation)[0])} == set(ACTIVATIONS)


@pytest.mark.parametrize(
    ("name", "options", "shape", "outputs", "parameters"), NETWORKS.values(), ids=NETWORKS
)
def test_architectures_map_sample_by_sample(name, options, shape, outputs, parameters):
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
    raw = load(name)
    scaling = "none" if "train_targets" in raw else "unit"
    train = prepare(raw, {"classes": "all", "scaling": scaling}).train
    assert tuple(train.inputs.shape[1:]) == literal("data", name, "SHAPE")
    assert train.targets.shape[1] == literal("data", name, "OUTPUTS")


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
    expected = torch.stack([sum(x[:, j] * u[k, j] * v[k, j] for j in range(7)) for k in range(2)])
    np.testing.assert_allclose(model(x).detach(), expected.T, rtol=1e-12)


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


UNEVEN = [(9,), (8, 8), (1, 10, 8), (1, 8, 10)]
DO_NOT_FIT = [
    *(("simple-vit", {}, shape, r"\(.*\) do not fit the network: patch is 4") for shape in UNEVEN),
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
        weight = layer.weight.detach().double().numpy().ravel()
        scaled = weight / variance(layer.in_features, layer.out_features) ** 0.5
        assert abs((scaled**2).sum() - scaled.size) < 5 * np.sqrt(2 * scaled.size)
        assert scipy.stats.kstest(scaled, "norm").pvalue > 1e-3
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


WIDTHS = (4, 6, 6)
DIGITS = {"set": "digits", "classes": "all", "scaling": "standardized"}
VIT = {"patch": 2, "width": 16, "depth": 2, "heads": 3, "head_width": 5, "mlp_width": 12}


def preactivation(model, x, training):
    """He et al. (2016b), with the projections of andriushchenko2023's public code.

    Written with the model's tensors in their order: of a block norm, convolution, norm,
    convolution, projection.
    """
    convolutions = (m for m in model.modules() if isinstance(m, nn.Conv2d))
    norms = (m for m in model.modules() if isinstance(m, nn.BatchNorm2d))

    def convolved(x, stride=1):
        layer = next(convolutions)
        return F.conv2d(x, layer.weight, layer.bias, stride, padding=len(layer.weight[0, 0]) // 2)

    def activated(x):
        layer = next(norms, None)
        if layer is None:
            return F.relu(x)
        averages = layer.running_mean.clone(), layer.running_var.clone()
        return F.relu(F.batch_norm(x, *averages, layer.weight, layer.bias, training))

    x = convolved(x)
    for stage in range(len(WIDTHS)):
        for stride in (2 if stage else 1, 1):
            seen = activated(x)
            y = convolved(activated(convolved(seen, stride)))
            x = y + (convolved(seen, stride) if stride == 2 else x)
    x = activated(x).mean((2, 3))
    assert [*convolutions, *norms] == []
    return F.linear(x, model.fc.weight, model.fc.bias)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("normalization", ["batch", "none"])
def test_a_preactivation_resnet_is_the_published_one(normalization, training, normal):
    options = {"widths": WIDTHS, "order": "pre", "normalization": normalization}
    model = build({"name": "resnet", "options": {"activation": "relu", **options}}, (3, 9, 8), 5)
    model = model.double().train(training)
    for name, tensor in model.state_dict().items():
        if name.endswith(("running_mean", "running_var")):
            tensor.uniform_(0.5, 2, generator=torch.Generator().manual_seed(len(name)))
    x = normal(4, 3, 9, 8)
    expected = preactivation(model, x, training)
    assert torch.allclose(model(x), expected, rtol=0, atol=1e-13)


def simple_vit(tensors, x):
    """Beyer et al. (2022), one patch and one head after the other.

    tensors: the parameters of the network by name.  x: (batch, channels, height, width).
    """
    size, width, heads, each = VIT["patch"], VIT["width"], VIT["heads"], VIT["head_width"]

    def normalized(x, name):
        return F.layer_norm(x, (width,), tensors[f"{name}.weight"], tensors[f"{name}.bias"])

    def linear(x, name):
        return F.linear(x, tensors[f"{name}.weight"], tensors.get(f"{name}.bias"))

    tokens = []
    for row in range(x.shape[2] // size):
        for column in range(x.shape[3] // size):
            tile = x[:, :, row * size :, column * size :][:, :, :size, :size]
            token = linear(tile.permute(0, 2, 3, 1).flatten(1), "embed")
            waves = [10_000 ** -(k / (width // 4 - 1)) for k in range(width // 4)]
            parts = [(math.sin, column), (math.cos, column), (math.sin, row), (math.cos, row)]
            position = [wave(at * frequency) for wave, at in parts for frequency in waves]
            tokens.append(token + torch.tensor(position).to(x.dtype))  # rounded to float32
    x = torch.stack(tokens, 1)
    for block in range(1, VIT["depth"] + 1):
        name = f"attention{block}.body"
        qkv = linear(normalized(x, f"{name}.0"), f"{name}.1.qkv")
        q, k, v = (part.split(each, -1) for part in qkv.split(heads * each, -1))
        seen = [F.scaled_dot_product_attention(*head) for head in zip(q, k, v, strict=True)]
        x = x + linear(torch.cat(seen, -1), f"{name}.1.out")
        name = f"mlp{block}.body"
        hidden = F.gelu(linear(normalized(x, f"{name}.0"), f"{name}.1"))
        x = x + linear(hidden, f"{name}.3")
    return linear(normalized(x.mean(1), "norm"), "fc")


def test_simple_vit_is_the_published_one(normal):
    model = build({"name": "simple-vit", "options": VIT}, (3, 6, 8), 5).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    x = normal(4, 3, 6, 8)
    assert torch.allclose(model(x), simple_vit(model.state_dict(), x), rtol=0, atol=1e-11)


@pytest.mark.more
@pytest.mark.parametrize(
    ("order", "lr"),
    [
        *(("pre", 0.1), ("post", 0.01)),
        *(pytest.param(*each, marks=pytest.mark.long) for each in [("post", 0.1), ("pre", 0.01)]),
    ],
)
def test_a_resnet_without_normalization_trains_at_the_rates_of_macdonald2023(order, lr):
    """With momentum and weight decay as there; `framework` would hardly start at the lowest."""
    options = {"normalization": "none", "order": order, "widths": [8, 16, 32]}
    rule = {"lr": lr, "momentum": 0.9, "weight_decay": 5e-4, "batch_size": 32, "mode": "batched"}
    rule |= {"loss": "cross-entropy", "iterations": 200, "precision": "float32"}
    pack = settings("resnet", (0, 1), data=DIGITS, options=options, **rule)
    pack["network"]["initialization"] = "he-normal"
    pack["curves"] = {"every": 200, "log_spaced": None}
    [trained] = train_packs(load("digits"), [pack])
    assert (trained.curves["train_accuracy"].values[:, -1] > 75).all()


def dropping(dropout):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        chosen = {"name": "simple-vit", "options": {**VIT, "dropout": dropout}}
        return build(chosen, (1, 4, 4), 3)


def test_dropout_adds_no_parameters_and_changes_nothing_in_evaluation():
    x = torch.randn(5, 1, 4, 4)
    plain, other = dropping(0.0), dropping(0.5)
    assert plain.state_dict().keys() == other.state_dict().keys()
    drops = [sum(isinstance(m, nn.Dropout) for m in each.modules()) for each in (plain, other)]
    assert drops == [0, 4]
    assert torch.equal(plain.eval()(x), other.eval()(x))


def test_in_training_it_drops_what_a_block_adds_and_keeps_the_rest():
    torch.manual_seed(1)
    block = dropping(0.5).train().attention1
    x = torch.randn(200, 4, VIT["width"])
    added = block(x) - x
    whole = block.eval()(x) - x
    dropped = added.abs() < 1e-7
    assert abs(float(dropped.float().mean()) - 0.5) < 0.05
    torch.testing.assert_close(added[~dropped], 2 * whole[~dropped], rtol=1e-3, atol=1e-5)
