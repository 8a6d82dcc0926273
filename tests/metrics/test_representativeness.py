"""Representativeness in feature space against draws in numpy, closed forms, petzka2021 Eq. 5."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab import MeasureError
from flatlab.losses import loss_of
from flatlab.metrics import Samples
from flatlab.metrics._checked import measured
from flatlab.metrics._quantity import settings_of
from flatlab.metrics.representativeness import radii_of
from flatlab.simulations._ridge import one_coordinate
from tests.networks.small_networks import LINEAR, LOSSES, small, targets_for

DELTA = 0.4
OPTIONS = {"robustness_deltas": [DELTA], "representativeness_folds": 3}


def report(model, inputs, targets, loss="half-mse", **options):
    how = {**OPTIONS, **options}
    return flatlab.measure(
        model, inputs, targets, families="representativeness", **LOSSES[loss], **how
    )


def loss_with(model, name, change, inputs, targets, loss):
    """The losses of samples where the features of a layer are changed by a function."""
    layer = model.get_submodule(name)
    handle = layer.register_forward_pre_hook(lambda _, given: (change(given[0]),))
    outputs = model(inputs).detach()
    handle.remove()
    return loss_of(LOSSES[loss]).values(outputs, targets).numpy()


def turned(phi, a):
    return phi + phi @ a.T


def in_the_ball(generator, count, width):
    """Standard normal vectors in R^m within the unit ball, one after the other: (count, m)."""
    kept = np.empty((0, width))
    while len(kept) < count:
        drawn = generator.standard_normal((100_000, width))
        kept = np.concatenate([kept, drawn[(drawn**2).sum(1) < 1]])
    return kept[:count]


@pytest.mark.parametrize("loss", ["half-mse", "cross-entropy"])
@pytest.mark.parametrize("name", ["mlp-relu", "mlp-tanh", "linear"])
def test_the_nearby_loss_is_that_of_truncated_normal_features(name, loss):
    """Eq. 6 by rejection, in the space of the features."""
    model, inputs, labels = small(name)
    targets = targets_for(loss, labels)
    found = report(model, inputs, targets, loss, representativeness_draws=600)
    generator = np.random.default_rng(3)
    for layer in LINEAR[name]:
        width = model.get_submodule(layer).in_features
        draws = in_the_ball(generator, 500 * len(inputs), width).reshape(500, len(inputs), width)

        def changed(phi, xi):
            return phi + DELTA * phi.norm(dim=1, keepdim=True) * torch.from_numpy(xi)

        values = [
            loss_with(
                model, layer, lambda phi, xi=xi: changed(phi, xi), inputs, targets, loss
            ).mean()
            for xi in draws
        ]
        row = found.sel(layer=layer, delta_index="0")
        error = np.hypot(np.std(values) / 500**0.5, row.nearby_loss_error)
        assert abs(row.nearby_loss - np.mean(values)) < 4 * error, layer


@pytest.mark.parametrize("loss", ["half-mse", "cross-entropy"])
def test_equation_5(loss):
    """The gap is representativeness plus feature robustness: of matrices here, of vectors there."""
    model, inputs, labels = small("mlp-tanh")
    targets, other = targets_for(loss, labels), small("mlp-tanh", seed=5)[1]
    settings = settings_of(
        "representativeness",
        {**OPTIONS, "representativeness_draws": 400},
        loss_of(LOSSES[loss]),
        held_out=Samples(other, targets, labels),
    )
    samples = Samples(inputs, targets, labels)
    found = measured("representativeness", model, samples, settings)
    values = loss_of(LOSSES[loss]).values
    outputs = model(inputs).detach(), model(other).detach()
    empirical, risk = (float(values(f, targets).mean()) for f in outputs)
    generator = np.random.default_rng(11)
    for place, layer in enumerate(LINEAR["mlp-tanh"]):
        width = model.get_submodule(layer).in_features
        lengths = np.linalg.norm(in_the_ball(generator, 700, width), axis=1)
        robustness = []
        for length in lengths:
            q, r = np.linalg.qr(generator.standard_normal((width, width)))
            matrix = torch.from_numpy(DELTA * length * q * np.sign(np.diag(r)))
            moved = [
                loss_with(model, layer, partial(turned, a=sign * matrix), inputs, targets, loss)
                for sign in (1, -1)
            ]
            robustness.append(np.mean(moved) - empirical)
        error = np.hypot(np.std(robustness) / 700**0.5, found.values["nearby_loss_error"][place])
        sum_ = found.values["representativeness"][place] + np.mean(robustness)
        assert abs(sum_ - (risk - empirical)) < 4 * error, layer


def test_folds_of_one_network_say_nothing_of_the_gap():
    """With folds of one size, their mean is the mean loss less the nearby loss."""
    model, inputs, labels = small("mlp-relu")
    targets = targets_for("half-mse", labels)
    found = report(model, inputs, targets, representativeness_draws=4)
    loss = loss_of(LOSSES["half-mse"]).values(model(inputs), targets).mean().item()
    expected = loss - found.nearby_loss
    assert found.representativeness_by_folds.values == pytest.approx(expected.values, rel=1e-12)
    assert "representativeness" not in found
    assert (found.representativeness_by_folds_error > 0).all()


def test_each_fold_is_compared_with_the_others():
    """Where losses nearby are those of the samples: delta is too small to matter."""
    model, inputs, labels = small("linear")
    targets = targets_for("half-mse", labels)
    found = report(model, inputs, targets, robustness_deltas=[1e-9], representativeness_folds=4)
    values = loss_of(LOSSES["half-mse"]).values(model(inputs), targets).detach().numpy()
    parts = np.array_split(np.random.default_rng(0).permutation(len(values)), 4)
    differences = [values[part].mean() - np.delete(values, part).mean() for part in parts]
    assert found.representativeness_by_folds.item() == pytest.approx(np.mean(differences), abs=1e-9)
    error = np.std(differences, ddof=1) / 2
    assert found.representativeness_by_folds_error.item() == pytest.approx(error, rel=1e-6)


def test_of_squares_it_is_relative_flatness_times_the_mean_square_of_the_radius():
    model, inputs, labels = small("linear")
    targets = targets_for("half-mse", labels)
    found = report(model, inputs, targets, representativeness_draws=1500)
    flat = flatlab.measure(model, inputs, targets, families="flatness")
    width = inputs.shape[1]
    nodes, weights = one_coordinate(width)
    square = width * (nodes**2 @ weights)  # E |xi|^2 / h^2
    loss = loss_of(LOSSES["half-mse"]).values(model(inputs), targets).mean().item()
    expected = loss + DELTA**2 * square / (2 * width) * flat.kappa_trace.item()
    row = found.isel(layer=0, delta_index=0)
    assert abs(row.nearby_loss - expected) < 4 * row.nearby_loss_error
    assert row.nearby_loss_error < 0.05 * (expected - loss)


@pytest.mark.parametrize("features", [1, 2, 10, 784])
def test_the_law_of_the_radius(features):
    """Its mean square against quadrature over one coordinate, and all of it within 1."""
    uniform = (np.arange(100_000) + 0.5) / 100_000
    radii = radii_of(features, uniform)
    if features < 500:  # beyond, the quadrature has no mass left
        nodes, weights = one_coordinate(features)
        expected = features * (nodes**2 @ weights)
        assert (radii**2).mean() == pytest.approx(expected, rel=1e-4)
    else:
        assert (radii**2).mean() == pytest.approx(1, abs=3 / features)
    assert 0 < radii.min() <= radii.max() <= 1


def test_refusals():
    model, inputs, labels = small("mlp-relu")
    one = report(model, inputs[:1], labels[:1])
    assert one.nearby_loss.notnull().all()
    assert one.representativeness_by_folds.isnull().all()
    with pytest.raises(MeasureError, match="needs targets"):
        flatlab.measure(model, inputs, families="representativeness", **OPTIONS)
    flat = nn.Sequential(nn.Conv2d(1, 2, 8), nn.Flatten()).double()
    with pytest.raises(MeasureError, match="needs a linear layer"):
        report(flat, torch.randn(3, 1, 8, 8, dtype=torch.float64), torch.tensor([0, 1, 0]))
