"""Relations between quantities that hold for every network.

W_l, x^l, J^l, Gamma^l as in `flatlab.metrics.geometry`; M inputs, N outputs; S(W_l), S(b_l) the
sharpness of weights and biases; q_l the root mean square of 1 / ||x^l||.
"""

import numpy as np
import pytest
from torch import nn

from tests.laws.relations import EXACT, in_order, in_order_of_logarithms


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
