"""Laws of average-case, worst-case and adaptive sharpness, and what measuring leaves as it was."""

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

import flatlab
from flatlab.families.sharpness import SMALLEST_RADII
from tests.laws.relations import FACTORS, law, layers_of, multiply, rescaled, scaled_neurons
from tests.networks.whole import by_vector
from tests.networks.written import Written

SCALE_FREE = [name for name in SMALLEST_RADII if "standard" not in name]


def measured(model, x, y, radii, **options):
    report = flatlab.measure(model, x, y, families=["sharpness"], sharpness_radii=radii, **options)
    return report["sharpness_at_radius"]


def everywhere(*radii, among=SMALLEST_RADII):
    return {name: list(radii) for name in among}


@pytest.fixture(scope="session")
def case(mlp, normal):
    """Draw a perceptron, inputs and classes from a seed."""

    def build(seed, activation="relu", widths=(4, 6, 5, 3)):
        model = mlp(widths, seed=seed, activation=activation)
        return model, normal(9, 4, seed=seed), torch.arange(9) % 3

    return build


@law(3, seed=st.integers(0, 10**6))
def test_worst_cases_are_not_negative_grow_with_the_radius_and_with_the_norm(case, seed):
    model, x, y = case(seed)
    found = measured(model, x, y, everywhere(0.003, 0.01, 0.03), sharpness_draws=4)
    worst = found.sel(definition=[name for name in SMALLEST_RADII if name.startswith("worst")])
    assert (worst >= 0).all()
    slack = 1 + 1e-3  # of Auto-PGD, which finds lower bounds
    assert (worst.diff("radius_index") > 0).all()
    for scale in ("standard", "adaptive", "normalized"):
        box = found.sel(definition=f"worst-{scale}-linf")
        assert (found.sel(definition=f"worst-{scale}-l2") <= box * slack).all()
        assert (found.sel(definition=f"average-{scale}-linf") <= box * slack).all()


@pytest.mark.more
@law(3, seed=st.integers(0, 10**6))
def test_larger_batches_do_not_have_a_larger_worst_case(case, seed):
    model, x, y = case(seed)
    radii = everywhere(0.01, among=["worst-adaptive-linf", "worst-standard-l2"])
    sizes = [measured(model, x, y, radii, sharpness_batch=m) for m in (1, 3, None)]
    assert (sizes[0] * (1 + 1e-3) >= sizes[1]).all()
    assert (sizes[1] * (1 + 1e-3) >= sizes[2]).all()


def derivatives(model, x, y):
    """The weights as one vector, and gradient and Hessian of the loss there."""
    loss, weights = by_vector(model, lambda f: cross_entropy(f, y), x)
    jacobian, hessian = torch.autograd.functional.jacobian, torch.autograd.functional.hessian
    return weights, jacobian(loss, weights), hessian(loss, weights)


@pytest.mark.parametrize("scale", ["standard", "adaptive"])
def test_small_radii_give_the_dual_norm_of_the_gradient(case, scale):
    model, x, y = case(0, "tanh")
    weights, gradient, _ = derivatives(model, x, y)
    slope = gradient * (weights.abs() if scale == "adaptive" else 1)
    for norm, dual in (("l2", 2), ("linf", 1)):
        found = measured(model, x, y, {f"worst-{scale}-{norm}": [1e-6]}).item() / 1e-6
        assert found == pytest.approx(float(slope.norm(p=dual)), rel=1e-4)


@pytest.mark.parametrize("scale", ["standard", "adaptive"])
@pytest.mark.parametrize(("norm", "factor"), [("l2", 1 / 2), ("linf", 1 / 6)])
def test_small_radii_give_the_trace_of_the_hessian(case, scale, norm, factor):
    """Of targets that the network predicts itself, so that draws differ in the second order."""
    model, x, _ = case(0, "tanh", (4, 4, 3))
    y = model(x).softmax(1).detach()
    weights, gradient, hessian = derivatives(model, x, y)
    assert gradient.abs().max() < 1e-12
    c = weights if scale == "adaptive" else torch.ones_like(weights)
    exact = factor * 0.01**2 * float((hessian.diagonal() * c.square()).sum())
    how = {"families": "sharpness", "sharpness_draws": 2000}
    how["sharpness_radii"] = {f"average-{scale}-{norm}": [0.01]}
    report = flatlab.measure(model, x, y, **how)
    error = report.sharpness_at_radius_error.item()
    assert abs(report.sharpness_at_radius.item() - exact) < 4 * error
    assert error < 0.05 * exact


def test_averages_contain_kinks_that_the_hessian_does_not():
    """L = (relu(w) + 1)^2 / 2 at w = 0 has no second derivative, and E L - L of order rho."""
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU()).double()
    nn.init.zeros_(model[0].weight)
    x, rho = torch.ones(1, 1, dtype=torch.float64), 0.01
    how = {"families": ["sharpness", "flatness"], "flatness": ["traces"], "sharpness_draws": 2000}
    how |= {"loss": "half-mse", "sharpness_loss": "half-mse"}
    how["sharpness_radii"] = {"average-standard-l2": [rho]}
    report = flatlab.measure(model, x, -x, **how)
    exact, error = rho / math.sqrt(2 * math.pi) + rho**2 / 4, report.sharpness_at_radius_error
    assert abs(report.sharpness_at_radius.item() - exact) < 4 * error.item() < 0.2 * exact
    assert report.hessian_trace.item() == 0


@law(3, seed=st.integers(0, 10**6), factor=st.floats(0.05, 20))
def test_rescaling_layers_changes_standard_sharpness_alone(case, seed, factor):
    model, x, y = case(seed)
    radii = everywhere(0.003, 0.03)
    before, after = (measured(m, x, y, radii) for m in (model, rescaled(model, 0, 1, factor)))
    scale_free = before.sel(definition=SCALE_FREE)
    np.testing.assert_allclose(
        after.sel(definition=SCALE_FREE), scale_free, rtol=1e-6, atol=1e-6 * abs(scale_free).max()
    )
    if not 0.5 < factor < 2:
        standard = before.drop_sel(definition=SCALE_FREE)
        assert not np.allclose(after.drop_sel(definition=SCALE_FREE), standard, rtol=1e-3)


def test_scaling_the_outputs_changes_nothing_for_normalized_logits(case):
    model, x, y = case(1)
    other = copy.deepcopy(model)
    multiply(other[-1], 7)
    radii = everywhere(0.01, among=[name for name in SMALLEST_RADII if "normalized" in name])
    before, after = (measured(m, x, y, radii) for m in (model, other))
    np.testing.assert_allclose(after, before, rtol=1e-8)


def test_weights_of_zero_are_frozen_in_adaptive_sharpness(case):
    model, x, y = case(2)
    frozen = copy.deepcopy(model)
    for network in (model, frozen):
        nn.init.zeros_(network[0].bias)
        nn.init.zeros_(network[2].weight[1])
    frozen[0].bias.requires_grad_(False)
    radii = everywhere(0.05, 0.5, among=["worst-adaptive-l2", "worst-adaptive-linf"])
    np.testing.assert_allclose(
        measured(frozen, x, y, radii), measured(model, x, y, radii), rtol=1e-9
    )


def test_networks_that_view_feature_maps_are_measured_too(normal):
    """As a vector, which needs one layout of them."""
    torch.manual_seed(0)
    conv, last = nn.Conv2d(3, 4, 3), nn.Linear(4 * 4 * 4, 3)
    viewing = Written(lambda net, x: net.last(net.conv(x).view(len(x), -1)), conv=conv, last=last)
    flattening = nn.Sequential(conv, nn.Flatten(), last)
    x, y = normal(6, 3, 6, 6).float(), torch.arange(6) % 3
    found, expected = (measured(m, x, y, everywhere(0.05)) for m in (viewing, flattening))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)


EXACT = 1e-8
OPTIONS = {"draws": 4, "trace": "exact", "ascent_steps": 0, "tolerance": 1e-9, "drop_above": None}


def adaptive_of(model, inputs, outputs):
    targets = torch.eye(max(outputs, len(inputs)), dtype=torch.float64)[: len(inputs), :outputs]
    return flatlab.measure(model, inputs, targets, families=["adaptive"], **OPTIONS)


def same(first, second, names):
    for name in names:
        assert float(first[name]) == pytest.approx(float(second[name]), rel=EXACT, abs=1e-12), name


@law(25)
def test_rescaled_neurons_change_neither_sharpness_nor_norms(draw_network, data):
    """Each neuron by a factor of its own, undone behind it: f is the same function."""
    drawn = draw_network(data, activations=["relu"], hidden=(1, 3))
    hidden = range(len(layers_of(drawn.model)) - 1)
    other = scaled_neurons(data, drawn.model, *hidden)
    before, after = (adaptive_of(m, drawn.x, drawn.outputs) for m in (drawn.model, other))
    names = ["adaptive_sharpness", "adaptive_sharpness_error", "elementwise_adaptive_trace"]
    same(before, after, [*names, "normalized_mls", "mls", "sample_loss"])


@law(25)
def test_scaled_inputs_change_no_normalized_norm(draw_network, data):
    """g(x) = f(x / c) at c x: the first layer undoes the scale of the inputs."""
    drawn = draw_network(data)
    factor = data.draw(FACTORS)
    other = copy.deepcopy(drawn.model)
    other[0].weight.data /= factor
    before = adaptive_of(drawn.model, drawn.x, drawn.outputs)
    after = adaptive_of(other, factor * drawn.x, drawn.outputs)
    same(before, after, ["normalized_mls", "adaptive_sharpness", "elementwise_adaptive_trace"])
    assert float(after.mls) == pytest.approx(float(before.mls) / factor, rel=EXACT)


@law(25)
def test_norms_lie_where_they_must(draw_network, data):
    """mean^2 of ||J|| ||x|| <= normalized MLS <= mean ||x||^2 ||J||_F^2; sigmoids contract."""
    drawn = draw_network(data)
    targets = torch.zeros(len(drawn.x), drawn.outputs, dtype=torch.float64)
    how = {**OPTIONS, "families": ["adaptive", "geometry"], "outputs": "network"}
    raw = flatlab.measure(drawn.model, drawn.x, targets, **how)
    squares = drawn.x.square().sum(1).numpy()
    upper = float((squares * raw.jacobian_frobenius.values**2).mean())
    assert float(raw.normalized_mls) <= upper * (1 + EXACT)
    behind = adaptive_of(drawn.model, drawn.x, drawn.outputs)
    assert float(behind.mls) <= float(raw.mls) / 4 * (1 + EXACT)
