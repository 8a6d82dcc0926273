"""Relations between quantities that hold for every fully connected network, on random ones.

W_l, x^l, J^l as in `flatlab.metrics.geometry`; M inputs, N outputs.
"""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from flatlab.metrics.geometry import QUANTITIES, layer_pieces

LAW = settings(max_examples=20, deadline=None, derandomize=True)
EXACT = 1e-10


@pytest.fixture(scope="session")
def each(measured):
    """The quantities of each sample alone: arrays (samples, ...)."""

    def measure(model, x):
        single = [measured(model, sample[None]) for sample in x]
        return {name: np.stack([values[name] for values in single]) for name in QUANTITIES}

    return measure


def singular_values(net):
    """Of J, from automatic differentiation: (samples, min(N, M))."""
    jacobians = torch.func.vmap(torch.func.jacrev(net.model))(net.x).detach()
    return torch.linalg.svdvals(jacobians).numpy()


def of_full_rank(net, sigma):
    """The samples whose Jacobian has rank N."""
    full = sigma[:, -1] > 1e-14 * sigma[:, 0]
    return sigma[full & (net.outputs <= net.inputs)]


def in_order(*values):
    for lower, upper in pairwise(values):
        assert np.all(lower <= upper * (1 + EXACT)), values


@LAW
@given(data=st.data())
def test_the_norm_of_a_weight_gradient_is_a_product(data, draw_network):
    """||df/dW_l||_F = ||df/dz^l||_F ||x^l|| and ||df/db_l||_F = ||df/dz^l||_F, for each sample."""
    net = draw_network(data)
    parameters = dict(net.model.named_parameters())

    def outputs(parameters, sample):
        return torch.func.functional_call(net.model, parameters, sample)

    gradients = torch.func.vmap(torch.func.jacrev(outputs), (None, 0))(parameters, net.x)
    norms = {name: rows.flatten(1).norm(dim=1).detach() for name, rows in gradients.items()}
    layers = [name.removesuffix(".weight") for name in parameters if name.endswith("weight")]
    for name, piece in zip(layers, layer_pieces(net.model, net.x), strict=True):
        gamma = piece.gamma.flatten(1).norm(dim=1)
        assert norms[f"{name}.weight"].numpy() == pytest.approx(
            (gamma * piece.x.norm(dim=1)).numpy(), rel=EXACT
        )
        if net.bias:
            assert norms[f"{name}.bias"].numpy() == pytest.approx(gamma.numpy(), rel=EXACT)


@LAW
@given(data=st.data())
def test_quantities_with_parts_are_their_sums(data, draw_network, measured):
    """S is the sum over weights and biases, NMLS and its bound are sums over the layers."""
    net = draw_network(data)
    values = measured(net.model, net.x)
    parts = values["sharpness_per_layer"].sum() + values["bias_sharpness_per_layer"].sum()
    assert values["sharpness"] == pytest.approx(parts, rel=EXACT)
    assert values["root_sharpness"] ** 2 == pytest.approx(values["sharpness"], rel=EXACT)
    assert values["nmls"] == pytest.approx(values["mls_per_layer"].sum(), rel=EXACT)
    bound = values["layer_bound"].sum()
    assert values["nmls_bound_layerwise"] == pytest.approx(bound, rel=EXACT, nan_ok=True)


@LAW
@given(data=st.data())
def test_the_first_layer_has_the_values_of_the_network(data, draw_network, measured):
    """A = MLS = MLS^1 and C = C_1."""
    net = draw_network(data)
    values = measured(net.model, net.x)
    assert values["bound_a"] == values["mls"] == values["mls_per_layer"][0]
    assert values["bound_c"] == values["layer_bound"][0]


@LAW
@given(data=st.data())
def test_the_dimension_lies_between_the_stable_rank_and_the_rank(data, draw_network, each):
    """1 <= ||J||_F^2 / ||J||_2^2 <= D <= rank J <= min(N, M), for each sample with J != 0."""
    net = draw_network(data)
    sigma, dimension = singular_values(net), each(net.model, net.x)["local_dimension"]
    alive = sigma[:, 0] > 0
    assert np.isnan(dimension[~alive]).all()
    sigma, dimension = sigma[alive], dimension[alive]
    stable = (sigma**2).sum(1) / sigma[:, 0] ** 2
    rank = (sigma > 1e-14 * sigma[:, :1]).sum(1)
    in_order(1, stable, dimension, rank, min(net.inputs, net.outputs))


@LAW
@given(data=st.data())
def test_volume_is_bounded_by_norms(data, draw_network, measured):
    """ln dVol <= N/2 ln(||J||_F^2 / N) and N ln ||J||_2, and mean ln dVol <= ln mean dVol."""
    net = draw_network(data)
    sigma, values = of_full_rank(net, singular_values(net)), measured(net.model, net.x)
    assert values["samples_rank_deficient"] == len(net.x) - len(sigma)
    assume(len(sigma))
    frobenius = net.outputs / 2 * np.log((sigma**2).sum(1) / net.outputs)
    volume = values["log_volume"]
    assert volume <= frobenius.mean() + EXACT
    assert volume <= net.outputs * np.log(sigma[:, 0]).mean() + EXACT
    assert volume <= np.log(sigma.prod(1).mean()) + EXACT
    assert volume <= np.log(np.exp(frobenius).mean()) + EXACT


@LAW
@given(data=st.data())
def test_sensitivity_is_bounded_by_frobenius_norms(data, draw_network, measured):
    """MLS <= mean ||J||_F <= sqrt(mean ||J||_F^2) <= sqrt(N mean ||J||_2^2); equal for N = 1."""
    net = draw_network(data)
    sigma, mls = singular_values(net), measured(net.model, net.x)["mls"]
    frobenius = np.sqrt((sigma**2).sum(1))
    largest = np.sqrt(net.outputs * (sigma[:, 0] ** 2).mean())
    in_order(mls, frobenius.mean(), np.sqrt((frobenius**2).mean()), largest)
    if net.outputs == 1:
        assert mls == pytest.approx(frobenius.mean(), rel=EXACT)


@LAW
@given(data=st.data())
def test_the_bounds_of_the_first_layer_are_in_order(data, draw_network, measured):
    """A <= mean ||J||_F <= B <= C <= D, and A <= A' <= A'' <= C.

    A' = q sqrt(mean ||x||^2 ||J||_2^2) and A'' with ||J||_F for ||J||_2; q^2 = mean ||x||^-2.
    """
    net = draw_network(data)
    values, sigma = measured(net.model, net.x), singular_values(net)
    frobenius = np.sqrt((sigma**2).sum(1)).mean()
    in_order(values["bound_a"], frobenius, *(values[f"bound_{letter}"] for letter in "bcd"))
    q, x2 = values["reciprocal_input_norm"][0], (net.x.numpy() ** 2).sum(1)
    with_largest = q * np.sqrt((x2 * sigma[:, 0] ** 2).mean())
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
    if not net.bias:
        assert values["nmls_bound_with_bias"] == values["nmls_bound"]
    assume(not values["samples_zero_input"].any())
    in_order(values["mls_per_layer"], values["layer_bound"])
    bounds = values["nmls_bound_layerwise"], values["nmls_bound"]
    in_order(values["mls"], values["nmls"], *bounds)


@LAW
@given(data=st.data())
def test_relative_flatness_lies_between_sensitivity_and_sharpness(
    data, draw_network, each, measured
):
    """(MLS^l)^2 / q_l^2 <= mean ||x^l||^2 ||J^l||_2^2 <= kappa^l <= ||W_l||_2^2 S(W_l)."""
    net = draw_network(data)
    values, single = measured(net.model, net.x), each(net.model, net.x)
    weighted = values["mls_per_layer"] / values["reciprocal_input_norm"]
    normalized = (single["mls_per_layer"] / single["reciprocal_input_norm"]) ** 2
    matrix = values["weight_norm"] * np.sqrt(values["sharpness_per_layer"])
    in_order(weighted**2, normalized.mean(0), values["relative_flatness"], matrix**2)


@LAW
@given(data=st.data())
def test_a_linear_head_has_known_sharpness_and_sensitivity(data, draw_network, measured):
    """MLS^L = ||W_L||_2, S(W_L) = N mean ||x^L||^2, S(b_L) = N."""
    net = draw_network(data)
    values = measured(net.model, net.x)
    features = net.model[:-1](net.x).detach().numpy()
    of_weights = net.outputs * (features**2).sum(1).mean()
    assert values["mls_per_layer"][-1] == pytest.approx(values["weight_norm"][-1], rel=EXACT)
    assert values["sharpness_per_layer"][-1] == pytest.approx(of_weights, rel=EXACT)
    assert values["bias_sharpness_per_layer"][-1] == net.outputs * net.bias
    in_order(of_weights + net.outputs * net.bias, values["sharpness"])
