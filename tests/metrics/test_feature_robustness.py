"""Feature robustness against perturbed features, and against relative flatness (petzka2021)."""

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab import MeasureError
from flatlab.losses import loss_of
from flatlab.metrics.feature_robustness import _turned
from tests.networks.small_networks import LINEAR, LOSSES, small, targets_for, total_loss


def measured(model, inputs, targets, loss="half-mse", **options):
    return flatlab.measure(
        model, inputs, targets, families="feature-robustness", **LOSSES[loss], **options
    )


def with_features(model, name, matrix, inputs):
    """The outputs where the features phi of a layer are replaced by (1 + A) phi."""
    layer = model.get_submodule(name)
    unit = torch.eye(len(matrix), dtype=matrix.dtype)
    handle = layer.register_forward_pre_hook(lambda _, given: (given[0] @ (unit + matrix).T,))
    outputs = model(inputs).detach()
    handle.remove()
    return outputs


@pytest.mark.parametrize("loss", ["half-mse", "cross-entropy"])
@pytest.mark.parametrize("name", ["mlp-tanh", "lenet"])
def test_it_is_the_change_of_the_loss_with_perturbed_features(name, loss):
    """Def. 1 and Eq. 4: another sample of orthogonal matrices, drawn here, of features not w."""
    model, inputs, labels = small(name)
    targets = targets_for(loss, labels)
    found = measured(
        model, inputs, targets, loss, robustness_deltas=[0.2], robustness_draws=300, seed=1
    )
    before = float(total_loss(model, inputs, targets, loss)({}).detach())
    generator = np.random.default_rng(7)
    for layer in LINEAR[name]:
        width = model.get_submodule(layer).in_features
        values = []
        for _ in range(300):
            q, r = np.linalg.qr(generator.standard_normal((width, width)))
            orthogonal = torch.from_numpy(q * np.sign(np.diag(r)))
            both = [with_features(model, layer, s * 0.2 * orthogonal, inputs) for s in (1, -1)]
            chosen = loss_of(LOSSES[loss])
            values.append(
                np.mean([float(chosen.of_batch(chosen.values(f, targets))) for f in both]) - before
            )
        error = np.hypot(
            np.std(values, ddof=1) / 300**0.5, found.feature_robustness_error.sel(layer=layer)[0]
        )
        difference = found.feature_robustness.sel(layer=layer)[0] - np.mean(values)
        assert abs(difference) < 4 * error + 1e-12, layer


@pytest.mark.parametrize("loss", ["half-mse", "cross-entropy"])
@pytest.mark.parametrize("name", LINEAR)
def test_its_leading_order_is_relative_flatness(name, loss):
    model, inputs, labels = small(name)
    targets = targets_for(loss, labels)
    flat = flatlab.measure(model, inputs, targets, families="flatness", **LOSSES[loss])
    found = measured(model, inputs, targets, loss, robustness_deltas=[0.03], robustness_draws=100)
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


def test_of_a_linear_model_and_squares_there_is_no_remainder_but_that_of_the_draws():
    model, inputs, labels = small("linear")
    found = measured(model, inputs, targets_for("half-mse", labels), robustness_draws=400)
    away = abs(found.feature_robustness_remainder / found.feature_robustness_error)
    assert (away < 4).all()
    assert (found.feature_robustness_error / found.feature_robustness < 0.05).all()


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


def test_refusals():
    model, inputs, _ = small("mlp-relu")
    with pytest.raises(MeasureError, match="needs targets"):
        flatlab.measure(model, inputs, families="feature-robustness")
    convolutional = nn.Sequential(nn.Conv2d(1, 2, 8), nn.Flatten()).double()
    with pytest.raises(MeasureError, match="needs a linear layer"):
        flatlab.measure(
            convolutional,
            torch.randn(3, 1, 8, 8, dtype=torch.float64),
            torch.tensor([0, 1, 0]),
            families="feature-robustness",
        )
