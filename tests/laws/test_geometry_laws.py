"""Relations between quantities that hold for every fully connected network.

W_l, x^l, J^l, Gamma^l as in `flatlab.metrics.geometry`; M inputs, N outputs; S(W_l), S(b_l) the
sharpness of weights and biases; q_l the root mean square of 1 / ||x^l||.
"""

import numpy as np
import pytest
import torch

from tests.laws.relations import EXACT, in_order, in_order_of_logarithms, is_one


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
