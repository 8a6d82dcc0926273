"""Measures of linear models on features: closed forms against derivatives, integrals and draws."""

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import truncnorm

from flatlab.simulations._ridge import (
    LOSSES,
    Linear,
    approximated_bound,
    loss_nearby,
    normalized,
    one_coordinate,
    relative_flatness,
    representativeness,
    ridge,
)

RNG = np.random.default_rng(3)
FEATURES = RNG.normal(size=(40, 5)) * [1, 2, 0.5, 1, 3] + [0, 1, 0, -2, 0]
LABELS = np.where(RNG.random(40) < 0.5, -1.0, 1.0)
WEIGHT = RNG.normal(size=(3, 5))
MODEL = Linear(0.4 * RNG.normal(size=5), 0.1)


def by_definition(weight, features, targets, loss):
    """Sum over s, s' of <w_s, w_s'> Tr H_{s,s'}, H from automatic differentiation."""
    import torch

    w = torch.tensor(weight)
    inputs, targets = torch.tensor(features), torch.tensor(targets)
    hessian = torch.autograd.functional.hessian(lambda w: loss(inputs @ w.T, targets), w)
    traces = torch.einsum("atbt->ab", hessian)
    return float(((w @ w.T) * traces).sum())


def test_relative_flatness_is_that_of_the_explicit_hessian() -> None:
    import torch

    outputs = FEATURES @ WEIGHT.T
    targets = RNG.normal(size=outputs.shape)
    identity = np.broadcast_to(2 * np.eye(3), (40, 3, 3))
    explicit = by_definition(WEIGHT, FEATURES, targets, lambda f, y: ((f - y) ** 2).sum(1).mean())
    assert relative_flatness(WEIGHT, FEATURES, identity) == pytest.approx(explicit, rel=1e-12)
    p = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    curvature = p[:, :, None] * np.eye(3) - p[:, :, None] * p[:, None, :]
    classes = RNG.integers(3, size=40)
    explicit = by_definition(WEIGHT, FEATURES, classes, torch.nn.functional.cross_entropy)
    assert relative_flatness(WEIGHT, FEATURES, curvature) == pytest.approx(explicit, rel=1e-12)


def test_one_output_has_the_same_with_its_own_losses() -> None:
    import torch

    explicit = {
        "squared": lambda f, y: ((f[:, 0] - y) ** 2).mean(),
        "cross-entropy": lambda f, y: torch.nn.functional.softplus(-f[:, 0] * y).mean(),
    }
    outputs = FEATURES @ WEIGHT[0]
    for name, loss in explicit.items():
        curvature = LOSSES[name].curvature(outputs)[:, None, None]
        assert relative_flatness(WEIGHT[:1], FEATURES, curvature) == pytest.approx(
            by_definition(WEIGHT[:1], FEATURES, LABELS, loss), rel=1e-12
        )


@pytest.mark.parametrize("name", ["squared", "cross-entropy"])
def test_curvatures_are_second_derivatives(name: str) -> None:
    f, h = np.linspace(-3, 3, 7), 1e-4
    value = LOSSES[name].value
    second = (value(f + h, 1.0) - 2 * value(f, 1.0) + value(f - h, 1.0)) / h**2
    assert LOSSES[name].curvature(f) == pytest.approx(second, abs=1e-5)


def test_zero_one_loss_counts_an_output_of_zero_as_an_error() -> None:
    value = LOSSES["zero-one"].value
    assert value(np.array([0.2, -0.2, 0.0, 3.0]), np.array([1, 1, 1, -1])).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 50.0])
def test_ridge_regression_is_that_of_scikit_learn(alpha: float) -> None:
    from sklearn.linear_model import Ridge, RidgeClassifier

    model = ridge(FEATURES, LABELS, alpha)
    theirs = Ridge(alpha=alpha).fit(FEATURES, LABELS)
    assert model.weight == pytest.approx(theirs.coef_, rel=1e-9)
    assert model.intercept == pytest.approx(theirs.intercept_, rel=1e-9)
    classifier = RidgeClassifier(alpha=alpha).fit(FEATURES, LABELS)
    assert model(FEATURES) == pytest.approx(classifier.decision_function(FEATURES), rel=1e-9)


def test_normalization_keeps_the_function_and_gives_unit_deviation() -> None:
    scaled, divided, constant = normalized(WEIGHT, FEATURES, "deviation")
    assert divided @ scaled.T == pytest.approx(FEATURES @ WEIGHT.T)
    assert divided.std(axis=0) == pytest.approx(np.ones(5))
    assert not constant.any()
    _, divided, _ = normalized(WEIGHT, FEATURES, "variance")
    assert divided.std(axis=0) == pytest.approx(1 / FEATURES.std(axis=0))


def test_constant_features_are_left_out_and_marked() -> None:
    dead = FEATURES.copy()
    dead[:, 2], dead[:, 4] = 0.0, 7.3
    scaled, divided, constant = normalized(WEIGHT, dead, "deviation")
    assert constant.tolist() == [False, False, True, False, True]
    assert np.isfinite(divided).all()
    assert (scaled.shape, divided.shape) == ((3, 3), (40, 3))


@pytest.mark.parametrize(("dimension", "sigma"), [(1, 1.0), (2, 0.7), (3, 1.0), (8, 1.0), (8, 0.3)])
def test_one_coordinate_of_a_truncated_normal_has_the_moments_of_the_integral(
    dimension: int, sigma: float
) -> None:
    """E|xi|^2/h^2 by the radial integral is m times the second moment of one coordinate."""
    nodes, probabilities = one_coordinate(dimension, sigma)

    def radial(power: int) -> float:
        def density(r: float) -> float:
            return r ** (dimension - 1 + power) * np.exp(-(r**2) / (2 * sigma**2))

        return integrate.quad(density, 0, 1)[0]

    assert probabilities.sum() == pytest.approx(1)
    assert probabilities @ nodes == pytest.approx(0, abs=1e-14)
    second = dimension * probabilities @ nodes**2
    assert second == pytest.approx(radial(2) / radial(0), rel=1e-4 if dimension == 2 else 1e-8)


def test_in_one_dimension_it_is_the_truncated_normal_distribution() -> None:
    nodes, probabilities = one_coordinate(1, 0.5)
    expected = truncnorm(-2, 2, scale=0.5).expect(np.cos)
    assert probabilities @ np.cos(nodes) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["squared", "cross-entropy"])
def test_the_loss_nearby_is_that_of_draws_in_all_dimensions(name: str) -> None:
    draws = RNG.normal(size=(400_000, 5))
    inside = draws[np.linalg.norm(draws, axis=1) < 1]
    delta, loss = 0.8, LOSSES[name]
    found = loss_nearby(loss, MODEL, FEATURES[:3], LABELS[:3], delta)
    for features, label, value in zip(FEATURES[:3], LABELS[:3], found, strict=True):
        moved = features + delta * np.linalg.norm(features) * inside
        losses = loss.value(MODEL(moved), label)
        assert value == pytest.approx(losses.mean(), abs=5 * losses.std() / len(losses) ** 0.5)


def test_the_squared_loss_nearby_is_the_flatness_term_of_a_sphere_shrunk() -> None:
    """It is (f - y)^2 + |w|^2 E|xi|^2 / m, whose mean is delta^2/(2m) kappa where |xi| = h."""
    loss, delta = LOSSES["squared"], 0.1
    rise = loss_nearby(loss, MODEL, FEATURES, LABELS, delta) - loss.value(MODEL(FEATURES), LABELS)
    nodes, probabilities = one_coordinate(5)
    curvature = loss.curvature(LABELS)[:, None, None]
    kappa = relative_flatness(MODEL.weight[None], FEATURES, curvature)
    share = 5 * probabilities @ nodes**2
    assert share < 1
    assert rise.mean() == pytest.approx(share * approximated_bound(delta, 5, kappa, 0.0))


def test_representativeness_is_its_definition_fold_by_fold() -> None:
    loss, folds = LOSSES["squared"], np.array_split(np.arange(40), 4)

    def fit(features, labels):
        return ridge(features, labels, 1.0)

    parts = []
    for fold in folds:
        rest = np.setdiff1d(np.arange(40), fold)
        model = fit(FEATURES[rest], LABELS[rest])
        risk = np.mean([(model(FEATURES[i]) - LABELS[i]) ** 2 for i in fold])
        near = [loss_nearby(loss, model, FEATURES[[i]], LABELS[[i]], 0.3)[0] for i in rest]
        parts.append(risk - np.mean(near))
    found = representativeness(loss, fit, FEATURES, LABELS, folds, 0.3)
    assert found == pytest.approx(np.mean(parts), rel=1e-12)
    bound = approximated_bound(0.3, 5, 2.0, found)
    assert bound == pytest.approx(0.09 / 10 * 2.0 + found)
