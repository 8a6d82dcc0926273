"""Worst-case sharpness of linear classifiers against a search over all changes of the weights."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy, pad

import flatlab
from flatlab.families.linear import FACTORS, NEIGHBOURHOODS, RADII
from tests.refusals import refused

WIDTH, SAMPLES = 3, 5
KINDS = [(1, "plain"), (1, "normalized"), (2, "plain"), (2, "normalized"), (3, "plain")]


def classifier(outputs, bias=True, seed=0, width=WIDTH):
    torch.manual_seed(seed)
    return nn.Linear(width, outputs, bias=bias).double()


def samples_of(outputs, seed=0):
    generator = torch.Generator().manual_seed(100 + seed)
    x = torch.randn(SAMPLES, WIDTH, generator=generator, dtype=torch.float64)
    return x, torch.randint(max(2, outputs), (SAMPLES,), generator=generator)


def seen(model, x):
    """Weights with biases, (outputs, inputs), and what they multiply."""
    if model.bias is None:
        return model.weight.detach(), x
    return torch.cat([model.weight, model.bias[:, None]], 1).detach(), pad(x, (0, 1), value=1.0)


def losses(theta, x, label, logits="plain"):
    """Of one sample, for many weights (count, outputs, inputs)."""
    outputs = theta @ x
    if outputs.shape[1] == 1:  # log(1 + exp(-y f)) is the cross-entropy of (0, f)
        outputs = pad(outputs, (1, 0))
    if logits == "normalized":  # Eq. 5 of andriushchenko2023
        outputs = outputs / outputs.std(1, correction=0, keepdim=True)
    return cross_entropy(outputs, label.expand(len(outputs)), reduction="none")


def changes(theta, neighbourhood, rho, x):
    """Changes on the edge of a neighbourhood: all corners, or one for each way to turn on a sphere.

    A sphere's worst change has <d_k, x> as large as their norms allow: what is left is how the
    norm is shared among the outputs, tried on a grid of angles.
    """
    if neighbourhood == "adaptive-linf":
        corners = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=theta.numel())))
        return rho * theta.abs() * corners.to(theta).view(-1, *theta.shape)
    scales = theta.norm().expand_as(theta) if neighbourhood == "ball" else theta.abs()
    along = scales * x / (scales * x).norm(dim=1, keepdim=True)
    angles = torch.linspace(0, 2 * torch.pi, 4001, dtype=theta.dtype)
    shares = torch.stack([angles.cos(), angles.sin()], 1)[:, : len(theta), None]
    return rho * scales * along * shares


def grown_by_search(model, x, labels, neighbourhood, logits, rho):
    theta, x = seen(model, x)
    worst = []
    for sample, label in zip(x, labels, strict=True):
        near = losses(theta + changes(theta, neighbourhood, rho, sample), sample, label, logits)
        worst.append((near.max() - losses(theta[None], sample, label, logits)).item())
    return np.mean(worst)


@pytest.mark.parametrize("neighbourhood", NEIGHBOURHOODS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("outputs", "logits"), KINDS)
def test_the_closed_form_is_the_worst_that_a_search_finds(neighbourhood, bias, outputs, logits):
    model, (x, labels) = classifier(outputs, bias), samples_of(outputs)
    report = flatlab.measure(model, x, labels, families=["linear"])
    for rho in RADII:
        place = {"neighbourhood": neighbourhood, "logits": logits, "radius": str(rho)}
        found = report.worst_sharpness.sel(place).item()
        if outputs == 3 and neighbourhood != "adaptive-linf":
            assert np.isnan(found)  # no closed form is known
            continue
        expected = grown_by_search(model, x, labels, neighbourhood, logits, rho)
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-12)
        assert found >= expected * (1 - 1e-12) - 1e-12


@pytest.mark.parametrize("neighbourhood", NEIGHBOURHOODS)
@pytest.mark.parametrize("outputs", [1, 2])
def test_no_random_change_of_the_neighbourhood_is_worse(neighbourhood, outputs):
    """The search above trusts that worst changes lie along the inputs: here they are any."""
    model, (x, labels) = classifier(outputs), samples_of(outputs)
    report = flatlab.measure(model, x, labels, families=["linear"])
    theta, x = seen(model, x)
    scales = theta.norm().expand_as(theta) if neighbourhood == "ball" else theta.abs()
    generator = torch.Generator().manual_seed(1)
    drawn = torch.randn(20_000, *theta.shape, generator=generator, dtype=theta.dtype)
    order = float("inf") if neighbourhood == "adaptive-linf" else 2
    unit = drawn / torch.linalg.vector_norm(drawn, order, dim=(1, 2), keepdim=True)
    for rho in RADII:
        near = [losses(theta + rho * scales * unit, *pair) for pair in zip(x, labels, strict=True)]
        here = [losses(theta[None], *pair) for pair in zip(x, labels, strict=True)]
        most = np.mean([(n.max() - h).item() for n, h in zip(near, here, strict=True)])
        place = {"neighbourhood": neighbourhood, "logits": "plain", "radius": str(rho)}
        found = report.worst_sharpness.sel(place).item()
        assert 0.5 * found < most <= found


@pytest.mark.parametrize("outputs", [1, 2, 4])
def test_a_classifier_times_a_factor_is_measured_as_such(outputs):
    model, (x, labels) = classifier(outputs), samples_of(outputs)
    report = flatlab.measure(model, x, labels, families=["linear"])
    np.testing.assert_allclose(report.weight_factor, FACTORS, rtol=1e-15)
    for number in (0, 13, 29):
        with torch.no_grad():
            scaled = classifier(outputs)
            for parameter in scaled.parameters():
                parameter *= FACTORS[number]
        other = flatlab.measure(scaled, x, labels, families=["linear"])
        here = report.scaled_worst_sharpness.isel(factor=number)
        np.testing.assert_allclose(here, other.worst_sharpness, rtol=1e-9)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), outputs=st.integers(1, 3), bias=st.booleans())
def test_sharpness_grows_with_the_radius_and_with_the_neighbourhood(seed, outputs, bias):
    """Of adaptive neighbourhoods the sphere lies in the box; all contain no change at all."""
    model, (x, labels) = classifier(outputs, bias, seed), samples_of(outputs, seed)
    found = flatlab.measure(model, x, labels, families=["linear"]).worst_sharpness
    values = found.values[np.isfinite(found.values)]
    assert (values >= 0).all()
    assert (found.diff("radius").fillna(0) >= -1e-12).all()
    kinds = "adaptive-l2", "adaptive-linf", "ball"
    sphere, box, ball = (found.sel(neighbourhood=name) for name in kinds)
    assert (sphere.fillna(0) <= box.fillna(np.inf) + 1e-12).all()
    assert (sphere.fillna(0) <= ball.fillna(np.inf) + 1e-12).all()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), outputs=st.integers(1, 2), factor=st.floats(0.01, 100))
def test_normalized_logits_know_no_scale_and_two_know_no_size(seed, outputs, factor):
    """Constant in the factor; the losses of two outputs are those of margins 2 and -2."""
    model, (x, labels) = classifier(outputs, seed=seed), samples_of(outputs, seed)
    found = flatlab.measure(model, x, labels, families=["linear"])
    curves = found.scaled_worst_sharpness.sel(logits="normalized").values
    assert (curves == curves[..., :1]).all()
    flips = found.worst_sharpness.sel(logits="normalized").values / 2 * SAMPLES
    np.testing.assert_allclose(flips, flips.round(), atol=1e-12)


def test_scaled_up_the_sharpness_vanishes_if_all_margins_exceed_the_reach():
    """Else it grows in proportion: log(1 + exp(a t)) is about a t for t > 0."""
    model = classifier(1, bias=False, width=1)
    with torch.no_grad():
        model.weight.fill_(1.0)
    x, labels = torch.tensor([[1.0], [2.0]]).double(), torch.tensor([1, 1])
    apart = flatlab.measure(model, x, labels, families=["linear"])
    assert (apart.scaled_worst_sharpness.sel(logits="plain")[..., -1] < 1e-100).all()
    mixed = flatlab.measure(model, x, torch.tensor([1, 0]), families=["linear"])
    large = mixed.scaled_worst_sharpness.sel(logits="plain", radius="0.5")[:, -1] / 1024
    np.testing.assert_allclose(large, 0.5 * 0.5 * 2.0, rtol=1e-9)  # sample 2 alone, half of them


def test_margin_and_error_are_the_classifiers_own():
    model, (x, labels) = classifier(3), samples_of(3)
    found = flatlab.measure(model, x, labels, families=["linear"])
    outputs = model(x).detach()
    wrong = (outputs.argmax(1) != labels).double().mean().item()
    assert found.classification_error.item() == pytest.approx(100 * wrong)
    pairs = zip(outputs.numpy(), labels, strict=True)
    margins = [row[y] - np.delete(row, y).max() for row, y in pairs]
    np.testing.assert_allclose(found.margin, margins)
    assert found.margin_min.item() == pytest.approx(min(margins))


def test_targets_of_one_output_are_signs_and_those_of_several_one_hot():
    model, (x, labels) = classifier(1), samples_of(1)
    signs = (2.0 * labels - 1)[:, None].double()
    by_label, by_sign = (flatlab.measure(model, x, y, families=["linear"]) for y in (labels, signs))
    np.testing.assert_array_equal(by_label.worst_sharpness, by_sign.worst_sharpness)
    model, (x, labels) = classifier(3), samples_of(3)
    one_hot = nn.functional.one_hot(labels, 3).double()
    first, second = (flatlab.measure(model, x, y, families=["linear"]) for y in (labels, one_hot))
    np.testing.assert_array_equal(first.margin, second.margin)


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


@pytest.mark.parametrize(
    ("model", "targets", "sentence"),
    [
        (nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 2)), 0, "one linear layer"),
        (nn.Sequential(nn.Linear(3, 2), nn.Softmax(1)), 0, "one linear layer"),
        (Doubled(3, 2), 0, "one linear layer"),
        (nn.Linear(3, 2), 5, "a class 5, the classifier has 2 outputs"),
        (nn.Linear(3, 1), 0.3, "+1 and -1"),
    ],
)
def test_what_is_no_linear_classifier_is_refused_in_a_sentence(model, targets, sentence):
    targets = torch.full((4, 1) if isinstance(targets, float) else (4,), targets)
    refused(sentence, flatlab.measure, model, torch.randn(4, 3), targets, families=["linear"])
