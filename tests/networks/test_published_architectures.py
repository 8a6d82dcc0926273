"""Preactivation ResNets and SimpleViT are what others publish, and ResNets train without norms."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flatlab.data import load
from flatlab.data._tensors import prepare
from flatlab.lab.train import train_packs
from flatlab.lab.train.initializations import draw
from flatlab.networks import build
from tests.lab.train.by_hand import SEED, batches
from tests.lab.train.packs import DATA, TRAINING, images, settings

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


def test_simple_vit_trains_as_one_writes_it_with_the_framework():
    """60 steps of SGD with momentum in float64, with torch's own gradients and optimizer."""
    raw, seed = images((8, 8)), SEED
    rule = {"momentum": 0.9, "loss": "cross-entropy", "iterations": 60}
    pack = settings("simple-vit", (0, seed), options=VIT, **rule)
    [trained] = train_packs(raw, [pack])
    model = build({"name": "simple-vit", "options": VIT}, (1, 8, 8), 3)
    draw(model, "framework", seed)
    tensors = {name: t.detach().double() for name, t in model.named_parameters()}
    for tensor in tensors.values():
        tensor.requires_grad_()
    update = torch.optim.SGD(tensors.values(), lr=TRAINING["lr"], momentum=0.9)
    split = prepare(raw, DATA).train
    for batch in batches({**TRAINING, **rule}, 60):
        update.zero_grad()
        outputs = simple_vit(tensors, split.inputs[batch])
        F.cross_entropy(outputs, split.labels[batch]).backward()
        update.step()
    arrays, _ = trained.weights
    assert set(arrays) == set(tensors)
    for name, tensor in tensors.items():
        assert arrays[name][1, -1] == pytest.approx(tensor.detach().numpy(), rel=0, abs=1e-10), name


@pytest.mark.parametrize("order", ["post", "pre"])
@pytest.mark.parametrize("lr", [0.1, pytest.param(0.03, marks=pytest.mark.long), 0.01])
def test_a_resnet_without_normalization_trains_at_the_rates_of_macdonald2023(order, lr):
    """With momentum and weight decay as there; `framework` would hardly start at the lowest."""
    options = {"normalization": "none", "order": order, "widths": [8, 16, 32]}
    rule = {"lr": lr, "momentum": 0.9, "weight_decay": 5e-4, "batch_size": 32, "mode": "batched"}
    rule |= {"loss": "cross-entropy", "iterations": 200, "precision": "float32"}
    pack = settings("resnet", (0, 1), data=DIGITS, options=options, **rule)
    pack["network"]["initialization"] = "he-normal"
    pack["curves"] = {"every": 200, "log_spaced": None}
    [trained] = train_packs(load("digits"), [pack])
    assert (trained.curves["train_accuracy"].values[:, -1] > 85).all()


def network(dropout):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        chosen = {"name": "simple-vit", "options": {**VIT, "dropout": dropout}}
        return build(chosen, (1, 4, 4), 3)


def test_dropout_adds_no_parameters_and_changes_nothing_in_evaluation():
    x = torch.randn(5, 1, 4, 4)
    plain, dropping = network(0.0), network(0.5)
    assert plain.state_dict().keys() == dropping.state_dict().keys()
    assert not any(isinstance(module, nn.Dropout) for module in plain.modules())
    assert sum(isinstance(module, nn.Dropout) for module in dropping.modules()) == 4
    assert torch.equal(plain.eval()(x), dropping.eval()(x))


def test_in_training_it_drops_what_a_block_adds_and_keeps_the_rest():
    torch.manual_seed(1)
    block = network(0.5).train().attention1
    x = torch.randn(200, 4, VIT["width"])
    added = block(x) - x
    whole = block.eval()(x) - x
    dropped = added.abs() < 1e-7
    assert abs(float(dropped.float().mean()) - 0.5) < 0.05
    torch.testing.assert_close(added[~dropped], 2 * whole[~dropped], rtol=1e-3, atol=1e-5)
