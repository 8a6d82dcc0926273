"""Layers of many networks at once: as those of the framework, each by itself."""

import pytest
import torch
from torch import nn

from flatlab.data._tensors import Split
from flatlab.lab.plan import keys_of
from flatlab.lab.train.stack import Stack
from flatlab.lab.train.stacking import NotStackable, computed_order, stack_models
from flatlab.losses import loss_of
from flatlab.networks import Residual, build, options_of
from tests.lab.train.modes.rules import NETWORKS
from tests.lab.train.packs import TRAINING, small

RULES_OF_LAYERS = keys_of("train/layers")


@pytest.mark.parametrize(("name", "options", "shape"), NETWORKS.values(), ids=NETWORKS)
def test_an_architecture_lists_the_rules_of_its_layers_and_no_others(name, options, shape):
    """An edit to a rule that it does not need would train it again."""
    network = small(name, **options)
    model = build(network, shape if len(shape) == 3 else (1, *shape), 2)
    rules = options_of(network).layers()
    stack_models([model] * 2, rules)
    for rule in rules:
        with pytest.raises(NotStackable):
            stack_models([model], [other for other in rules if other != rule])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_relu_may_follow_pooling_instead_of_preceding_it(dtype):
    """Small integers have many ties and zeros; the rest is what a diverged network has."""
    network = nn.Sequential(nn.ReLU(), nn.MaxPool2d(2), nn.ReLU(), nn.MaxPool2d(3))
    assert [name for name, _ in computed_order(network)] == ["1", "0", "3", "2"]
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-3, 3, (50, 4, 13, 12), generator=generator).to(dtype)
    x[::10, 0, 2:4, :3], x[5::10, 1, 5, 5:8] = torch.nan, torch.inf
    expected = network(x.requires_grad_())
    gradient = torch.randn(expected.shape, generator=generator, dtype=dtype)
    (through,) = torch.autograd.grad(expected, x, gradient)
    layers, _ = stack_models([network], RULES_OF_LAYERS)
    y, backward = layers.forward(x.detach()[None], True)
    exactly = {"rtol": 0, "atol": 0, "equal_nan": True}
    torch.testing.assert_close(y, expected.detach(), **exactly)
    torch.testing.assert_close(backward(gradient, True)[0][0], through, **exactly)


NOT_STACKABLE = {
    "overlapping windows": nn.MaxPool2d(3, 2),
    "padding that is not zero": nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular"),
    "padding in words": nn.Conv2d(2, 2, 3, padding="same"),
    "batch norm without averages": nn.BatchNorm2d(2, track_running_stats=False),
    "batch norm with a cumulative average": nn.BatchNorm2d(2, momentum=None),
    "dropout": nn.Dropout(),
    "layer norm": nn.LayerNorm(8),
    "softmax": nn.Softmax(1),
    "linear layer on images": nn.Linear(4, 4),
}


@pytest.mark.parametrize("layer", NOT_STACKABLE.values(), ids=NOT_STACKABLE)
def test_what_has_no_stacked_form_is_refused_by_name(layer):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), Residual(nn.Sequential(layer), nn.Sequential()))
    with pytest.raises(NotStackable, match=rf"1\.body\.0 .*{type(layer).__name__}"):
        stack_models([model], RULES_OF_LAYERS)


STACKABLE = {
    "groups, strides, dilation": nn.Conv2d(2, 4, 3, 2, 1, dilation=2, groups=2),
    "uneven kernel without bias": nn.Conv2d(2, 3, (3, 1), padding=(1, 0), bias=False),
    "padding beyond half a kernel": nn.Conv2d(2, 3, 3, padding=2),
    "uneven padding beyond it": nn.Conv2d(2, 3, (3, 2), 2, padding=(4, 1), dilation=(3, 1)),
    "batch norm without parameters": nn.BatchNorm2d(2, affine=False),
    "batch norm": nn.BatchNorm2d(2),
    "pooling of three": nn.MaxPool2d(3),
    "average": nn.AdaptiveAvgPool2d((1, 1)),
    "residual": Residual(nn.Sequential(nn.Conv2d(2, 2, 1), nn.Tanh()), nn.Sequential()),
    "nested residuals": Residual(
        nn.Sequential(Residual(nn.Sequential(nn.Conv2d(2, 2, 1)), nn.Sequential())),
        nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)),
    ),
}


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("layer", STACKABLE.values(), ids=STACKABLE)
def test_gradients_of_a_stack_are_those_of_autograd(layer, layout, normal, monkeypatch):
    """In the layouts of both precisions, to the digits of float64."""
    monkeypatch.setattr("flatlab.lab.train.stacking.image_layout", lambda *_: layout)
    torch.manual_seed(0)
    probe = nn.Sequential(layer, nn.Flatten()).double()
    size = probe(normal(2, 2, 8, 8)).shape[1]

    def network():
        first = nn.Conv2d(1, 2, 1)
        return nn.Sequential(first, nn.ReLU(), layer, nn.Flatten(), nn.Linear(size, 3)).double()

    models = [network(), network()]
    training = {**TRAINING, "loss": "cross-entropy"}
    targets = nn.functional.one_hot(torch.arange(6) % 3, 3).double()
    split = Split(normal(6, 1, 8, 8, seed=4), torch.arange(6) % 3, targets)
    part = Stack(models, split, training, RULES_OF_LAYERS, {})
    index = torch.tensor([[0, 1, 2, 5], [3, 4, 5, 0]])
    found = part._part_gradients(index, part.layers, {})
    for run, model in enumerate(models):
        outputs = model.train()(split.inputs[index[run]])
        loss = loss_of(training).reference(outputs, split.targets[index[run]])
        expected = torch.autograd.grad(loss, list(model.parameters()))
        assert len(expected) == len(found)
        for (name, _), theirs, ours in zip(model.named_parameters(), expected, found, strict=True):
            mine = ours.reshape(2, *theirs.shape)[run]
            assert torch.allclose(mine, theirs, rtol=0, atol=1e-12), name
