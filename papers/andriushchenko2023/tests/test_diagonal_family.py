"""Diagonal linear networks: closed forms against autograd, and the regression that they fit."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import flatlab
from flatlab.data import load
from flatlab.data._tensors import prepare
from flatlab.families.accuracy import evaluated
from flatlab.families.diagonal import SCALES
from flatlab.losses import half_mse
from flatlab.networks.diagonal_linear import Diagonal
from tests.refusals import refused

WIDTH, SAMPLES = 6, 4


def network(seed=0, width=WIDTH):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), Diagonal(width, 1)).double()


def weights(model):
    return tuple(parameter.detach()[0] for parameter in (model[1].u, model[1].v))


def rescaled_hessian(model, x, y, scales):
    """By autograd of the sum of squares, and by c as the paper defines it."""
    u, v = weights(model)

    def loss(theta):
        u, v = theta.split(len(theta) // 2)
        return (x @ (u * v) - y[:, 0]).square().sum() / 2

    hessian = torch.autograd.functional.hessian(loss, torch.cat([u, v]))
    ratio = (u / v).abs().sqrt()
    c = {
        "none": torch.ones(2 * len(u)),
        "balanced": torch.cat([ratio, 1 / ratio]),
        "printed": torch.cat([1 / ratio, ratio]),
        "elementwise": torch.cat([u, v]).abs(),
    }[scales]
    return c[:, None] * hessian * c


def report_of(model, x, y=None):
    return flatlab.measure(model, x, y, families=["diagonal"])


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("seed", range(4))
def test_the_rescaled_hessian_is_that_of_autograd_with_any_residual(scales, seed, normal):
    model, x, y = network(seed), normal(SAMPLES, WIDTH, seed=seed), normal(SAMPLES, 1, seed=9)
    found = report_of(model, x, y).sel(scales=scales)
    expected = rescaled_hessian(model, x, y, scales)
    assert found.rescaled_trace.item() == pytest.approx(expected.trace().item(), rel=1e-10)
    largest = torch.linalg.eigvalsh(expected)[-1].item()
    assert found.rescaled_lambda_max.item() == pytest.approx(largest, rel=1e-9)


def test_without_targets_the_network_fits_them(normal):
    model, x = network(), normal(SAMPLES, WIDTH)
    with torch.no_grad():
        fitted = report_of(model, x, model(x))
    for name, values in report_of(model, x).items():
        np.testing.assert_allclose(values, fitted[name], rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000))
def test_with_whitened_data_sharpness_is_a_norm_of_the_coefficients(seed, normal):
    """G = 1: traces 2 |b|_1 and 2 |b|_2^2, eigenvalues 2 |b|_inf and 2 |b|_inf^2 at a minimum."""
    model = network(seed)
    found = report_of(model, torch.eye(WIDTH, dtype=torch.float64))
    u, v = (part.numpy() for part in weights(model))
    b = u * v
    trace, largest = (found[f"rescaled_{name}"] for name in ("trace", "lambda_max"))
    expected = {
        "none": ((u**2 + v**2).sum(), (u**2 + v**2).max()),
        "balanced": (2 * np.abs(b).sum(), 2 * np.abs(b).max()),
        "elementwise": (2 * (b**2).sum(), 2 * (b**2).max()),
    }
    for scales, numbers in expected.items():
        assert trace.sel(scales=scales).item() == pytest.approx(numbers[0], rel=1e-10)
        assert largest.sel(scales=scales).item() == pytest.approx(numbers[1], rel=1e-10)
    assert found.coefficients_norm_1.item() == pytest.approx(np.abs(b).sum(), rel=1e-12)
    assert found.coefficients_norm_max.item() == pytest.approx(np.abs(b).max(), rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), factor=st.floats(0.1, 10))
def test_the_balanced_scales_are_invariant_and_those_that_are_printed_are_not(seed, factor, normal):
    """(a u, v / a) is the same function."""
    model, x, y = network(seed), normal(SAMPLES, WIDTH, seed=seed), normal(SAMPLES, 1, seed=9)
    before = report_of(model, x, y)
    with torch.no_grad():
        model[1].u.mul_(factor)
        model[1].v.div_(factor)
    after = report_of(model, x, y)
    for name in ("rescaled_trace", "rescaled_lambda_max"):
        for scales in ("balanced", "elementwise"):
            pair = (float(report[name].sel(scales=scales)) for report in (before, after))
            assert next(pair) == pytest.approx(next(pair), rel=1e-8)
    if not 0.9 < factor < 1.1:
        found = after.rescaled_trace.sel(scales="printed").item()
        assert found != pytest.approx(before.rescaled_trace.sel(scales="printed").item(), rel=1e-3)


def test_a_coefficient_of_zero_has_no_printed_scale_but_the_right_one(normal):
    model, x = network(), normal(SAMPLES, WIDTH)
    with torch.no_grad():
        model[1].v[0, 2] = 0
    found = report_of(model, x)
    for name in ("rescaled_trace", "rescaled_lambda_max"):
        assert not np.isfinite(found[name].sel(scales="printed"))
    others = [scales for scales in SCALES if scales != "printed"]
    assert np.isfinite(found.sel(scales=others).to_array()).all()


@pytest.mark.parametrize(
    "model", [nn.Linear(WIDTH, 1), Diagonal(WIDTH, 2), nn.Sequential(Diagonal(WIDTH, 1), nn.ReLU())]
)
def test_other_networks_are_refused_in_a_sentence(model):
    words = "diagonal linear networks with one output"
    refused(words, report_of, model, torch.randn(SAMPLES, WIDTH))


class TestData:
    def test_the_truth_is_sparse_and_fits_without_noise(self):
        raw = load("sparse-regression")
        truth = raw["test_targets"].values[:, 0]
        assert sorted(np.unique(truth)) == [-1, 0, 1]
        assert (truth != 0).sum() == 20
        x, y = raw["train_inputs"].values, raw["train_targets"].values[:, 0]
        assert x.shape == (60, 200)
        np.testing.assert_allclose(x @ truth, y, atol=1e-14)
        assert np.array_equal(raw["test_inputs"].values, np.eye(200))
        assert load("sparse-regression").identical(raw)

    def test_the_data_are_white_on_average(self):
        x = load("sparse-regression")["train_inputs"].values
        gram = x.T @ x
        assert np.diag(gram).mean() == pytest.approx(1, abs=0.05)
        assert abs(gram[~np.eye(200, dtype=bool)].mean()) < 0.01

    def test_the_mean_over_unit_vectors_is_the_expected_loss_but_for_a_factor(self):
        """Fresh samples x ~ N(0, I/n) have d/n times as much; by many of them."""
        raw = load("sparse-regression")
        splits = prepare(raw, {"classes": "all", "scaling": "none", "targets": "given"})
        model = network(width=200)
        with torch.no_grad():
            found = evaluated(model, splits.test, half_mse.Loss()).loss
        u, v = weights(model)
        error = (u * v).numpy() - raw["test_targets"].values[:, 0]
        fresh = np.random.default_rng(0).normal(scale=60**-0.5, size=(200_000, 200))
        assert (fresh @ error).__pow__(2).mean() / 2 == pytest.approx(200 / 60 * found, rel=0.02)

    def test_two_classes_lie_around_opposite_means(self):
        raw = load("gaussian-pair")
        x, y = raw["train_inputs"].values, raw["train_targets"].values
        assert x.shape == (50, 100)
        assert y.sum() == 0
        mean = (x * y).mean(0)
        assert np.linalg.norm(mean) == pytest.approx(1, abs=0.05)
        assert (x - y * mean).std() == pytest.approx(0.025, rel=0.05)
        assert load("gaussian-pair").identical(raw)
