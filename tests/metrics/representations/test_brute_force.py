"""Every quantity of `representations` against whole Jacobians, for networks of every kind."""

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab.derivatives.feature_maps import FeatureMaps
from flatlab.derivatives.probe import probe
from tests.metrics.geometry.architectures import network
from tests.metrics.representations.reference import quantities
from tests.networks.small_networks import LINEAR, small

EXACT = 1e-9
WITHOUT_BOUNDS = ("simple-vit",)
OF_BOUNDS = ("representation_", "penultimate_", "head_")


def measured(model, inputs, labels=None, **options):
    return flatlab.measure(model, inputs, labels, families="representations", **options)


def compare(found, expected):
    for name, value in expected.items():
        close = pytest.approx(np.asarray(value, float), rel=EXACT, abs=EXACT, nan_ok=True)
        assert found[name].values == close, name


def without_bounds(expected):
    bounds = [n for n in expected if n.startswith(OF_BOUNDS) and n != "representation_dimension"]
    return {name: value for name, value in expected.items() if name not in bounds}


@pytest.mark.parametrize("name", LINEAR)
def test_every_quantity_is_what_its_definition_says(name):
    model, inputs, labels = small(name)
    found = measured(model, inputs, labels)
    layers = [str(layer) for layer in found.layer.values]
    head = None if name == "simple-vit" else layers[-1]
    expected = quantities(model, inputs, labels, layers, layers[-1])
    if name in WITHOUT_BOUNDS:
        expected = without_bounds(expected)
        assert "head_bound" not in found
    assert head is None or found.head_share.notnull()
    compare(found, expected)


@pytest.mark.parametrize(
    "name", ["linear twice", "tied", "sequence", "circular", "strides, groups", "one dimension"]
)
def test_layers_that_are_used_twice_or_see_positions_have_them_too(name):
    """The inputs of several uses are concatenated; only the local quantities need no classes."""
    model, inputs = network(name)
    found = measured(model, inputs, representations=["local"])
    layers = [str(layer) for layer in found.layer.values]
    expected = quantities(model, inputs, [0, 1, 0], layers, None)
    compare(found, {n: v for n, v in expected.items() if n.startswith(("feature", "normalized"))})


@pytest.mark.parametrize("name", ["lenet", "mlp-tanh", "timm"])
@pytest.mark.parametrize("way", ["_forward", "rows"])
def test_forward_and_backward_derivatives_agree(name, way, monkeypatch):
    """Where there is no forward derivative, and where rows of A^l are fewer."""
    model, inputs, labels = small(name)
    before = measured(model, inputs, labels)
    if way == "rows":
        narrow = "flatlab.metrics._representations.spectra._fewer_rows"
        monkeypatch.setattr(narrow, lambda *_: True)
    else:

        def derivative(self, x, tangents):
            return self._twice_back(x, tangents)

        monkeypatch.setattr(FeatureMaps, "along", derivative)
    after = measured(model, inputs, labels)
    for quantity in before:
        close = pytest.approx(before[quantity].values, rel=EXACT, abs=EXACT, nan_ok=True)
        assert after[quantity].values == close, quantity


def test_an_operation_without_forward_derivative_takes_the_other_way():
    class Cubed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * gradient

    class Cube(nn.Module):
        def forward(self, x):
            return Cubed.apply(x)

    class Power(nn.Module):
        def forward(self, x):
            return x**3

    torch.manual_seed(0)
    layers = nn.Linear(4, 5), Cube(), nn.Linear(5, 3)
    model = nn.Sequential(*layers).double()
    plain = nn.Sequential(layers[0], Power(), layers[2])
    inputs = torch.randn(6, 4, dtype=torch.float64)
    for accuracy, error in (("exact", EXACT), (0.1, 1e-6)):  # estimates are in float32
        found = measured(model, inputs, representations_accuracy=accuracy)
        same = measured(plain, inputs, representations_accuracy=accuracy)
        for name in found:
            close = pytest.approx(same[name].values, rel=error, abs=error, nan_ok=True)
            assert found[name].values == close, name
    maps = FeatureMaps(model, {"2": model[2]})
    maps.along(inputs, inputs[None])
    assert not maps._forward


def test_float32_has_the_same_values_to_its_precision():
    model, inputs, labels = small("lenet")
    exact, single = (
        measured(model, inputs, labels),
        measured(model, inputs, labels, dtype="float32"),
    )
    for name in ("feature_sensitivity", "feature_mls", "head_bound", "collapse_within"):
        assert single[name].values == pytest.approx(exact[name].values, rel=1e-3), name


def test_a_wide_perceptron_is_measured_in_the_row_space_of_its_first_layer(mlp, normal):
    """Whose Jacobians are large, with dead units, and in float32."""
    model, inputs = mlp((90, 80, 70, 3)), normal(4, 90)
    layers = list(probe(model, inputs).layers)
    expected = quantities(model, inputs, [0, 1, 0, 1], layers, layers[-1])
    compare(measured(model, inputs, torch.tensor([0, 1, 0, 1])), expected)
