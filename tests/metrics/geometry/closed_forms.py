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


def one_layer(weight, x, bias):
    """Every quantity of f = W x (+ b), from its formula; b is None or a vector."""
    outputs, samples = len(weight), len(x)
    sigma = svd(weight, compute_uv=False)
    x2 = (x**2).sum(1)
    of_bias = outputs * float(bias is not None)
    of_weights = outputs * x2.mean()
    reciprocal = np.sqrt((1 / x2).mean())
    with_bias = np.sqrt((1 / (x2 + (bias is not None))).mean())
    sharpness = of_weights + of_bias
    volume = np.log(sigma).sum()
    dimension = (sigma**2).sum() ** 2 / norm(weight @ weight.T) ** 2
    b, c = np.sqrt(outputs) * sigma[0], sigma[0] * reciprocal * np.sqrt(of_weights)
    d = sigma[0] * reciprocal * np.sqrt(sharpness)
    volume_bound = np.log(
        np.sqrt(((sigma[0] ** 2 / x2) ** outputs).sum())
        * (samples * sharpness / outputs) ** (outputs / 2)
        / samples
    )
    adaptive = (weight**2 @ (x**2).T).sum(0).mean()
    bounds = np.array([b, c, d, d, c])
    scalars = {
        "sharpness": sharpness,
        "root_sharpness": np.sqrt(sharpness),
        "elementwise_adaptive_trace": adaptive + (0 if bias is None else (bias**2).sum()),
        "g": norm(weight) ** 2,
        "mls": sigma[0],
        "nmls": sigma[0],
        "weighted_mls": sigma[0] / reciprocal,
        "normalized_mls": x2.mean() * sigma[0] ** 2,
        "input_invariant_mls": adaptive,
        "network_input_invariant_mls": adaptive / outputs,
        "log_volume": volume,
        "log_volume_of_three": np.log(sigma[:3]).sum(),
        "log_mean_volume": volume,
        "network_log_volume": volume,
        "local_dimension": dimension,
        "bound_a": sigma[0],
        "bound_b": b,
        "bound_c": c,
        "bound_d": d,
        "nmls_bound": d,
        "nmls_bound_layerwise": c,
        "nmls_bound_with_bias": sigma[0] * with_bias * np.sqrt(sharpness),
        "log_volume_bound": volume_bound,
        "network_log_volume_bound": volume_bound,
        "matrix_normalized_sharpness": sigma[0] * np.sqrt(of_weights),
        "finite": 1,
        "samples_measured": samples,
        "samples_rank_deficient": 0,
        "samples_zero_jacobian": 0,
        "layers_left_out": 0,
    }
    per_sample = {
        "sharpness_per_sample": outputs * x2 + of_bias,
        "jacobian_frobenius": norm(weight),
        "mls_per_sample": sigma[0],
        "log_volume_per_sample": volume,
        "local_dimension_per_sample": dimension,
    }
    per_layer = {
        "sharpness_per_layer": of_weights,
        "bias_sharpness_per_layer": of_bias,
        "mls_per_layer": sigma[0],
        "layer_bound": c,
        "corrected_bound": b,
        "weight_norm": sigma[0],
        "reciprocal_input_norm": reciprocal,
        "relative_flatness": x2.mean() * norm(weight) ** 2,
        "shared": 0,
        "samples_zero_input": 0,
    }
    both = {
        "sensitivity": sigma[0],
        "stability_trick_ratio": 1,
        "linear_stability_ratio": 1 / np.sqrt(outputs),
    }
    return {
        **scalars,
        **{name: np.broadcast_to(value, samples) for name, value in per_sample.items()},
        **{name: np.full(1, value) for name, value in per_layer.items()},
        **{name: np.full((samples, 1), value) for name, value in both.items()},
        "bound_by_norm": np.stack([bounds, bounds, bounds * norm(weight) / sigma[0]]),
        "violations": np.zeros((3, 1)),
    }
