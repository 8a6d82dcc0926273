"""Neural collapse where it is easily mistaken; what cannot be had is left out with its reason."""

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from tests.networks.small_networks import small
from tests.networks.written import Written
from tests.refusals import refused


def collapse_of(model, inputs, labels, **options):
    return measured(model, inputs, labels, representations=["collapse", "linear-share"], **options)


def identity(width, outputs):
    """A network whose second layer reads its inputs as they are."""
    torch.manual_seed(0)
    first, last = nn.Linear(width, width, bias=False), nn.Linear(width, outputs)
    nn.init.eye_(first.weight)
    return nn.Sequential(first, last).double()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_dead_layer_has_no_collapse(dtype):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)).double()
    model[0].bias.data.fill_(-1e3)
    inputs, labels = torch.randn(12, 4, dtype=torch.float64), torch.arange(12) % 2
    found = collapse_of(model, inputs, labels, dtype=dtype)
    assert found.collapse_within.notnull().values.tolist() == [True, False]
    for name in ("linear_share", "linear_share_within"):
        assert np.isnan(found[name][1]), name


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_equal_class_means_are_no_collapse_either(dtype):
    """They differ in rounding alone: without a floor NC1 is 1e31."""
    torch.manual_seed(0)
    half = torch.randn(30, 4, dtype=torch.float64)
    inputs = torch.cat([half, half.flip(0) * 1.0]) + 3.7
    labels = torch.arange(60) // 30
    found = collapse_of(identity(4, 2), inputs, labels, dtype=dtype)
    assert found.collapse_within.isnull().all()


def test_two_means_that_agree_lower_the_rank():
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    inputs = torch.cat([means, means[:1], means + 0.1, means[:1] + 0.1])
    found = collapse_of(identity(4, 4), inputs, torch.arange(8) % 4)
    assert np.isnan(found.collapse_within).all()


def measured(model, inputs, labels=None, **options):
    return flatlab.measure(model, inputs, labels, families="representations", **options)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("preact-resnet", "go around the inputs of block1.body.2"),
        ("simple-vit", "does not alone read the inputs"),
    ],
)
def test_bounds_of_networks_that_have_none(name, reason):
    model, inputs, labels = small(name)
    words = ["bounds: ", reason, "leave it out"]
    refused(words, measured, model, inputs, labels, representations=["local", "bounds"])
    found = measured(model, inputs, labels)
    assert any(reason in each for each in found.attrs["representations_left_out"])
    if name == "preact-resnet":  # the others are kept
        around = found.representation_bound.isnull().to_series()
        assert around["block1.body.2"]
        assert not around["fc"]


def test_bounds_without_a_linear_head():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 2), nn.Tanh(), nn.Linear(2, 3), nn.Sigmoid()).double()
    inputs = torch.randn(5, 4, dtype=torch.float64)
    found = measured(model, inputs)
    assert "head_bound" not in found
    assert found.representation_bound.notnull().all()
    refused("does not end in a linear layer", measured, model, inputs, representations=["bounds"])


@pytest.mark.parametrize("part", ["collapse", "linear-share"])
def test_classes_are_needed(part):
    model, inputs, _ = small("mlp-relu")
    refused(f"{part}: there are no classes", measured, model, inputs, representations=[part])
    left_out = measured(model, inputs).attrs["representations_left_out"]
    assert f"{part}: there are no classes" in left_out


def test_one_class_has_no_collapse():
    model, inputs, labels = small("mlp-relu")
    refused("there is one class", measured, model, inputs, 0 * labels, representations=["collapse"])
    found = measured(model, inputs, 0 * labels)
    assert found.collapse_within.isnull().all()
    assert any("there is one class" in each for each in found.attrs["representations_left_out"])
    assert found.linear_share.notnull().all()


def test_more_samples_than_given_for_collapse():
    model, inputs, labels = small("mlp-relu")
    for size, words in ((10, "collapse_samples=10: there are 9"), ("split", "is for experiments")):
        refused(words, measured, model, inputs, labels, collapse_samples=size)
    found = measured(model, inputs, labels, collapse_samples=6)
    part = measured(model, inputs[:6], labels[:6])
    for name in (n for n in found if n.startswith(("collapse", "linear"))):
        assert found[name].values == pytest.approx(part[name].values, nan_ok=True), name


def test_networks_without_layers():
    shift = nn.Parameter(torch.ones(3, dtype=torch.float64))
    shifted = Written(lambda net, x: x + net.shift, shift=shift)

    inputs = torch.randn(4, 3, dtype=torch.float64)
    refused("none that is called as such a layer", measured, shifted, inputs)


def test_weights_that_are_shared_may_violate_the_bounds():
    """A kernel whose gradients cancel between two positions of a constant image."""

    ends = lambda z: (z[:, :, 0, 0] - z[:, :, 3, 3]).flatten(1)  # noqa: E731

    torch.manual_seed(0)
    parts = {"conv": nn.Conv2d(1, 1, 3, bias=False), "head": nn.Linear(1, 1, bias=False)}
    model = Written(lambda net, x: net.head(ends(net.conv(x))), **parts).double()
    found = measured(model, torch.ones(2, 1, 6, 6, dtype=torch.float64))
    assert found.head_bound == pytest.approx(0, abs=1e-12)
    assert found.head_violations == 2
    assert found.representation_violations.values.tolist() == [0, 2]
    assert np.isinf(found.representation_bound[0])
