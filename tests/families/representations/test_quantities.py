"""Every quantity of `representations` against whole Jacobians, exact or within its error."""

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab.derivatives.jacobians.feature_maps import FeatureMaps
from flatlab.derivatives.per_sample.probe import probe
from tests.families.geometry.architectures import network
from tests.families.representations.reference import quantities
from tests.networks.small_networks import LINEAR, small
from tests.networks.written import Written

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
    return {name: value for name, value in expected.items() if not name.startswith(OF_BOUNDS)}


@pytest.mark.first(3)
@pytest.mark.parametrize("name", LINEAR)
def test_every_quantity_is_what_its_definition_says(name):
    model, inputs, labels = (part[:5] if k else part for k, part in enumerate(small(name)))
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


@pytest.mark.parametrize(
    ("name", "way"), [("lenet", "_forward"), ("mlp-tanh", "rows"), ("timm", "_forward")]
)
def test_forward_and_backward_derivatives_agree(name, way, monkeypatch):
    """Where there is no forward derivative, and where rows of A^l are fewer."""
    model, inputs, labels = small(name)
    before = measured(model, inputs, labels)
    if way == "rows":
        narrow = "flatlab.families.representations.local._fewer_rows"
        monkeypatch.setattr(narrow, lambda *_: True)
    else:
        monkeypatch.setattr(FeatureMaps, "along", FeatureMaps._twice_back)
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

    torch.manual_seed(0)
    first, last = nn.Linear(4, 5).double(), nn.Linear(5, 3).double()
    cubes = Written(lambda _, x: Cubed.apply(x)), Written(lambda _, x: x**3)
    model, plain = (nn.Sequential(first, cube, last) for cube in cubes)
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


def test_a_wide_perceptron_is_measured_in_the_row_space_of_its_first_layer(mlp, normal):
    """Whose Jacobians are large, with dead units, and in float32."""
    model, inputs = mlp((90, 80, 70, 3)), normal(4, 90)
    layers = list(probe(model, inputs).layers)
    expected = quantities(model, inputs, [0, 1, 0, 1], layers, layers[-1])
    compare(measured(model, inputs, torch.tensor([0, 1, 0, 1])), expected)


ESTIMATED = ("feature_sensitivity", "feature_dimension")


@pytest.mark.first(2)
@pytest.mark.parametrize("name", ["mlp-relu", "lenet", "resnet", "timm"])
def test_estimates_are_within_their_errors(name):
    """Every layer within five standard errors, the largest of which is what was asked for."""
    model, inputs, labels = small(name)
    exact = measured(model, inputs, labels)
    found = measured(model, inputs, labels, representations_accuracy=0.05)
    assert found.attrs["representations_directions"] >= 20
    for quantity in ESTIMATED:
        error = found[f"{quantity}_error"]
        assert (abs(found[quantity] - exact[quantity]) <= 5 * error + 1e-6).all(), quantity
        assert (error <= 0.1 * found[quantity]).all()
        assert (exact[f"{quantity}_error"] == 0).all()
    assert found.feature_mls.values == pytest.approx(exact.feature_mls.values, rel=0.05)
    normalized = exact.normalized_feature_mls.values
    assert found.normalized_feature_mls.values == pytest.approx(normalized, rel=0.05)
    assert (found.feature_mls_residual[1:] > 0).any() or found.sizes["layer"] == 1
    assert (found.feature_mls_per_sample <= exact.feature_mls_per_sample * (1 + 1e-6)).all()
    if "head_share" in exact:
        error = float(found.head_share_error)
        assert found.head_share == pytest.approx(float(exact.head_share), abs=5 * error + 1e-6)
    for quantity in ("collapse_within", "linear_share"):  # which are no estimates
        assert found[quantity].equals(exact[quantity])
    assert "feature_log_volume" not in found


@pytest.mark.more
def test_errors_say_how_far_estimates_are(mlp, normal):
    """Over 60 seeds: the mean is unbiased, and the errors are the deviation."""
    model, inputs = mlp((6, 9, 9, 3)), normal(4, 6)
    parts = {"representations": ["local", "bounds"]}
    exact, parts["representations_accuracy"] = measured(model, inputs, **parts), 0.9
    seeds = [measured(model, inputs, seed=k, **parts) for k in range(60)]

    def numbers(found, name):
        """Of the head, or of all layers but the first, which is x itself."""
        return np.atleast_1d(found[name].values)[0 if name.startswith("head") else 1 :]

    for name in (*ESTIMATED, "head_share"):
        values = np.stack([numbers(found, name) for found in seeds])
        errors = np.stack([numbers(found, f"{name}_error") for found in seeds])
        deviation = values.std(0, ddof=1)
        away = abs(values.mean(0) - numbers(exact, name))
        assert (away < 4 * deviation / len(seeds) ** 0.5 + 1e-12).all(), name
        assert errors.mean(0) == pytest.approx(deviation, rel=0.35), name


def test_a_smaller_error_takes_more_directions():
    model, inputs, _ = small("mlp-tanh")
    rough, fine = (measured(model, inputs, representations_accuracy=a) for a in (0.2, 0.01))
    assert fine.attrs["representations_directions"] > rough.attrs["representations_directions"]
    assert (fine.feature_sensitivity_error / fine.feature_sensitivity).max() < 0.015


def test_what_does_not_fit_in_memory_is_estimated_by_default():
    model, inputs, _ = small("mlp-tanh")
    how = {"representations": ["local"]}
    assert measured(model, inputs, **how).attrs["representations_accuracy"] == "exact"
    with pytest.warns(UserWarning, match="representations_accuracy='exact' needs it"):
        found = measured(model, inputs, memory=1, **how)
    wanted = found.attrs["representations_accuracy"]
    assert wanted == 0.02
    assert found.equals(measured(model, inputs, representations_accuracy=wanted, **how))


def test_batches_and_order_of_calls_change_nothing():
    model, inputs, labels = small("lenet")
    whole = measured(model, inputs, labels, representations_accuracy=0.2)
    torch.rand(5)
    parts = measured(model, inputs, labels, representations_accuracy=0.2, batch_size=4)
    for name in whole:
        close = pytest.approx(whole[name].values, rel=1e-4, abs=1e-6, nan_ok=True)
        assert parts[name].values == close, name


@pytest.mark.parametrize("seed", range(5))
def test_violations_of_estimates_are_beyond_their_errors(seed, mlp, normal):
    model, inputs = mlp((5, 7, 3, 4), seed=seed), normal(6, 5, seed=seed)
    found = measured(model, inputs, representations_accuracy=0.3)
    assert not found.representation_violations.any()
