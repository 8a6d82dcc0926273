"""Feature robustness and representativeness: perturbed features, relative flatness (petzka2021)."""

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab.families import SampleSet
from flatlab.families.feature_robustness import _turned
from flatlab.families.representativeness import radii_of
from flatlab.losses import loss_of
from flatlab.measuring import preflight as _checked
from flatlab.measuring.quantity import settings_of
from flatlab.simulations._ridge import one_coordinate
from tests.networks.small_networks import LINEAR, LOSSES, small, targets_for, total_loss
from tests.refusals import refused


def measured(model, inputs, targets, loss="half-mse", **options):
    how = {"families": "feature-robustness", **LOSSES[loss], **options}
    return flatlab.measure(model, inputs, targets, **how)


def losses_with(model, name, change, inputs, targets, loss):
    """The mean losses where the features of a layer are changed by a function: (changes).

    change: of features (samples, m), to (changes, samples, m).
    """
    features = []
    layer = model.get_submodule(name)
    with layer.register_forward_pre_hook(lambda _, given: features.append(given[0].detach())):
        model(inputs)
    changed = change(features[0])
    count = len(changed)
    again = inputs.repeat(count, *[1] * (inputs.ndim - 1))
    with layer.register_forward_pre_hook(lambda _, given: (changed.flatten(0, 1),)):
        outputs = model(again).detach()
    values = loss_of(LOSSES[loss]).values(outputs, torch.cat([targets] * count))
    return values.unflatten(0, (count, -1)).mean(1).numpy()


def turned(matrices):
    """Features phi to (1 + A) phi and (1 - A) phi, of matrices A (changes, m, m)."""
    return lambda phi: torch.cat([phi + phi @ matrices.mT, phi - phi @ matrices.mT])


def orthogonal(generator, count, width):
    q, r = np.linalg.qr(generator.standard_normal((count, width, width)))
    return torch.from_numpy(q * np.sign(np.einsum("kii->ki", r))[:, None])


@pytest.mark.first(1)
@pytest.mark.parametrize("loss", ["half-mse", "cross-entropy"])
@pytest.mark.parametrize("name", ["mlp-tanh", "lenet"])
def test_it_is_the_change_of_the_loss_with_perturbed_features(name, loss):
    """Def. 1 and Eq. 4: another sample of orthogonal matrices, drawn here, of features not w."""
    model, inputs, labels = small(name)
    targets = targets_for(loss, labels)
    how = {"robustness_deltas": [0.2], "robustness_draws": 150, "seed": 1}
    found = measured(model, inputs, targets, loss, **how)
    before = float(total_loss(model, inputs, targets, loss)({}).detach())
    generator = np.random.default_rng(7)
    for layer in LINEAR[name]:
        changes = turned(0.2 * orthogonal(generator, 150, model.get_submodule(layer).in_features))
        both = losses_with(model, layer, changes, inputs, targets, loss)
        values = both.reshape(2, 150).mean(0) - before
        stated = found.feature_robustness_error.sel(layer=layer)[0]
        error = np.hypot(np.std(values, ddof=1) / 150**0.5, stated)
        difference = found.feature_robustness.sel(layer=layer)[0] - np.mean(values)
        assert abs(difference) < 4 * error + 1e-12, layer


@pytest.mark.first(3)
@pytest.mark.parametrize("loss", ["half-mse", "cross-entropy"])
@pytest.mark.parametrize("name", LINEAR)
def test_its_leading_order_is_relative_flatness(name, loss):
    model, inputs, labels = small(name)
    targets = targets_for(loss, labels)
    flat = flatlab.measure(model, inputs, targets, families="flatness", **LOSSES[loss])
    found = measured(model, inputs, targets, loss, robustness_deltas=[0.03], robustness_draws=40)
    linear = LINEAR[name]
    features = flat.features.sel(layer=linear)
    leading = 0.03**2 / (2 * features) * flat.kappa_trace.sel(layer=linear)
    rows = found.sel(layer=linear, delta_index="0")
    assert rows.feature_robustness_leading.values == pytest.approx(leading.values, rel=1e-9)
    remainder = rows.feature_robustness - leading
    assert rows.feature_robustness_remainder.values == pytest.approx(remainder.values)
    slack = 5 * rows.feature_robustness_error + 0.05 * abs(leading)
    if name in ("mlp-tanh", "linear"):  # elsewhere a kink may lie nearby
        assert (abs(rows.feature_robustness_remainder) <= slack).all()
    others = found.feature_robustness.sel(layer=[n for n in found.layer.values if n not in linear])
    assert others.isnull().all()


def test_the_remainder_is_of_fourth_order():
    """Of a smooth network: half of delta has a sixteenth of it, with the same matrices."""
    model, inputs, labels = small("mlp-tanh")
    targets = targets_for("half-mse", labels)
    found = measured(model, inputs, targets, robustness_deltas=[0.02, 0.04, 0.08])
    value = found.feature_robustness.sel(layer="fc1").values
    first, second = value[1] - 4 * value[0], value[2] - 4 * value[1]
    assert second / first == pytest.approx(16, rel=0.1)


def test_the_papers_delta_depends_on_samples_and_features():
    model, inputs, labels = small("mlp-relu")
    found = measured(model, inputs, targets_for("half-mse", labels), robustness_draws=2)
    paper = found.feature_robustness_delta.sel(delta_index="0")
    assert paper.values == pytest.approx([9 ** (-1 / 9), 9 ** (-1 / 10), 9 ** (-1 / 10)])
    assert found.feature_robustness_delta.sel(delta_index="3").values == pytest.approx(0.1)


def test_the_matrices_are_orthogonal_and_uniform():
    """w O has the Gram matrix of w; over many O each entry of E (w O)^T (w O) is that of 1/m."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(3, 5, generator=generator, dtype=torch.float64)
    turned = torch.stack([_turned(weight, (0, 0, k)) for k in range(4000)])
    assert torch.allclose(turned @ turned.mT, weight @ weight.T, atol=1e-9)
    mean = (turned.mT @ turned).mean(0)
    expected = torch.eye(5, dtype=torch.float64) * weight.square().sum() / 5
    assert torch.allclose(mean, expected, atol=0.25)
    assert turned.mean(0).abs().max() < 0.08
    wide = _turned(weight.T, (0, 0, 0))
    assert torch.allclose(wide @ wide.mT, weight.T @ weight, atol=1e-9)


DELTA = 0.4
OPTIONS = {"robustness_deltas": [DELTA], "representativeness_folds": 3}


def report(model, inputs, targets, loss="half-mse", **options):
    how = {"families": "representativeness", **LOSSES[loss], **OPTIONS, **options}
    return flatlab.measure(model, inputs, targets, **how)


def in_the_ball(generator, count, width):
    """Normal vectors in R^m within the unit ball: uniform ones, kept as often as their density."""
    drawn = generator.standard_normal((3 * count, width))
    drawn *= (
        generator.random((len(drawn), 1)) ** (1 / width) / np.linalg.norm(drawn, axis=1)[:, None]
    )
    return drawn[generator.random(len(drawn)) < np.exp(-(drawn**2).sum(1) / 2)][:count]


@pytest.mark.first(1)
@pytest.mark.parametrize("loss", ["half-mse", "cross-entropy"])
@pytest.mark.parametrize("name", ["mlp-relu", "mlp-tanh", "linear"])
def test_the_nearby_loss_is_that_of_truncated_normal_features(name, loss):
    """Eq. 6 by rejection, in the space of the features."""
    model, inputs, labels = small(name)
    targets = targets_for(loss, labels)
    found = report(model, inputs, targets, loss, representativeness_draws=100)
    generator = np.random.default_rng(3)
    for layer in LINEAR[name]:
        width = model.get_submodule(layer).in_features
        draws = in_the_ball(generator, 200 * len(inputs), width).reshape(200, len(inputs), width)

        def changed(phi, xi=draws):
            return phi + DELTA * phi.norm(dim=1, keepdim=True) * torch.from_numpy(xi)

        values = losses_with(model, layer, changed, inputs, targets, loss)
        row = found.sel(layer=layer, delta_index="0")
        error = np.hypot(np.std(values) / 200**0.5, row.nearby_loss_error)
        assert abs(row.nearby_loss - np.mean(values)) < 4 * error, layer


@pytest.mark.first(1)
@pytest.mark.parametrize("loss", ["half-mse", "cross-entropy"])
def test_equation_5(loss):
    """The gap is representativeness plus feature robustness: of matrices here, of vectors there."""
    model, inputs, labels = small("mlp-tanh")
    targets, other = targets_for(loss, labels), small("mlp-tanh", seed=5)[1]
    settings = settings_of(
        "representativeness",
        {**OPTIONS, "representativeness_draws": 100},
        loss_of(LOSSES[loss]),
        held_out=SampleSet(other, targets, labels),
    )
    samples = SampleSet(inputs, targets, labels)
    found = _checked.measure_family("representativeness", model, samples, settings)
    values = loss_of(LOSSES[loss]).values
    outputs = model(inputs).detach(), model(other).detach()
    empirical, risk = (float(values(f, targets).mean()) for f in outputs)
    generator = np.random.default_rng(11)
    for place, layer in enumerate(LINEAR["mlp-tanh"]):
        width = model.get_submodule(layer).in_features
        lengths = np.linalg.norm(in_the_ball(generator, 300, width), axis=1)
        matrices = torch.from_numpy(DELTA * lengths)[:, None, None] * orthogonal(
            generator, 300, width
        )
        moved = losses_with(model, layer, turned(matrices), inputs, targets, loss)
        robustness = moved.reshape(2, 300).mean(0) - empirical
        error = np.hypot(np.std(robustness) / 300**0.5, found.values["nearby_loss_error"][place])
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


def test_of_one_sample_there_are_no_folds():
    model, inputs, labels = small("mlp-relu")
    one = report(model, inputs[:1], labels[:1])
    assert one.nearby_loss.notnull().all()
    assert one.representativeness_by_folds.isnull().all()


@pytest.mark.parametrize("family", ["feature-robustness", "representativeness"])
def test_a_linear_layer_is_needed(family):
    flat = nn.Sequential(nn.Conv2d(1, 2, 8), nn.Flatten()).double()
    data = torch.randn(3, 1, 8, 8, dtype=torch.float64), torch.tensor([0, 1, 0])
    refused("needs a linear layer", flatlab.measure, flat, *data, families=family)
