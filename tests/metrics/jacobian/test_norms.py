"""Norms of Jacobians and of features against whole matrices."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import flatlab
from flatlab import MeasureError
from flatlab.losses import loss_of
from flatlab.metrics import jacobian
from flatlab.metrics.jacobian import softmax_norms
from tests.networks.many_outputs import many_outputs
from tests.networks.small_networks import small
from tests.networks.transformer import transformer

# torch warns of itself when it first differentiates forward, which torch.func.jacfwd does
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script")

WIDTHS = (4, 6, 5, 3)


def norms_of(function, inputs):
    """The spectral norm of each sample's Jacobian."""
    jacobians = [torch.func.jacrev(lambda x: function(x[None])[0])(x) for x in inputs]
    return torch.stack([torch.linalg.matrix_norm(j.detach().flatten(1), 2) for j in jacobians])


@pytest.mark.parametrize("name", ["mlp-relu", "lenet", "vgg"])
def test_features_are_the_inputs_of_each_layer_as_matrices(name):
    """One row of each sample, of feature maps too."""
    model, x, _ = small(name)
    found, seen = flatlab.measure(model, x, families=["jacobian"]), {}
    for layer in found.layer.values:
        model.get_submodule(layer).register_forward_pre_hook(
            lambda _, given, layer=layer: seen.update({layer: given[0].detach().flatten(1)})
        )
    model(x)
    largest = [torch.linalg.matrix_norm(m, 2).item() for m in seen.values()]
    np.testing.assert_allclose(found.feature_norm, largest, rtol=1e-10)
    assert list(found.layer.values) == list(seen)


def test_even_odds_of_two_classes_attain_half_the_norm(normal):
    """P = (1/2)(I - 11^T/2) at p = (1/2, 1/2): its norm is 1/2, along (1, -1)."""
    weight = normal(3)
    gram = torch.stack([weight, -weight]) @ torch.stack([weight, -weight]).T
    norm = softmax_norms(torch.zeros(1, 2), gram[None]).item()
    assert norm == pytest.approx(0.5 * torch.linalg.matrix_norm(gram, 2).sqrt().item())


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_softmax_halves_the_norm_at_least_and_knows_no_shift(data, mlp, normal):
    """||P|| <= 1/2; the same for all outputs shifted alike."""
    seed = data.draw(st.integers(0, 1000))
    outputs, width = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    model, x = mlp((width, 5, outputs), seed=seed), 3 * normal(4, width, seed=seed)
    found = flatlab.measure(model, x, families=["jacobian"])
    assert found.softmax_jacobian_norm <= 0.5 * found.jacobian_norm * (1 + 1e-9)
    model[-1].bias.data += 7
    shifted = flatlab.measure(model, x, families=["jacobian"])
    np.testing.assert_allclose(
        shifted.softmax_jacobian_norm, found.softmax_jacobian_norm, rtol=1e-7, atol=1e-12
    )
    np.testing.assert_allclose(shifted.jacobian_norm, found.jacobian_norm, rtol=1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), factor=st.floats(0.1, 10))
def test_scaled_inputs_divide_the_jacobian_of_the_same_function(seed, factor, mlp, normal):
    """f(x) = g(x / c) with c x in the place of x has J / c and c times the first features."""
    model, x = mlp(WIDTHS, seed=seed), normal(6, WIDTHS[0], seed=seed)
    before = flatlab.measure(model, x, families=["jacobian"])
    model[0].weight.data /= factor
    after = flatlab.measure(model, factor * x, families=["jacobian"])
    np.testing.assert_allclose(after.jacobian_norm, before.jacobian_norm / factor, rtol=1e-9)
    expected = before.feature_norm.values * [factor, 1, 1]
    np.testing.assert_allclose(after.feature_norm, expected, rtol=1e-9)
    np.testing.assert_allclose(after.output_norm, before.output_norm, rtol=1e-9)


LOSSES = {
    "half-mse": (lambda f: f, lambda f, y: ((f - y) ** 2).sum(1).sqrt()),
    "mean-mse": (lambda f: f, lambda f, y: ((f - y) ** 2).sum(1).sqrt()),
    "cross-entropy": (
        lambda f: f.softmax(1),
        lambda f, y: (2 * nn.functional.cross_entropy(f, y.argmax(1), reduction="none")).sqrt(),
    ),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_the_pair_bound_is_that_of_all_pairs(loss, mlp, normal):
    model, x = mlp(WIDTHS, seed=5, activation="tanh"), normal(8, WIDTHS[0])
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0, 0])
    y = nn.functional.one_hot(labels, WIDTHS[-1]).double()
    shown, distance = LOSSES[loss]
    with torch.no_grad():
        outputs = model(x)
        predicted, allowed = shown(outputs), distance(outputs, y)
    bounds = {
        (i, j): ((y[i] - y[j]).norm() - allowed[i] - allowed[j]) / (x[i] - x[j]).norm()
        for i in range(8)
        for j in range(i)
        if labels[i] != labels[j]
    }
    found = flatlab.measure(model, x, labels, families=["jacobian"], loss=loss, pairs=3, points=200)
    assert found.pair_bound.item() == pytest.approx(float(max(bounds.values())), rel=1e-12)
    assert found.pairs_below.item() == found.segments_below.item() == 0
    i, j = max(bounds, key=bounds.get)
    path = torch.stack([x[i].lerp(x[j], k / 199) for k in range(200)])
    largest = norms_of(lambda x: shown(model(x)), path).max().item()
    assert found.segment_norm.item() == pytest.approx(largest, rel=1e-9)
    slope = (predicted[i] - predicted[j]).norm() / (x[i] - x[j]).norm()
    assert found.segment_norm.item() > slope.item() * (1 - 1e-3)


def test_what_a_loss_allows_is_at_least_the_distance_to_the_targets(normal):
    outputs, labels = 3 * normal(200, 5), torch.arange(200) % 5
    y = nn.functional.one_hot(labels, 5).double()
    for named in (
        *({"loss": name} for name in ("half-mse", "mean-mse", "sum-of-squares", "cross-entropy")),
        {"loss": "cross-entropy", "label_smoothing": 0.5},
    ):
        predicted, targets, allowed = loss_of(named).within(outputs, y)
        distance = (predicted - targets).norm(dim=1)
        assert (allowed >= distance * (1 - 1e-12)).all()
        if "mse" in named["loss"] or "squares" in named["loss"]:
            torch.testing.assert_close(allowed, distance)


def test_a_network_that_fits_has_a_bound_near_the_distance_of_the_targets(normal):
    """Two samples, fitted exactly: the bound is |y1 - y2| / |x1 - x2|, and a line attains it."""
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=torch.float64)
    line = nn.Linear(2, 1, dtype=torch.float64)
    with torch.no_grad():
        line.weight.copy_(torch.tensor([[0.12, 0.16]]))  # along x2 - x1, 0.2 long
        line.bias.zero_()
    y = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    found = flatlab.measure(line, x, y, families=["jacobian"], pairs=1)
    assert found.pair_bound.item() == pytest.approx(0.2)
    assert found.segment_norm.item() == pytest.approx(0.2)


def test_pairs_need_different_targets_and_a_loss_that_has_the_form(mlp, normal):
    model, x = mlp(WIDTHS), normal(4, WIDTHS[0])
    same = flatlab.measure(model, x, torch.zeros(4, dtype=int), families=["jacobian"], pairs=2)
    assert same.pair_bound.item() == -np.inf
    assert np.isnan(same.segment_norm.item())
    assert same.segments_below.item() == 0
    with pytest.raises(flatlab.MeasureError, match="needs targets"):
        flatlab.measure(model, x, families=["jacobian"], pairs=2)
    signs = torch.ones(4, WIDTHS[-1], dtype=torch.float64)
    with pytest.raises(flatlab.MeasureError, match="no form for the loss logistic"):
        flatlab.measure(model, x, signs, families=["jacobian"], loss="logistic", pairs=2)


@pytest.mark.parametrize("name", ["perceptron", "resnet", "timm"])
def test_norms_by_an_iteration_are_those_of_the_jacobians(name):
    model, x = many_outputs(name)
    pairs = {"pairs": 1, "points": 3} if name == "perceptron" else {}
    targets = torch.arange(len(x))
    exact, report = (
        flatlab.measure(model, x, targets, families="jacobian", accuracy=accuracy, **pairs)
        for accuracy in ("exact", 0.02)
    )
    assert set(report) - set(exact) == {"norm_residual"}
    assert report["norm_residual"] <= 1e-2
    for key in exact:
        assert report[key].values == pytest.approx(exact[key].values, rel=2e-3), key


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_norms_of_sequences_are_in_the_output_of_the_embedding():
    """Each position with its own softmax; exact, in blocks, and by an iteration."""
    model, tokens = transformer()
    how = {"families": ["jacobian"], "loss": "cross-entropy"}
    report = flatlab.measure(model, tokens, **how)
    plain, softmaxed = [], []
    for sequence in tokens:
        embedded = model.embedding(sequence[None]).detach()
        for norms, end in ((plain, lambda f: f), (softmaxed, lambda f: f.softmax(-1))):
            of = torch.autograd.functional.jacobian(
                lambda e, end=end: end(model.behind(e)).flatten(), embedded
            )
            norms.append(float(torch.linalg.matrix_norm(of.flatten(1), 2)))
    report = flatlab.measure(model, tokens, **how)
    plain, softmaxed = [], []
    for sequence in tokens:
        embedded = model.embedding(sequence[None]).detach()
        for norms, end in ((plain, lambda f: f), (softmaxed, lambda f: f.softmax(-1))):
            of = torch.func.jacrev(lambda e, end=end: end(model.behind(e)).flatten())(embedded)
            norms.append(float(torch.linalg.matrix_norm(of.detach().flatten(1), 2)))
    assert report["jacobian_norm"] == pytest.approx(max(plain), rel=1e-9)
    of_samples = report["softmax_jacobian_norm_per_sample"].values
    assert of_samples == pytest.approx(np.array(softmaxed), rel=1e-9)
    assert "'embedding'" in report.attrs["derivatives_with_respect_to"]
    blocks = flatlab.measure(model, tokens, memory=10**6, **how)
    assert blocks["softmax_jacobian_norm_per_sample"].values == pytest.approx(of_samples, rel=1e-9)
    found = flatlab.measure(model, tokens, accuracy=0.1, **how)
    assert found["softmax_jacobian_norm_per_sample"].values == pytest.approx(of_samples, rel=2e-3)
    with pytest.raises(MeasureError, match="tokens"):
        flatlab.measure(model, tokens, tokens, pairs=1, **how)


@pytest.mark.parametrize("name", ["perceptron", "vgg", "tied"])
def test_sample_by_sample_the_norms_are_the_same(name, monkeypatch):
    model, x = many_outputs(name)
    exact = flatlab.measure(model, x, families=["jacobian"])
    monkeypatch.setattr(jacobian, "LARGE", 10)
    for memory in (None, 300_000):
        report = flatlab.measure(model, x, families=["jacobian"], memory=memory)
        for key in exact:
            assert report[key].values == pytest.approx(exact[key].values, rel=1e-9), key
