"""Every quantity of `geometry` by its definition, for networks of every kind.

It knows nothing of the package's rules: it adds a tensor of zeros to the input and to the output of
each layer, and asks autograd for the derivative of one output of one sample at a time with respect
to each of them and to each parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.linalg import norm
from torch import nn

from tests.metrics.geometry.architectures import CONVOLUTIONS, GENERIC, LEFT_OUT, MATRICES, network
from tests.metrics.geometry.matrices import operator_of, smallest, weight_gradient


def layers_of(model: nn.Module, inputs: torch.Tensor, name: str) -> dict[str, Any]:
    """Linear and convolution layers in the order of their first use."""
    order: dict[str, Any] = {}
    out = {reason.split(":")[0] for reason in LEFT_OUT.get(name, [])}
    hooks = [
        module.register_forward_pre_hook(lambda m, x, n=n: order.setdefault(n, m) and None)
        for n, module in model.named_modules()
        if isinstance(module, MATRICES) and n not in out
    ]
    model(inputs)
    for hook in hooks:
        hook.remove()
    return order


def one_sample(model: nn.Module, layers: dict[str, Any], sample: torch.Tensor) -> SimpleNamespace:
    """Derivatives of each output: arrays (N, ...) by layer and by parameter."""
    sample = sample[None].clone().requires_grad_()
    into: dict[str, list] = {name: [] for name in layers}
    out: dict[str, list] = {name: [] for name in layers}
    x: dict[str, list] = {name: [] for name in layers}
    hooks = []
    for name, layer in layers.items():

        def before(module: Any, given: Any, name: str = name) -> Any:
            x[name].append(given[0].detach().clone())
            zeros = torch.zeros_like(given[0], requires_grad=True)
            into[name].append(zeros)
            return (given[0] + zeros,)

        def after(module: Any, given: Any, output: Any, name: str = name) -> Any:
            out[name].append(torch.zeros_like(output, requires_grad=True))
            return output + out[name][-1]

        hooks += [layer.register_forward_pre_hook(before), layer.register_forward_hook(after)]
    outputs = model(sample)[0]
    for hook in hooks:
        hook.remove()
    parameters = [p for p in model.parameters() if p.requires_grad]

    def rows(tensors: list) -> list[np.ndarray]:
        grads = [
            torch.autograd.grad(f, tensors, retain_graph=True, allow_unused=True) for f in outputs
        ]
        return [
            np.stack([np.zeros(t.shape) if g[k] is None else g[k].numpy() for g in grads]).reshape(
                len(outputs), -1
            )
            for k, t in enumerate(tensors)
        ]

    def joined(tensors: list) -> np.ndarray:
        return np.concatenate(rows(tensors), 1)

    return SimpleNamespace(
        outputs=outputs.detach().numpy(),
        x0=sample.detach().numpy().ravel(),
        j0=rows([sample])[0],
        x={name: torch.cat([t.flatten() for t in x[name]]).numpy() for name in layers},
        j={name: joined(into[name]) for name in layers},
        gamma={name: joined(out[name]) for name in layers},
        of_parameter=dict(zip(map(id, parameters), rows(parameters), strict=True)),
        shapes={name: [tuple(t.shape[1:]) for t in x[name]] for name in layers},
        inputs=x,
        positions={
            name: [t[0].numel() // len(layers[name].weight) for t in out[name]] for name in layers
        },
    )


def safe_log_mean(logs: list[float]) -> float:
    with np.errstate(divide="ignore"):
        return float(np.log(np.mean(np.exp(logs))))


@np.errstate(divide="ignore", invalid="ignore")
def reference(name: str) -> dict[str, Any]:
    """Every quantity, written as its definition."""
    model, inputs = network(name)
    layers = layers_of(model, inputs, name)
    samples = [one_sample(model, layers, sample) for sample in inputs]
    n, outputs, keys = len(samples), len(samples[0].outputs), list(layers)
    tied = {k: [o for o in keys if o != k and layers[o].weight is layers[k].weight] for k in keys}
    everything = {id(p): p.detach().numpy().ravel() for p in model.parameters()}

    def mean(function: Callable) -> Any:
        return np.mean([function(s) for s in samples], axis=0)

    def table(function: Callable) -> np.ndarray:
        return np.array([[function(s, k) for k in keys] for s in samples])

    def of_weight(s: SimpleNamespace, k: str) -> float:
        direct = s.of_parameter.get(id(layers[k].weight))
        if direct is None:  # frozen, or computed from other parameters
            direct = weight_gradient(layers[k], s, k)
        return norm(direct) ** 2

    weight2 = table(of_weight)
    bias2 = table(
        lambda s, k: (
            norm(s.of_parameter[id(layers[k].bias)]) ** 2 if layers[k].bias is not None else 0.0
        )
    )
    x2 = table(lambda s, k: norm(s.x[k]) ** 2)
    gamma2 = table(lambda s, k: norm(s.gamma[k]) ** 2)
    top = table(lambda s, k: norm(s.j[k], 2))
    per_sample = np.array([sum(norm(g) ** 2 for g in s.of_parameter.values()) for s in samples])
    sharpness = per_sample.mean()
    matrices = {
        k: layers[k].weight.detach().numpy().reshape(len(layers[k].weight), -1) for k in keys
    }
    kernel = np.array([norm(matrices[k], 2) for k in keys])
    operator = np.array([norm(operator_of(layers[k], samples[0].shapes[k][0]), 2) for k in keys])
    frobenius = np.array(
        [
            norm(matrices[k])
            * (samples[0].positions[k][0] ** 0.5 if isinstance(layers[k], CONVOLUTIONS) else 1.0)
            for k in keys
        ]
    )
    shared = np.array(
        [
            not (
                isinstance(layers[k], nn.Linear)
                and not tied[k]
                and sum(samples[0].positions[k]) == 1
                and f"{k}.weight" not in GENERIC.get(name, [])
            )
            for k in keys
        ]
    )
    q = np.sqrt((1 / x2).mean(0))

    def bounds(w: np.ndarray) -> list[float]:
        by_layer = w * q * np.sqrt(weight2.mean(0))
        return [
            w[0] * np.sqrt(weight2[:, 0] / x2[:, 0]).mean(),
            by_layer[0],
            w[0] * q[0] * np.sqrt(sharpness),
            np.sqrt((w**2 / x2).sum(1).mean() * sharpness),
            by_layer.sum(),
        ]

    def sigma(j: np.ndarray) -> np.ndarray:
        values = np.linalg.svd(j, compute_uv=False)
        return np.concatenate([values, np.zeros(outputs - len(values))])

    def log_volume(values: np.ndarray, count: int) -> float:
        chosen = values[:count]
        return np.log(chosen).sum() if chosen[-1] > 10 * 2.3e-16 * values[0] else -np.inf

    def finite_mean(logs: np.ndarray) -> float:
        return logs[np.isfinite(logs)].mean() if np.isfinite(logs).any() else np.nan

    sigmas = [sigma(s.j0) for s in samples]
    volumes = np.array([log_volume(s, outputs) for s in sigmas])
    of_three = np.array([log_volume(s, min(3, outputs)) for s in sigmas])
    dimensions = np.array([(s**2).sum() ** 2 / (s**4).sum() for s in sigmas])
    whole = [log_volume(s, outputs) for s in sigmas]
    layer_volumes = [[log_volume(sigma(s.j[k]), outputs) for s in samples] for k in keys]
    has_bias = np.array([layers[k].bias is not None for k in keys], dtype=float)
    least = np.array(
        [
            [smallest(layers[k], [x for o in (k, *tied[k]) for x in s.inputs[o]]) for k in keys]
            for s in samples
        ]
    )
    log_scale = outputs / 2 * np.log(n * sharpness / outputs) - np.log(n)
    powers = (kernel**2 / x2) ** outputs
    expected = {
        "sharpness": sharpness,
        "root_sharpness": np.sqrt(sharpness),
        "sharpness_per_sample": per_sample,
        "sharpness_per_layer": weight2.mean(0),
        "bias_sharpness_per_layer": bias2.mean(0),
        "elementwise_adaptive_trace": mean(
            lambda s: sum(((g * everything[i]) ** 2).sum() for i, g in s.of_parameter.items())
        ),
        "jacobian_frobenius": np.array([norm(s.j0) for s in samples]),
        "g": mean(lambda s: norm(s.j0) ** 2),
        "mls": mean(lambda s: norm(s.j0, 2)),
        "mls_per_sample": np.array([norm(s.j0, 2) for s in samples]),
        "sensitivity": top,
        "mls_per_layer": top.mean(0),
        "nmls": top.mean(0).sum(),
        "weighted_mls": (top.mean(0) / q).sum(),
        "normalized_mls": mean(lambda s: norm(s.x0) ** 2 * norm(s.j0, 2) ** 2),
        "input_invariant_mls": mean(lambda s: norm(s.j0 * s.x0) ** 2),
        "network_input_invariant_mls": sum(
            mean(lambda s, k=k: norm(s.j[k] * s.x[k]) ** 2) / len(matrices[k]) for k in keys
        ),
        "log_volume": finite_mean(volumes),
        "log_volume_per_sample": volumes,
        "log_volume_of_three": finite_mean(of_three),
        "log_mean_volume": safe_log_mean(whole),
        "network_log_volume": np.log(sum(np.exp(safe_log_mean(v)) for v in layer_volumes)),
        "local_dimension": dimensions.mean(),
        "local_dimension_per_sample": dimensions,
        "bound_a": top[:, 0].mean(),
        "bound_b": bounds(kernel)[0],
        "bound_c": bounds(kernel)[1],
        "bound_d": bounds(kernel)[2],
        "nmls_bound": np.sqrt((kernel**2 / x2).sum(1).mean() * sharpness),
        "nmls_bound_layerwise": bounds(kernel)[4],
        "nmls_bound_with_bias": np.sqrt((kernel**2 / (x2 + has_bias)).sum(1).mean() * sharpness),
        "layer_bound": kernel * q * np.sqrt(weight2.mean(0)),
        "bound_by_norm": np.array([bounds(kernel), bounds(operator), bounds(frobenius)]),
        "violations": np.array(
            [
                (top * np.sqrt(x2) > w * np.sqrt(weight2) * (1 + 1e-6)).sum(0)
                for w in (kernel, operator, frobenius)
            ]
        ),
        "corrected_bound": np.where(
            (least > 1e-12).all(0), operator * (np.sqrt(weight2) / least).mean(0), np.nan
        ),
        "log_volume_bound": np.log(powers[:, 0].sum()) / 2 + log_scale,
        "network_log_volume_bound": np.log(powers.sum()) / 2 + log_scale,
        "matrix_normalized_sharpness": (kernel * np.sqrt(weight2.mean(0))).sum(),
        "relative_flatness": np.where(
            shared, np.nan, table(lambda s, k: norm(s.x[k]) ** 2 * norm(s.j[k]) ** 2).mean(0)
        ),
        "weight_norm": kernel,
        "reciprocal_input_norm": q,
        "stability_trick_ratio": np.sqrt(weight2 / (gamma2 * x2)),
        "linear_stability_ratio": top * np.sqrt(x2) / (kernel * np.sqrt(weight2)),
        "shared": shared.astype(float),
        "finite": 1.0,
        "samples_measured": n,
        "samples_rank_deficient": (~np.isfinite(volumes)).sum(),
        "samples_zero_jacobian": 0,
        "samples_zero_input": np.zeros(len(keys)),
        "layers_left_out": len(LEFT_OUT.get(name, [])),
    }
    return {"layers": keys, **expected}
