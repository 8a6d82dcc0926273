"""Estimates from random directions against exact values."""

import numpy as np
import pytest
import torch

import flatlab
from tests.networks.small_networks import LINEAR, small

ESTIMATED = ("feature_sensitivity", "feature_dimension")


def measured(model, inputs, labels=None, **options):
    return flatlab.measure(model, inputs, labels, families="representations", **options)


@pytest.mark.parametrize("name", LINEAR)
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


def test_errors_say_how_far_estimates_are(mlp, normal):
    """Over 60 seeds: the mean is unbiased, and the errors are the deviation."""
    model, inputs = mlp((6, 9, 9, 3)), normal(4, 6)
    exact = measured(model, inputs, representations=["local", "bounds"])
    seeds = [
        measured(
            model, inputs, representations=["local", "bounds"], representations_accuracy=0.9, seed=k
        )
        for k in range(60)
    ]

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


def test_batches_and_order_of_calls_change_nothing():
    model, inputs, labels = small("lenet")
    whole = measured(model, inputs, labels, representations_accuracy=0.2)
    torch.rand(5)
    parts = measured(model, inputs, labels, representations_accuracy=0.2, batch_size=4)
    for name in whole:
        close = pytest.approx(whole[name].values, rel=1e-4, abs=1e-6, nan_ok=True)
        assert parts[name].values == close, name


def test_violations_of_estimates_are_beyond_their_errors(linear_bounds):
    for found in linear_bounds:
        assert not found.representation_violations.any()


@pytest.fixture
def linear_bounds(mlp, normal):
    return [
        measured(mlp((5, 7, 3, 4), seed=k), normal(6, 5, seed=k), representations_accuracy=0.3)
        for k in range(5)
    ]
