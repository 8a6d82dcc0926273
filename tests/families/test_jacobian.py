"""Norms of Jacobians and of features against whole matrices, for networks of every kind."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import flatlab
from flatlab.derivatives.second_order.lanczos import RESIDUAL
from flatlab.families import jacobian
from flatlab.losses import loss_of
from tests.networks import small_networks as networks
from tests.networks.small_networks import LINEAR, LOSSES, small, targets_for
from tests.networks.whole import hessian_of
from tests.refusals import refused

# torch warns of itself when it first differentiates forward, which torch.func.jacfwd does
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script")

WIDTHS = (4, 6, 5, 3)


def norms_of(function, inputs):
    """The spectral norm of each sample's Jacobian, one backward pass for each output."""
    x = inputs.clone().requires_grad_()
    rows = [torch.autograd.grad(f.sum(), x, retain_graph=True)[0] for f in function(x).unbind(1)]
    return torch.linalg.matrix_norm(torch.stack(rows, 1).flatten(2), 2)


@pytest.mark.parametrize("name", ["mlp-relu", "lenet", "vgg"])
def test_features_are_the_inputs_of_each_layer_as_matrices(name):
    """One row of each sample, of feature maps too."""
    model, x, _ = small(name)
    found, seen = flatlab.measure(model, x, families=["jacobian"]), {}
    for layer in found.layer.values:
        note = lambda _, given, layer=layer: seen.update({layer: given[0].detach()})  # noqa: E731
        model.get_submodule(layer).register_forward_pre_hook(note)
    model(x)
    largest = [torch.linalg.matrix_norm(m.flatten(1), 2).item() for m in seen.values()]
    np.testing.assert_allclose(found.feature_norm, largest, rtol=1e-10)
    assert list(found.layer.values) == list(seen)


@settings(max_examples=15, deadline=None)
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
    np.testing.assert_allclose(shifted.jacobian_norm, found.jacobian_norm, rtol=1e-12)
    both = shifted.softmax_jacobian_norm, found.softmax_jacobian_norm
    np.testing.assert_allclose(*both, rtol=1e-7, atol=1e-12)


@settings(max_examples=10, deadline=None)
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


DISTANCE = (lambda f: f, lambda f, y: ((f - y) ** 2).sum(1).sqrt())
SHOWN = {
    **{"half-mse": DISTANCE, "mean-mse": DISTANCE},
    "cross-entropy": (
        lambda f: f.softmax(1),
        lambda f, y: (2 * nn.functional.cross_entropy(f, y.argmax(1), reduction="none")).sqrt(),
    ),
}


@pytest.mark.parametrize("loss", SHOWN)
def test_the_pair_bound_is_that_of_all_pairs(loss, mlp, normal):
    model, x = mlp(WIDTHS, seed=5, activation="tanh"), normal(8, WIDTHS[0])
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0, 0])
    y = nn.functional.one_hot(labels, WIDTHS[-1]).double()
    shown, distance = SHOWN[loss]
    with torch.no_grad():
        outputs = model(x)
        predicted, allowed = shown(outputs), distance(outputs, y)
    pairs = [(i, j) for i in range(8) for j in range(i) if labels[i] != labels[j]]
    bounds = {
        (i, j): ((y[i] - y[j]).norm() - allowed[i] - allowed[j]) / (x[i] - x[j]).norm()
        for i, j in pairs
    }
    found = flatlab.measure(model, x, labels, families=["jacobian"], loss=loss, pairs=3, points=50)
    assert found.pair_bound.item() == pytest.approx(float(max(bounds.values())), rel=1e-12)
    assert found.pairs_below.item() == found.segments_below.item() == 0
    i, j = max(bounds, key=bounds.get)
    path = torch.stack([x[i].lerp(x[j], k / 49) for k in range(50)])
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


def test_pairs_need_different_targets_and_a_loss_that_has_the_form(mlp, normal):
    model, x = mlp(WIDTHS), normal(4, WIDTHS[0])
    same = flatlab.measure(model, x, torch.zeros(4, dtype=int), families=["jacobian"], pairs=2)
    assert same.pair_bound.item() == -np.inf
    assert np.isnan(same.segment_norm.item())
    assert same.segments_below.item() == 0
    how = {"families": "jacobian", "pairs": 2}
    refused("needs targets", flatlab.measure, model, x, **how)
    signs = torch.ones(4, WIDTHS[-1], dtype=torch.float64)
    refused(
        "no form for the loss logistic", flatlab.measure, model, x, signs, loss="logistic", **how
    )


@pytest.mark.parametrize("name", ["perceptron", "resnet", "timm"])
def test_norms_by_an_iteration_are_those_of_the_jacobians(name):
    model, x = networks.many_outputs(name)
    pairs = {"pairs": 1, "points": 3} if name == "perceptron" else {}
    targets = torch.arange(len(x))
    how = {"families": "jacobian", **pairs}
    exact, report = (flatlab.measure(model, x, targets, accuracy=a, **how) for a in ("exact", 0.02))
    assert set(report) - set(exact) == {"norm_residual"}
    assert report["norm_residual"] <= 1e-2
    for key in exact:
        assert report[key].values == pytest.approx(exact[key].values, rel=2e-3), key


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_norms_of_sequences_are_in_the_output_of_the_embedding():
    """Each position with its own softmax; exact, in blocks, and by an iteration."""
    model, tokens = networks.transformer()
    how = {"families": ["jacobian"], "loss": "cross-entropy"}
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
    blocks = flatlab.measure(model, tokens, memory=10**6, accuracy="exact", **how)
    assert blocks["softmax_jacobian_norm_per_sample"].values == pytest.approx(of_samples, rel=1e-9)
    found = flatlab.measure(model, tokens, accuracy=0.1, **how)
    assert found["softmax_jacobian_norm_per_sample"].values == pytest.approx(of_samples, rel=2e-3)
    refused("tokens", flatlab.measure, model, tokens, tokens, pairs=1, **how)


@pytest.mark.parametrize("name", ["perceptron", "vgg", "tied"])
def test_sample_by_sample_the_norms_are_the_same(name, monkeypatch):
    model, x = networks.many_outputs(name)
    exact = flatlab.measure(model, x, families=["jacobian"])
    monkeypatch.setattr(jacobian, "LARGE", 10)
    for memory in (None, 300_000):
        report = flatlab.measure(model, x, families=["jacobian"], memory=memory, accuracy="exact")
        for key in exact:
            assert report[key].values == pytest.approx(exact[key].values, rel=1e-9), key


EXACT, SINGLE = 1e-9, 1e-4


@pytest.mark.parametrize("name", LINEAR)
def test_norms_are_those_of_whole_jacobians(name):
    model, inputs, _ = small(name)
    found = flatlab.measure(model, inputs, families=["jacobian"])
    single = flatlab.measure(model, inputs, families=["jacobian"], dtype="float32")
    softmaxed = norms_of(lambda x: model(x).softmax(1), inputs)
    np.testing.assert_allclose(found.softmax_jacobian_norm_per_sample, softmaxed, rtol=EXACT)
    expected = {
        "jacobian_norm": norms_of(model, inputs).max().item(),
        "softmax_jacobian_norm": softmaxed.max().item(),
        "output_norm": model(inputs).detach().norm().item(),
    }
    for key, value in expected.items():
        assert found[key].item() == pytest.approx(value, rel=EXACT), key
        assert single[key].item() == pytest.approx(value, rel=SINGLE), key


@pytest.mark.first(1)
@pytest.mark.parametrize("name", ["lenet", "resnet"])
def test_lambda_max_is_that_of_the_whole_hessian(name):
    """With other losses: derivatives/test_curvature.py, of perceptrons."""
    (model, inputs, labels), loss = small(name), "cross-entropy"
    targets, chosen = targets_for(loss, labels), loss_of(LOSSES[loss])
    whole = hessian_of(model, lambda f: chosen.of_batch(chosen.values(f, targets)), inputs)
    expected = np.linalg.eigvalsh(whole)[-1]
    found = flatlab.measure(model, inputs, targets, families=["hessian"], **LOSSES[loss])
    assert found.hessian_lambda_max.item() == pytest.approx(expected, rel=RESIDUAL)


def test_fused_attention_is_differentiated_twice():
    """Which its fused form cannot be: against the eigenvalue of products by finite differences."""
    model, inputs, labels = small("timm")
    given = {"families": ["hessian"], "loss": "cross-entropy", "curvature": ["hessian"]}
    found = flatlab.measure(model, inputs, labels, **given)
    assert found.hessian_converged.item() == 1
    theta = [p for p in model.parameters() if p.requires_grad]

    def slope():
        total = torch.nn.functional.cross_entropy(model(inputs), labels)
        return torch.cat([each.flatten() for each in torch.autograd.grad(total, theta)])

    with torch.no_grad():
        start = torch.nn.utils.parameters_to_vector(theta)
    vector = torch.ones_like(start) / len(start) ** 0.5
    for _ in range(60):
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                torch.nn.utils.vector_to_parameters(start + sign * 1e-5 * vector, theta)
            ends.append(slope())
        product = (ends[0] - ends[1]) / 2e-5
        value, vector = float(vector @ product), product / product.norm()
    assert found.hessian_lambda_max.item() == pytest.approx(value, rel=1e-2)
