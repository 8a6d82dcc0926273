"""The quantities of one linear layer by their formulas, and chains of such layers."""

import numpy as np
import torch
from numpy.linalg import norm, svd
from torch import nn


def linear(*weights, biases=None):
    """A chain of linear layers with given weights."""
    layers = []
    for number, weight in enumerate(weights):
        outputs, inputs = weight.shape
        layer = nn.Linear(inputs, outputs, bias=biases is not None, dtype=torch.float64)
        layer.weight.data = torch.as_tensor(weight)
        if biases is not None:
            layer.bias.data = torch.as_tensor(biases[number])
        layers.append(layer)
    return nn.Sequential(*layers)


def spectral(matrix):
    return svd(matrix, compute_uv=False)[0]


def of_the_map(weight, x):
    """What W alone decides, and how long the inputs are."""
    sigma, x2 = svd(weight, compute_uv=False), (x**2).sum(1)
    volume, adaptive = np.log(sigma).sum(), (weight**2 @ (x**2).T).sum(0).mean()
    reciprocal = np.sqrt((1 / x2).mean())
    dimension = (sigma**2).sum() ** 2 / norm(weight @ weight.T) ** 2
    ones, one = np.ones(len(x)), np.ones(1)
    return {
        "g": norm(weight) ** 2,
        **dict.fromkeys(("mls", "nmls", "bound_a"), sigma[0]),
        **dict.fromkeys(("mls_per_layer", "weight_norm"), sigma[0] * one),
        "mls_per_sample": sigma[0] * ones,
        "sensitivity": sigma[0] * ones[:, None],
        "jacobian_frobenius": norm(weight) * ones,
        "weighted_mls": sigma[0] / reciprocal,
        "normalized_mls": x2.mean() * sigma[0] ** 2,
        "input_invariant_mls": adaptive,
        "network_input_invariant_mls": adaptive / len(weight),
        **dict.fromkeys(("log_volume", "log_mean_volume", "network_log_volume"), volume),
        "log_volume_per_sample": volume * ones,
        "log_volume_of_three": np.log(sigma[:3]).sum(),
        "local_dimension": dimension,
        "local_dimension_per_sample": dimension * ones,
        "reciprocal_input_norm": reciprocal * one,
        "relative_flatness": x2.mean() * norm(weight) ** 2 * one,
        "stability_trick_ratio": ones[:, None],
        "linear_stability_ratio": ones[:, None] / np.sqrt(len(weight)),
    }


def of_bounds(weight, x, bias, sharpness):
    """B = sqrt(N) sigma_1 and those in which sharpness stands."""
    outputs, samples = len(weight), len(x)
    largest, x2 = svd(weight, compute_uv=False)[0], (x**2).sum(1)
    reciprocal, of_weights = np.sqrt((1 / x2).mean()), outputs * x2.mean()
    b, c = np.sqrt(outputs) * largest, largest * reciprocal * np.sqrt(of_weights)
    d = largest * reciprocal * np.sqrt(sharpness)
    with_bias = np.sqrt((1 / (x2 + (bias is not None))).mean())
    volume = np.log(
        np.sqrt(((largest**2 / x2) ** outputs).sum())
        * (samples * sharpness / outputs) ** (outputs / 2)
        / samples
    )
    bounds = np.array([b, c, d, d, c])
    return {
        "bound_b": b,
        "corrected_bound": np.full(1, b),
        **dict.fromkeys(("bound_c", "nmls_bound_layerwise"), c),
        "layer_bound": np.full(1, c),
        **dict.fromkeys(("bound_d", "nmls_bound"), d),
        "nmls_bound_with_bias": largest * with_bias * np.sqrt(sharpness),
        **dict.fromkeys(("log_volume_bound", "network_log_volume_bound"), volume),
        "matrix_normalized_sharpness": largest * np.sqrt(of_weights),
        "bound_by_norm": np.stack([bounds, bounds, bounds * norm(weight) / largest]),
        "violations": np.zeros((3, 1)),
    }


def one_layer(weight, x, bias):
    """Every quantity of f = W x (+ b), from its formula; b is None or a vector."""
    outputs, x2 = len(weight), (x**2).sum(1)
    of_bias = outputs * float(bias is not None)
    of_weights = outputs * x2.mean()
    sharpness, of_map = of_weights + of_bias, of_the_map(weight, x)
    adaptive = of_map["input_invariant_mls"] + (0 if bias is None else (bias**2).sum())
    return {
        **of_map,
        **of_bounds(weight, x, bias, sharpness),
        "sharpness": sharpness,
        "root_sharpness": np.sqrt(sharpness),
        "sharpness_per_sample": outputs * x2 + of_bias,
        "sharpness_per_layer": np.full(1, of_weights),
        "bias_sharpness_per_layer": np.full(1, of_bias),
        "elementwise_adaptive_trace": adaptive,
        **{"finite": 1, "samples_measured": len(x), "layers_left_out": 0, "shared": np.zeros(1)},
        **{f"samples_{name}": 0 for name in ("rank_deficient", "zero_jacobian")},
        "samples_zero_input": np.zeros(1),
    }
