"""Relations between quantities that hold for every network, and for fully connected ones.

W_l, x^l, J^l, Gamma^l as in `flatlab.families.geometry`; M inputs, N outputs; S(W_l), S(b_l) the
sharpness of weights and biases; q_l the root mean square of 1 / ||x^l||.
"""

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import nn

from tests.laws.relations import EXACT, in_order, in_order_of_logarithms, is_one, law
from tests.networks.whole import hessian_of


def test_quantities_with_parts_are_their_sums_and_means(networks):
    """S is the sum over parameters, NMLS and its bound are sums over layers; means of samples."""
    for net in networks:
        values = net.values
        parts = values["sharpness_per_layer"].sum() + values["bias_sharpness_per_layer"].sum()
        expected = {
            "nmls": values["mls_per_layer"].sum(),
            "nmls_bound_layerwise": values["layer_bound"].sum(),
            "sharpness": values["sharpness_per_sample"].mean(),
            "root_sharpness": values["sharpness"] ** 0.5,
            "mls": values["mls_per_sample"].mean(),
            "mls_per_layer": values["sensitivity"].mean(0),
            "g": (values["jacobian_frobenius"] ** 2).mean(),
        }
        for name, value in expected.items():
            assert values[name] == pytest.approx(value, rel=EXACT), name
        if any(isinstance(module, nn.BatchNorm2d) for module in net.model):
            in_order(parts, values["sharpness"])
        else:
            assert values["sharpness"] == pytest.approx(parts, rel=EXACT)


def test_the_first_layer_has_the_values_of_the_network(networks):
    """A = MLS = MLS^1 and C = C_1, in a network without branches."""
    for values in (net.values for net in networks):
        assert values["bound_a"] == pytest.approx(values["mls"], rel=EXACT)
        assert values["bound_a"] == pytest.approx(values["mls_per_layer"][0], rel=EXACT)
        assert values["bound_c"] == values["layer_bound"][0]
        assert values["sensitivity"][:, 0] == pytest.approx(values["mls_per_sample"], rel=EXACT)


def test_the_dimension_lies_between_the_stable_rank_and_the_rank(networks):
    """1 <= ||J||_F^2 / ||J||_2^2 <= D <= rank J <= min(N, M), for each sample with J != 0.

    With one output all are 1, and both norms agree.
    """
    for net in networks:
        values, sigma = net.values, net.sigma
        dimension, alive = values["local_dimension_per_sample"], sigma[:, 0] > 0
        assert values["samples_zero_jacobian"] == (~alive).sum()
        assert (np.isnan(dimension) == ~alive).all()
        stable = (values["jacobian_frobenius"][alive] / values["mls_per_sample"][alive]) ** 2
        rank = (sigma > 1e-14 * sigma[:, :1]).sum(1)[alive]
        in_order(1, stable, dimension[alive], rank, min(net.inputs, net.outputs))
        if net.outputs == 1:
            assert (dimension[alive] == 1).all()
            assert values["mls"] == pytest.approx(values["jacobian_frobenius"].mean(), rel=EXACT)


def test_the_volume_of_a_sample_is_bounded_by_its_norms(networks):
    """ln dVol <= N/2 ln(||J||_F^2 / N), equal where D = N, and ln dVol <= N ln ||J||_2."""
    for net in networks:
        full, values = net.full, net.values
        assert values["samples_rank_deficient"] == (~full).sum()
        volume = values["log_volume_per_sample"]
        assert (np.isneginf(volume) == ~full).all()
        frobenius = values["jacobian_frobenius"][full]
        by_frobenius = net.outputs / 2 * np.log(frobenius**2 / net.outputs)
        in_order_of_logarithms(volume[full], by_frobenius)
        in_order_of_logarithms(volume[full], net.outputs * np.log(values["mls_per_sample"][full]))
        if net.outputs == 1:
            assert volume[full] == pytest.approx(by_frobenius, rel=EXACT, abs=EXACT)


def test_means_of_logarithms_lie_below_logarithms_of_means(networks):
    """mean ln dVol <= ln mean dVol <= ln N^(-N/2) mean ||J||_F^N.

    The first mean leaves out samples without full rank, whose volume is 0 in the second.
    """
    for net in networks:
        values = net.values
        kept = len(net.x) - values["samples_rank_deficient"]
        with np.errstate(divide="ignore"):  # networks whose Jacobian is zero everywhere
            powers = (values["jacobian_frobenius"] ** net.outputs).mean()
            bound = np.log(powers) - net.outputs / 2 * np.log(net.outputs)
        if kept:
            share = np.log(kept / len(net.x))
            in_order_of_logarithms(values["log_volume"] + share, values["log_mean_volume"], bound)
        else:
            assert np.isneginf(values["log_mean_volume"])


def test_sensitivity_is_bounded_by_frobenius_norms(networks):
    """MLS <= mean ||J||_F <= sqrt(G) <= sqrt(N mean ||J||_2^2)."""
    for net in networks:
        values = net.values
        largest = np.sqrt(net.outputs * (values["mls_per_sample"] ** 2).mean())
        in_order(values["mls"], values["jacobian_frobenius"].mean(), np.sqrt(values["g"]), largest)


def test_norms_of_inputs_and_sensitivities_obey_cauchy_and_schwarz(networks):
    """(MLS^l)^2 / q_l^2 <= mean ||x^l||^2 ||J^l||_2^2 <= mean ||x^l||^2 ||J^l||_F^2."""
    for net in networks:
        singular, x2 = net.of_layers("singular"), net.of_layers("x2")
        with np.errstate(divide="ignore"):  # layers whose input is zero
            q2 = (1 / x2).mean(0)
        largest, frobenius = singular[..., 0] ** 2, (singular**2).sum(2)
        weighted = singular[..., 0].mean(0) ** 2 / q2
        in_order(weighted, (x2 * largest).mean(0), (x2 * frobenius).mean(0))


def test_a_linear_head_has_known_sharpness_and_sensitivity(networks):
    """MLS^L = ||W_L||_2, S(W_L) = N mean ||x^L||^2, S(b_L) = N, and S is no less than both."""
    for net in networks:
        values, features = net.values, net.model[:-1](net.x).detach().numpy()
        of_weights = net.outputs * (features**2).sum(1).mean()
        assert values["mls_per_layer"][-1] == pytest.approx(values["weight_norm"][-1], rel=EXACT)
        assert values["sharpness_per_layer"][-1] == pytest.approx(of_weights, rel=EXACT)
        assert values["bias_sharpness_per_layer"][-1] == net.outputs * net.bias
        in_order(of_weights + net.outputs * net.bias, values["sharpness"])


def test_a_larger_norm_of_the_weights_gives_larger_bounds(networks):
    """||W||_2 <= ||W||_F, and ||K||_2 and the operator's norm <= sqrt(positions) ||K||_F."""
    for net in networks:
        kernel, operator, frobenius = net.values["bound_by_norm"]
        in_order(kernel, frobenius)
        in_order(operator, frobenius)


def test_the_norm_of_a_weight_gradient_is_a_product(linear_networks):
    """||df/dW_l||_F = ||Gamma^l||_F ||x^l|| and ||df/db_l||_F = ||Gamma^l||_F, for each sample."""
    for net in linear_networks:
        parameters = dict(net.model.named_parameters())

        def outputs(parameters, sample, model=net.model):
            return torch.func.functional_call(model, parameters, sample)

        gradients = torch.func.vmap(torch.func.jacrev(outputs), (None, 0))(parameters, net.x)
        squares = {n: g.flatten(1).square().sum(1).detach().numpy() for n, g in gradients.items()}
        for layer in net.layers:
            of_weights = squares[f"{layer.name}.weight"]
            assert of_weights == pytest.approx((layer.gamma2 * layer.x2).numpy(), rel=EXACT)
            assert layer.weight2.numpy() == pytest.approx(of_weights, rel=EXACT)
            if net.bias:
                of_biases = squares[f"{layer.name}.bias"]
                assert of_biases == pytest.approx(layer.gamma2.numpy(), rel=EXACT)
                assert layer.bias2.numpy() == pytest.approx(of_biases, rel=EXACT)


def test_without_sharing_the_stability_trick_is_exact_and_linear_stability_holds(linear_networks):
    """||df/dW_l||_F = ||Gamma^l||_F ||x^l|| and ||J^l||_2 ||x^l|| <= ||W_l||_2 ||df/dW_l||_F."""
    for net in linear_networks:
        is_one(net.values["stability_trick_ratio"])
        assert not (net.values["linear_stability_ratio"] > 1 + EXACT).any()
        assert not net.values["violations"].any()
        assert not net.values["shared"].any()


def test_the_bounds_of_the_first_layer_are_in_order(linear_networks):
    """A <= mean ||J||_F <= B <= C <= D, and A <= A' <= A'' <= C.

    A' = q_1 sqrt(mean ||x||^2 ||J||_2^2), the root of normalized MLS, and A'' with ||J||_F.
    """
    for values in (net.values for net in linear_networks):
        letters = [values[f"bound_{letter}"] for letter in "bcd"]
        in_order(values["bound_a"], values["jacobian_frobenius"].mean(), *letters)
        q = values["reciprocal_input_norm"][0]
        with_largest = q * np.sqrt(values["normalized_mls"])
        with_frobenius = q * np.sqrt(values["relative_flatness"][0])
        in_order(values["bound_a"], with_largest, with_frobenius, values["bound_c"])


def test_the_bounds_of_all_layers_are_in_order(linear_networks):
    """MLS <= NMLS <= sum of C_l <= NMLS bound, MLS bound <= NMLS bound, and MLS^l <= C_l.

    The bound with bias lies between NMLS and its bound, and is the bound where there is no bias.
    """
    for net in linear_networks:
        values = net.values
        in_order(values["nmls"], values["nmls_bound_with_bias"], values["nmls_bound"])
        in_order(values["bound_d"], values["nmls_bound"])
        in_order(values["mls_per_layer"], values["layer_bound"])
        if not net.bias:
            assert values["nmls_bound_with_bias"] == values["nmls_bound"]
        bounds = values["nmls_bound_layerwise"], values["nmls_bound"]
        in_order(values["mls"], values["nmls"], *bounds)


def test_relative_flatness_lies_between_sensitivity_and_sharpness(linear_networks):
    """(MLS^l)^2 / q_l^2 <= mean ||x^l||^2 ||J^l||_2^2 <= kappa^l <= ||W_l||_2^2 S(W_l).

    Hence weighted MLS <= sum of sqrt(kappa^l) <= matrix-normalized sharpness.
    """
    for values in (net.values for net in linear_networks):
        weighted = values["mls_per_layer"] / values["reciprocal_input_norm"]
        kappa = values["relative_flatness"]
        in_order(weighted[0] ** 2, values["normalized_mls"], kappa[0])
        matrix = values["weight_norm"] * np.sqrt(values["sharpness_per_layer"])
        in_order(weighted**2, kappa, matrix**2)
        sums = values["weighted_mls"], np.sqrt(kappa).sum(), values["matrix_normalized_sharpness"]
        in_order(*sums)


def test_the_adaptive_trace_bounds_the_input_invariant_sensitivities(linear_networks):
    """I(f) / d_1 <= sum over the layers of I(f^l) / d_l <= sum of theta_j^2 ||df/dtheta_j||^2."""
    for net in linear_networks:
        of_first = net.values["input_invariant_mls"] / len(net.model[0].weight)
        of_network = net.values["network_input_invariant_mls"]
        in_order(of_first, of_network, net.values["elementwise_adaptive_trace"])


def test_mean_volumes_lie_below_their_bounds(linear_networks):
    """Of the network by the first layer, and of the sum over the layers by all layers."""
    for values in (net.values for net in linear_networks):
        first, whole = values["log_mean_volume"], values["network_log_volume"]
        bounds = values["log_volume_bound"], values["network_log_volume_bound"]
        in_order_of_logarithms(first, bounds[0])
        in_order_of_logarithms(whole, bounds[1])
        in_order_of_logarithms(first, whole)
        in_order_of_logarithms(*bounds)


# Sharpness is the trace of a Hessian, at any parameters and any targets, of |f - y|^2 / 2.
# Where a network is piecewise linear, f has no second derivative in any one of its parameters; the
# trace of the Hessian is then that of its Gauss-Newton part, however far f is from y.


def hessian_diagonal(model, x, targets):
    """Of mean |f - y|^2 / 2, with respect to every parameter."""
    whole = hessian_of(model, lambda f: (f - targets).square().sum(1).mean() / 2, x)
    return whole.diagonal().numpy()


def check(model, x, data, normal, measured):
    """Tr H = S, and the sum of theta_j^2 H_jj is its adaptive version."""
    outputs = model(x).shape[1]
    distance = data.draw(st.sampled_from([0.0, 1.0, 100.0]))
    residuals = distance * normal(len(x), outputs, seed=data.draw(st.integers(0, 10**6)))
    diagonal = hessian_diagonal(model, x, model(x).detach() + residuals)
    parameters = nn.utils.parameters_to_vector(model.parameters()).detach().numpy()
    values = measured(model, x, costly=["elementwise-adaptive-trace"])
    # what cancels in the Hessian is as large as the residuals
    rounding = 1e-13 * (1 + distance) * (1 + np.abs(diagonal).sum())
    assert values["sharpness"] == pytest.approx(diagonal.sum(), rel=1e-9, abs=rounding)
    adaptive = diagonal @ parameters**2
    assert values["elementwise_adaptive_trace"] == pytest.approx(adaptive, rel=1e-9, abs=rounding)


class Residual(nn.Module):
    """x + conv(norm(conv(x))) between two convolutions, with max pooling and a linear head."""

    def __init__(self, channels, outputs):
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 2)
        self.norm = nn.BatchNorm2d(channels)
        self.first = nn.Conv2d(channels, 2, 3, padding=1, bias=False)
        self.inner = nn.BatchNorm2d(2)
        self.second = nn.Conv2d(2, channels, 1)
        self.head = nn.Linear(channels, outputs)

    def forward(self, x):
        x = self.norm(self.stem(x)).relu()
        x = x + self.second(self.inner(self.first(x)).relu())
        return self.head(x.relu().amax((2, 3)))


@pytest.mark.parametrize("kind", ["draw_network", "draw_convolutional"])
@law(25)
def test_sharpness_is_the_trace_of_the_hessian(data, kind, request, normal, measured):
    net = request.getfixturevalue(kind)(data, activations=["relu"])
    check(net.model, net.x, data, normal, measured)


@law(25)
def test_of_residual_networks_sharpness_is_that_trace(data, randomized, normal, measured):
    """Batch norm in evaluation mode."""
    seed = data.draw(st.integers(0, 10**6))
    sizes = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    model = randomized(Residual(*sizes), seed)
    check(model, normal(3, 1, 4, 5, seed=seed), data, normal, measured)


@law(25)
def test_of_smooth_ones_it_is_at_zero_residual_alone(data, draw_network, normal, measured):
    """The difference is linear in the residuals."""
    net = draw_network(data, activations=["tanh"], hidden=(1, 2))
    sharpness = measured(net.model, net.x, costly=[])["sharpness"]
    outputs = net.model(net.x).detach()
    residuals = normal(*outputs.shape, seed=data.draw(st.integers(0, 10**6)))
    traces = [
        hessian_diagonal(net.model, net.x, outputs - times * residuals).sum() for times in (0, 1, 2)
    ]
    assert traces[0] == pytest.approx(sharpness, rel=1e-9)
    once, twice = traces[1] - traces[0], traces[2] - traces[0]
    assert twice == pytest.approx(2 * once, rel=1e-6, abs=1e-9 * sharpness)
    assert abs(once) > 1e-9 * sharpness
