"""Relations between quantities that hold for every network, or every fully connected one.

W_l, x^l, J^l, Gamma^l as in `flatlab.metrics.geometry`; M inputs, N outputs; S(W_l), S(b_l) the
sharpness of weights and biases; q_l the root mean square of 1 / ||x^l||.
"""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

LAW = settings(max_examples=60, deadline=None, derandomize=True)
EXACT = 1e-10


def singular_values(net):
    """Of J, from automatic differentiation: (samples, min(N, M))."""
    jacobian = torch.func.jacrev(lambda sample: net.model(sample[None])[0])
    jacobians = [jacobian(sample).detach().flatten(1) for sample in net.x]
    return torch.linalg.svdvals(torch.stack(jacobians)).numpy()


def of_full_rank(net, sigma):
    """Which samples have a Jacobian of rank N."""
    return (sigma[:, -1] > 1e-14 * sigma[:, 0]) & (net.outputs <= net.inputs)


def in_order(*values):
    for lower, upper in pairwise(values):
        assert np.all(lower <= upper * (1 + EXACT)), values


def in_order_of_logarithms(*values):
    for lower, upper in pairwise(values):
        assert np.all((lower <= upper) | np.isclose(lower, upper, rtol=EXACT, atol=EXACT)), values


def is_one(ratios):
    """Where it is defined: 0 / 0 says nothing."""
    defined = ratios[~np.isnan(ratios)]
    assert defined == pytest.approx(np.ones_like(defined), rel=EXACT)


def of_layers(found, name):
    """(samples, layers)"""
    return np.stack([getattr(layer, name).numpy() for layer in found.layers], axis=1)


# Fully connected networks


@LAW
@given(data=st.data())
def test_the_norm_of_a_weight_gradient_is_a_product(data, draw_network, found):
    """||df/dW_l||_F = ||Gamma^l||_F ||x^l|| and ||df/db_l||_F = ||Gamma^l||_F, for each sample."""
    net = draw_network(data)
    parameters = dict(net.model.named_parameters())

    def outputs(parameters, sample):
        return torch.func.functional_call(net.model, parameters, sample)

    gradients = torch.func.vmap(torch.func.jacrev(outputs), (None, 0))(parameters, net.x)
    squares = {name: rows.flatten(1).square().sum(1).detach() for name, rows in gradients.items()}
    for layer in found(net).layers:
        of_weights = squares[f"{layer.name}.weight"].numpy()
        assert of_weights == pytest.approx((layer.gamma2 * layer.x2).numpy(), rel=EXACT)
        assert layer.weight2.numpy() == pytest.approx(of_weights, rel=EXACT)
        if net.bias:
            of_biases = squares[f"{layer.name}.bias"].numpy()
            assert of_biases == pytest.approx(layer.gamma2.numpy(), rel=EXACT)
            assert layer.bias2.numpy() == pytest.approx(of_biases, rel=EXACT)


@LAW
@given(data=st.data())
def test_without_sharing_the_stability_trick_is_exact_and_linear_stability_holds(
    data, draw_network, measured
):
    """||df/dW_l||_F = ||Gamma^l||_F ||x^l|| and ||J^l||_2 ||x^l|| <= ||W_l||_2 ||df/dW_l||_F."""
    net = draw_network(data)
    values = measured(net.model, net.x)
    is_one(values["stability_trick_ratio"])
    assert not (values["linear_stability_ratio"] > 1 + EXACT).any()
    assert not values["violations"].any()
    assert not values["shared"].any()


@LAW
@given(data=st.data())
def test_the_bounds_of_the_first_layer_are_in_order(data, draw_network, measured):
    """A <= mean ||J||_F <= B <= C <= D, and A <= A' <= A'' <= C.

    A' = q_1 sqrt(mean ||x||^2 ||J||_2^2), the root of normalized MLS, and A'' with ||J||_F.
    """
    net = draw_network(data)
    values = measured(net.model, net.x)
    letters = [values[f"bound_{letter}"] for letter in "bcd"]
    in_order(values["bound_a"], values["jacobian_frobenius"].mean(), *letters)
    q = values["reciprocal_input_norm"][0]
    with_largest = q * np.sqrt(values["normalized_mls"])
    with_frobenius = q * np.sqrt(values["relative_flatness"][0])
    in_order(values["bound_a"], with_largest, with_frobenius, values["bound_c"])


@LAW
@given(data=st.data())
def test_the_bounds_of_all_layers_are_in_order(data, draw_network, measured):
    """MLS <= NMLS <= sum of C_l <= NMLS bound, MLS bound <= NMLS bound, and MLS^l <= C_l.

    The bound with bias lies between NMLS and its bound, and is the bound where there is no bias.
    """
    net = draw_network(data)
    values = measured(net.model, net.x)
    in_order(values["nmls"], values["nmls_bound_with_bias"], values["nmls_bound"])
    in_order(values["bound_d"], values["nmls_bound"])
    in_order(values["mls_per_layer"], values["layer_bound"])
    if not net.bias:
        assert values["nmls_bound_with_bias"] == values["nmls_bound"]
    bounds = values["nmls_bound_layerwise"], values["nmls_bound"]
    in_order(values["mls"], values["nmls"], *bounds)


@LAW
@given(data=st.data())
def test_a_larger_norm_of_the_weights_gives_larger_bounds(data, draw_any, measured):
    """||W||_2 <= ||W||_F, and ||K||_2 and the operator's norm <= sqrt(positions) ||K||_F."""
    net = draw_any(data)
    kernel, operator, frobenius = measured(net.model, net.x)["bound_by_norm"]
    in_order(kernel, frobenius)
    in_order(operator, frobenius)


@LAW
@given(data=st.data())
def test_relative_flatness_lies_between_sensitivity_and_sharpness(data, draw_network, measured):
    """(MLS^l)^2 / q_l^2 <= mean ||x^l||^2 ||J^l||_2^2 <= kappa^l <= ||W_l||_2^2 S(W_l).

    Hence weighted MLS <= sum of sqrt(kappa^l) <= matrix-normalized sharpness.
    """
    net = draw_network(data)
    values = measured(net.model, net.x)
    weighted = values["mls_per_layer"] / values["reciprocal_input_norm"]
    kappa = values["relative_flatness"]
    in_order(weighted[0] ** 2, values["normalized_mls"], kappa[0])
    matrix = values["weight_norm"] * np.sqrt(values["sharpness_per_layer"])
    in_order(weighted**2, kappa, matrix**2)
    sums = values["weighted_mls"], np.sqrt(kappa).sum(), values["matrix_normalized_sharpness"]
    in_order(*sums)


@LAW
@given(data=st.data())
def test_the_adaptive_trace_bounds_the_input_invariant_sensitivities(data, draw_network, measured):
    """I(f) / d_1 <= sum over the layers of I(f^l) / d_l <= sum of theta_j^2 ||df/dtheta_j||^2."""
    net = draw_network(data)
    values = measured(net.model, net.x)
    of_first = values["input_invariant_mls"] / len(net.model[0].weight)
    of_network = values["network_input_invariant_mls"]
    in_order(of_first, of_network, values["elementwise_adaptive_trace"])


@LAW
@given(data=st.data())
def test_mean_volumes_lie_below_their_bounds(data, draw_network, measured):
    """Of the network by the first layer, and of the sum over the layers by all layers."""
    net = draw_network(data)
    values = measured(net.model, net.x)
    in_order_of_logarithms(values["log_mean_volume"], values["log_volume_bound"])
    sums = values["network_log_volume"], values["network_log_volume_bound"]
    in_order_of_logarithms(*sums)
    in_order_of_logarithms(values["log_mean_volume"], values["network_log_volume"])
    in_order_of_logarithms(values["log_volume_bound"], values["network_log_volume_bound"])


# Networks of any kind


@LAW
@given(data=st.data())
def test_quantities_with_parts_are_their_sums_and_means(data, draw_any, measured):
    """S is the sum over parameters, NMLS and its bound are sums over layers; means of samples."""
    net = draw_any(data)
    values = measured(net.model, net.x)
    assert values["root_sharpness"] ** 2 == pytest.approx(values["sharpness"], rel=EXACT)
    assert values["nmls"] == pytest.approx(values["mls_per_layer"].sum(), rel=EXACT)
    assert values["nmls_bound_layerwise"] == pytest.approx(values["layer_bound"].sum(), rel=EXACT)
    assert values["sharpness"] == pytest.approx(values["sharpness_per_sample"].mean(), rel=EXACT)
    assert values["mls"] == pytest.approx(values["mls_per_sample"].mean(), rel=EXACT)
    assert values["mls_per_layer"] == pytest.approx(values["sensitivity"].mean(0), rel=EXACT)
    assert values["g"] == pytest.approx((values["jacobian_frobenius"] ** 2).mean(), rel=EXACT)
    parts = values["sharpness_per_layer"].sum() + values["bias_sharpness_per_layer"].sum()
    if any(isinstance(module, nn.BatchNorm2d) for module in net.model):
        in_order(parts, values["sharpness"])
    else:
        assert values["sharpness"] == pytest.approx(parts, rel=EXACT)


@LAW
@given(data=st.data())
def test_the_first_layer_has_the_values_of_the_network(data, draw_any, measured):
    """A = MLS = MLS^1 and C = C_1, in a network without branches."""
    net = draw_any(data)
    values = measured(net.model, net.x)
    assert values["bound_a"] == pytest.approx(values["mls"], rel=EXACT)
    assert values["bound_a"] == pytest.approx(values["mls_per_layer"][0], rel=EXACT)
    assert values["bound_c"] == values["layer_bound"][0]
    assert values["sensitivity"][:, 0] == pytest.approx(values["mls_per_sample"], rel=EXACT)


@LAW
@given(data=st.data())
def test_the_dimension_lies_between_the_stable_rank_and_the_rank(data, draw_any, measured):
    """1 <= ||J||_F^2 / ||J||_2^2 <= D <= rank J <= min(N, M), for each sample with J != 0."""
    net = draw_any(data)
    sigma, values = singular_values(net), measured(net.model, net.x)
    dimension = values["local_dimension_per_sample"]
    alive = sigma[:, 0] > 0
    assert values["samples_zero_jacobian"] == (~alive).sum()
    assert (np.isnan(dimension) == ~alive).all()
    stable = (values["jacobian_frobenius"][alive] / values["mls_per_sample"][alive]) ** 2
    rank = (sigma > 1e-14 * sigma[:, :1]).sum(1)[alive]
    in_order(1, stable, dimension[alive], rank, min(net.inputs, net.outputs))


@LAW
@given(data=st.data())
def test_with_one_output_the_dimension_is_one_and_both_norms_agree(data, draw_any, measured):
    net = draw_any(data)
    assume(net.outputs == 1)
    values = measured(net.model, net.x)
    dimension = values["local_dimension_per_sample"]
    assert (dimension[~np.isnan(dimension)] == 1).all()
    assert values["mls"] == pytest.approx(values["jacobian_frobenius"].mean(), rel=EXACT)


@LAW
@given(data=st.data())
def test_the_volume_of_a_sample_is_bounded_by_its_norms(data, draw_any, measured):
    """ln dVol <= N/2 ln(||J||_F^2 / N), equal where D = N, and ln dVol <= N ln ||J||_2."""
    net = draw_any(data)
    full, values = of_full_rank(net, singular_values(net)), measured(net.model, net.x)
    assert values["samples_rank_deficient"] == (~full).sum()
    volume = values["log_volume_per_sample"]
    assert (np.isneginf(volume) == ~full).all()
    frobenius = values["jacobian_frobenius"][full]
    by_frobenius = net.outputs / 2 * np.log(frobenius**2 / net.outputs)
    in_order_of_logarithms(volume[full], by_frobenius)
    in_order_of_logarithms(volume[full], net.outputs * np.log(values["mls_per_sample"][full]))
    if net.outputs == 1:
        assert volume[full] == pytest.approx(by_frobenius, rel=EXACT, abs=EXACT)


@LAW
@given(data=st.data())
def test_means_of_logarithms_lie_below_logarithms_of_means(data, draw_any, measured):
    """mean ln dVol <= ln mean dVol <= ln N^(-N/2) mean ||J||_F^N.

    The first mean leaves out samples without full rank, whose volume is 0 in the second.
    """
    net = draw_any(data)
    values = measured(net.model, net.x)
    kept = len(net.x) - values["samples_rank_deficient"]
    with np.errstate(divide="ignore"):  # networks whose Jacobian is zero everywhere
        powers = (values["jacobian_frobenius"] ** net.outputs).mean()
        bound = np.log(powers) - net.outputs / 2 * np.log(net.outputs)
    if kept:
        share = np.log(kept / len(net.x))
        in_order_of_logarithms(values["log_volume"] + share, values["log_mean_volume"], bound)
    else:
        assert np.isneginf(values["log_mean_volume"])


@LAW
@given(data=st.data())
def test_sensitivity_is_bounded_by_frobenius_norms(data, draw_any, measured):
    """MLS <= mean ||J||_F <= sqrt(G) <= sqrt(N mean ||J||_2^2)."""
    net = draw_any(data)
    values = measured(net.model, net.x)
    largest = np.sqrt(net.outputs * (values["mls_per_sample"] ** 2).mean())
    in_order(values["mls"], values["jacobian_frobenius"].mean(), np.sqrt(values["g"]), largest)


@LAW
@given(data=st.data())
def test_norms_of_inputs_and_sensitivities_obey_cauchy_and_schwarz(data, draw_any, found):
    """(MLS^l)^2 / q_l^2 <= mean ||x^l||^2 ||J^l||_2^2 <= mean ||x^l||^2 ||J^l||_F^2."""
    derivatives = found(draw_any(data))
    singular, x2 = of_layers(derivatives, "singular"), of_layers(derivatives, "x2")
    with np.errstate(divide="ignore"):  # layers whose input is zero
        q2 = (1 / x2).mean(0)
    largest, frobenius = singular[..., 0] ** 2, (singular**2).sum(2)
    weighted = singular[..., 0].mean(0) ** 2 / q2
    in_order(weighted, (x2 * largest).mean(0), (x2 * frobenius).mean(0))


@LAW
@given(data=st.data())
def test_a_linear_head_has_known_sharpness_and_sensitivity(data, draw_any, measured):
    """MLS^L = ||W_L||_2, S(W_L) = N mean ||x^L||^2, S(b_L) = N, and S is no less than both."""
    net = draw_any(data)
    values = measured(net.model, net.x)
    features = net.model[:-1](net.x).detach().numpy()
    of_weights = net.outputs * (features**2).sum(1).mean()
    assert values["mls_per_layer"][-1] == pytest.approx(values["weight_norm"][-1], rel=EXACT)
    assert values["sharpness_per_layer"][-1] == pytest.approx(of_weights, rel=EXACT)
    assert values["bias_sharpness_per_layer"][-1] == net.outputs * net.bias
    in_order(of_weights + net.outputs * net.bias, values["sharpness"])
