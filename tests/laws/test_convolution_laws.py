"""What holds of convolutions and of linear layers that see several tokens: weights are shared.

K the kernel as a matrix (output channels, the rest), T the convolution as a map of feature maps,
U the patches of an input, one column per output position; J^l and Gamma^l as in
`flatlab.families.geometry`.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import nn

from flatlab.derivatives.jacobians.norms import authors_norm, operator_norm, spectral_norm
from tests.laws.relations import is_one, law
from tests.networks.written import Written

EXACT = 1e-9


def draw_layer(data, normal):
    """A convolution with a random kernel, and its input's shape (channels, height, width)."""
    size = [data.draw(st.integers(2, 7)) for _ in range(2)]
    kernel = [data.draw(st.integers(1, min(width, 4))) for width in size]
    channels = [data.draw(st.integers(1, 3)) for _ in range(2)]
    how = {"stride": tuple(data.draw(st.integers(1, 3)) for _ in range(2)), "bias": False}
    how["padding"] = tuple(data.draw(st.integers(0, width - 1)) for width in kernel)
    layer = nn.Conv2d(*channels, tuple(kernel), **how)
    layer.weight.data = normal(*layer.weight.shape, seed=data.draw(st.integers(0, 10**6)))
    return layer, (layer.in_channels, *size)


def as_matrix(layer, shape):
    """T: (outputs, inputs), from the images of unit feature maps."""
    unit = torch.eye(int(np.prod(shape)), dtype=torch.float64).reshape(-1, *shape)
    return layer(unit).detach().flatten(1).T


def sees_no_padding(layer, shape):
    """Whether some output position sees pixels of the image alone."""
    along = zip(shape[1:], layer.kernel_size, layer.stride, layer.padding, strict=True)
    return all(
        any(0 <= start <= width - kernel for start in range(-pad, width + pad - kernel + 1, stride))
        for width, kernel, stride, pad in along
    )


def patches_of_a_pixel(layer, shape):
    """How many patches share an input pixel, at most."""
    how = {"kernel_size": layer.kernel_size, "stride": layer.stride, "padding": layer.padding}
    ones = torch.ones(1, 1, *shape[1:], dtype=torch.float64)
    return float(F.fold(F.unfold(ones, **how), shape[1:], **how).max())


@law()
def test_the_norm_of_a_convolution_lies_between_those_of_its_kernel(data, normal):
    """||K|| <= ||T|| <= sqrt(ceil(h / s) ceil(w / s)) ||K||, h x w the size of the kernel.

    The first where some output position sees no padding.
    """
    layer, shape = draw_layer(data, normal)
    kernel = spectral_norm(layer.weight.detach().flatten(1))
    operator = operator_norm(layer, shape)
    dense = np.linalg.norm(as_matrix(layer, shape), 2)
    assert operator == pytest.approx(dense, rel=EXACT)
    if sees_no_padding(layer, shape):
        assert kernel <= operator * (1 + EXACT)
    overlaps = [-(-k // s) for k, s in zip(layer.kernel_size, layer.stride, strict=True)]
    assert patches_of_a_pixel(layer, shape) <= overlaps[0] * overlaps[1]
    assert operator <= np.sqrt(patches_of_a_pixel(layer, shape)) * kernel * (1 + EXACT)
    assert operator <= np.sqrt(overlaps[0] * overlaps[1]) * kernel * (1 + EXACT)


@law()
def test_the_frobenius_norm_is_bounded_by_positions_times_the_kernels(data, normal):
    """||T||_2^2 <= ||T||_F^2 <= positions ||K||_F^2, equal without padding."""
    layer, shape = draw_layer(data, normal)
    dense = as_matrix(layer, shape)
    positions = len(dense) // layer.out_channels
    norm, bound = float(dense.norm()), authors_norm(layer, positions)
    assert operator_norm(layer, shape) <= norm * (1 + EXACT)
    assert norm <= bound * (1 + EXACT)
    if layer.padding == (0, 0):
        assert norm == pytest.approx(bound, rel=EXACT)


def check_corrected_bound(net):
    """mean ||J^l||_F <= mean ||T||_2 ||df/dK||_F / sigma_min(U), if U has independent columns."""
    bound = net.values["corrected_bound"]
    for layer, value in zip(net.layers, bound, strict=True):
        frobenius = torch.linalg.vector_norm(layer.singular, dim=1).numpy()
        assert np.isnan(value) or frobenius.mean() <= value * (1 + EXACT), layer.name
    # the last layer sees one position
    assert np.isnan(bound[-1]) == (net.values["samples_zero_input"][-1] > 0)


def test_the_corrected_bound_holds(convolutional_networks, sequential_networks):
    """Tokens are columns of U as patches are."""
    for net in (*convolutional_networks, *sequential_networks):
        check_corrected_bound(net)


def test_the_corrected_bound_holds_or_is_missing_where_patches_are_equal(convolutional_networks):
    """Each channel of an image is constant, so that patches off the border are the same."""
    for net in convolutional_networks:
        alike = net.x[:, :, :1, :1].expand_as(net.x).contiguous()
        check_corrected_bound(replace(net, x=alike))


def test_the_corrected_bound_is_missing_where_tokens_are_equal(sequential_networks, measured):
    for net in sequential_networks:
        alike = net.x[:, :1].expand_as(net.x).contiguous()
        bound = measured(net.model, alike)["corrected_bound"]
        assert np.isnan(bound[:2]).all() == (net.x.shape[1] > 1)


def last_from_the_others(net, x):
    """The sum of all tokens but the last, minus the last: zero where that is their sum."""
    z = net.layer(x)
    return z[:, :-1].sum(1) - z[:, -1]


def draw_cancelling(data, randomized, normal):
    """Such a layer, and 3 samples in which the last token is the sum of the others."""
    tokens, outputs = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 3))
    width, seed = data.draw(st.integers(tokens, 6)), data.draw(st.integers(0, 10**6))
    x = normal(3, tokens, width, seed=seed)
    x[:, -1] = x[:, :-1].sum(1)
    return randomized(Written(last_from_the_others, layer=nn.Linear(width, outputs)), seed), x


@law()
def test_tokens_that_cancel_have_no_corrected_bound(data, randomized, normal, measured):
    """The gradients of the weights cancel up to rounding and the sensitivity does not.

    A sum of squares is never negative, and its root a number; every sample is a violation.
    """
    values = measured(*draw_cancelling(data, randomized, normal))
    assert np.isnan(values["corrected_bound"]).all()
    assert values["sharpness_per_layer"] == pytest.approx([0.0], abs=1e-12)
    assert (values["sharpness_per_layer"] >= 0).all()
    assert (values["sharpness_per_sample"] >= 0).all()
    assert values["stability_trick_ratio"] == pytest.approx(np.zeros((3, 1)), abs=1e-6)
    assert values["violations"].tolist() == [[3], [3], [3]]


def test_the_stability_trick_is_off_by_no_more_than_the_overlap_of_patches(convolutional_networks):
    """0 <= ||df/dK||_F / (||Gamma||_F ||x||) <= sqrt(patches that share a pixel)."""
    for net in convolutional_networks:
        ratios, x, number = net.values["stability_trick_ratio"], net.x, 0
        for module in net.model:
            if isinstance(module, nn.Conv2d):
                defined = ratios[:, number][~np.isnan(ratios[:, number])]
                most = np.sqrt(patches_of_a_pixel(module, tuple(x.shape[1:])))
                assert ((defined >= 0) & (defined <= most * (1 + EXACT))).all()
                number += 1
            x = module(x)
        is_one(ratios[:, -1])


def test_the_stability_trick_is_off_by_no_more_than_one_for_tokens(sequential_networks):
    """Each token is seen once: 0 <= ||df/dW||_F / (||Gamma||_F ||x||) <= 1, 1 for one token."""
    for net in sequential_networks:
        ratios, tokens = net.values["stability_trick_ratio"], net.x.shape[1]
        defined = ratios[~np.isnan(ratios)]
        assert ((defined >= 0) & (defined <= 1 + EXACT)).all()
        assert net.values["shared"].tolist() == [tokens > 1, tokens > 1, False]
        if tokens == 1:
            is_one(ratios)


def test_violations_are_ratios_of_linear_stability_above_one(convolutional_networks):
    """With the norm of the kernel; never for the linear layer at the end."""
    for values in (net.values for net in convolutional_networks):
        ratio = values["linear_stability_ratio"]
        assert (values["violations"][0] >= (ratio > 1 + 1e-5).sum(0)).all()
        assert (values["violations"][0] <= (ratio > 1).sum(0)).all()
        assert not values["violations"][:, -1].any()
