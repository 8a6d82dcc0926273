"""Every quantity of `geometry` by its definition, for networks of every kind.

It knows nothing of the package's rules: it adds a tensor of zeros to the input and to the output of
each layer, and asks autograd for the derivative of one output of one sample at a time with respect
to each of them and to each parameter.
"""

from types import SimpleNamespace

import numpy as np
import torch
from numpy.linalg import norm
from torch import nn

from tests.metrics.geometry.architectures import CONVOLUTIONS, GENERIC, LEFT_OUT, MATRICES, network
from tests.metrics.geometry.matrices import operator_of, smallest, weight_gradient


def layers_of(model, inputs, name):
    """Linear and convolution layers in the order of their first use."""
    order = {}
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


def one_sample(model, layers, sample):
    """Derivatives of each output: arrays (N, ...) by layer and by parameter."""
    sample = sample[None].clone().requires_grad_()
    into = {name: [] for name in layers}
    out = {name: [] for name in layers}
    x = {name: [] for name in layers}
    hooks = []
    for name, layer in layers.items():

        def before(module, given, name=name):
            x[name].append(given[0].detach().clone())
            zeros = torch.zeros_like(given[0], requires_grad=True)
            into[name].append(zeros)
            return (given[0] + zeros,)

        def after(module, given, output, name=name):
            out[name].append(torch.zeros_like(output, requires_grad=True))
            return output + out[name][-1]

        hooks += [layer.register_forward_pre_hook(before), layer.register_forward_hook(after)]
    outputs = model(sample)[0]
    for hook in hooks:
        hook.remove()
    parameters = [p for p in model.parameters() if p.requires_grad]

    def rows(tensors):
        grads = [
            torch.autograd.grad(f, tensors, retain_graph=True, allow_unused=True) for f in outputs
        ]
        return [
            np.stack([np.zeros(t.shape) if g[k] is None else g[k].numpy() for g in grads]).reshape(
                len(outputs), -1
            )
            for k, t in enumerate(tensors)
        ]

    def joined(tensors):
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


class Derivatives:
    """What the definitions are made of, of each sample (rows) and layer (columns)."""

    def __init__(self, name):
        self.name = name
        self.model, inputs = network(name)
        self.layers = layers_of(self.model, inputs, name)
        self.samples = [one_sample(self.model, self.layers, sample) for sample in inputs]
        self.keys, self.outputs = list(self.layers), len(self.samples[0].outputs)
        self.x2 = self.table(lambda s, k: norm(s.x[k]) ** 2)
        self.gamma2 = self.table(lambda s, k: norm(s.gamma[k]) ** 2)
        self.top = self.table(lambda s, k: norm(s.j[k], 2))
        self.weight2 = self.table(self.of_weight)
        self.bias2 = self.table(self.of_bias)
        self.per_sample = np.array(
            [sum(norm(g) ** 2 for g in s.of_parameter.values()) for s in self.samples]
        )
        self.sharpness = self.per_sample.mean()
        self.q = np.sqrt((1 / self.x2).mean(0))

    def mean(self, function):
        return np.mean([function(s) for s in self.samples], axis=0)

    def table(self, function):
        return np.array([[function(s, k) for k in self.keys] for s in self.samples])

    def of_weight(self, s, k):
        direct = s.of_parameter.get(id(self.layers[k].weight))
        if direct is None:  # frozen, or computed from other parameters
            direct = weight_gradient(self.layers[k], s, k)
        return norm(direct) ** 2

    def of_bias(self, s, k):
        bias = self.layers[k].bias
        return norm(s.of_parameter[id(bias)]) ** 2 if bias is not None else 0.0

    def matrix(self, k):
        weight = self.layers[k].weight.detach().numpy()
        return weight.reshape(len(weight), -1)

    def tied(self, k):
        weight = self.layers[k].weight
        return [o for o in self.keys if o != k and self.layers[o].weight is weight]

    def shared(self, k):
        alone = isinstance(self.layers[k], nn.Linear) and not self.tied(k)
        once = sum(self.samples[0].positions[k]) == 1
        return not (alone and once and f"{k}.weight" not in GENERIC.get(self.name, []))

    def norms(self):
        """Of each layer: of its kernel, of its map, and the Frobenius norm of that."""
        first = self.samples[0]
        kernel = [norm(self.matrix(k), 2) for k in self.keys]
        operator = [norm(operator_of(self.layers[k], first.shapes[k][0]), 2) for k in self.keys]
        frobenius = [
            norm(self.matrix(k))
            * (first.positions[k][0] ** 0.5 if isinstance(self.layers[k], CONVOLUTIONS) else 1.0)
            for k in self.keys
        ]
        return np.array(kernel), np.array(operator), np.array(frobenius)


def of_parameters(d):
    everything = {id(p): p.detach().numpy().ravel() for p in d.model.parameters()}
    return {
        "sharpness": d.sharpness,
        "root_sharpness": np.sqrt(d.sharpness),
        "sharpness_per_sample": d.per_sample,
        "sharpness_per_layer": d.weight2.mean(0),
        "bias_sharpness_per_layer": d.bias2.mean(0),
        "elementwise_adaptive_trace": d.mean(
            lambda s: sum(((g * everything[i]) ** 2).sum() for i, g in s.of_parameter.items())
        ),
    }


def of_jacobians(d):
    shared = np.array([d.shared(k) for k in d.keys])
    kappa = d.table(lambda s, k: norm(s.x[k]) ** 2 * norm(s.j[k]) ** 2).mean(0)
    return {
        "jacobian_frobenius": np.array([norm(s.j0) for s in d.samples]),
        "g": d.mean(lambda s: norm(s.j0) ** 2),
        "mls": d.mean(lambda s: norm(s.j0, 2)),
        "mls_per_sample": np.array([norm(s.j0, 2) for s in d.samples]),
        "sensitivity": d.top,
        "mls_per_layer": d.top.mean(0),
        "nmls": d.top.mean(0).sum(),
        "weighted_mls": (d.top.mean(0) / d.q).sum(),
        "normalized_mls": d.mean(lambda s: norm(s.x0) ** 2 * norm(s.j0, 2) ** 2),
        "input_invariant_mls": d.mean(lambda s: norm(s.j0 * s.x0) ** 2),
        "network_input_invariant_mls": sum(
            d.mean(lambda s, k=k: norm(s.j[k] * s.x[k]) ** 2) / len(d.matrix(k)) for k in d.keys
        ),
        "relative_flatness": np.where(shared, np.nan, kappa),
        "reciprocal_input_norm": d.q,
        "shared": shared.astype(float),
    }


def of_singular_values(d):
    def sigma(j):
        values = np.linalg.svd(j, compute_uv=False)
        return np.concatenate([values, np.zeros(d.outputs - len(values))])

    def log_volumes(sigmas, count=d.outputs):
        chosen = np.array(sigmas)[:, :count]
        full = chosen[:, -1] > 10 * 2.3e-16 * chosen[:, 0]
        return np.where(full, np.log(chosen).sum(1), -np.inf)

    def finite_mean(logs):
        return logs[np.isfinite(logs)].mean() if np.isfinite(logs).any() else np.nan

    def log_mean(logs):
        return np.log(np.mean(np.exp(logs)))

    sigmas = [sigma(s.j0) for s in d.samples]
    volumes = log_volumes(sigmas)
    of_layers = [log_mean(log_volumes([sigma(s.j[k]) for s in d.samples])) for k in d.keys]
    dimensions = np.array([(s**2).sum() ** 2 / (s**4).sum() for s in sigmas])
    return {
        "log_volume": finite_mean(volumes),
        "log_volume_per_sample": volumes,
        "log_volume_of_three": finite_mean(log_volumes(sigmas, min(3, d.outputs))),
        "log_mean_volume": log_mean(volumes),
        "network_log_volume": np.log(sum(np.exp(of_layers))),
        "local_dimension": dimensions.mean(),
        "local_dimension_per_sample": dimensions,
        "samples_rank_deficient": (~np.isfinite(volumes)).sum(),
    }


def bounds(d, w):
    """B, C, D, of all layers, and their sum, by a norm w of each layer."""
    by_layer = w * d.q * np.sqrt(d.weight2.mean(0))
    return [
        w[0] * np.sqrt(d.weight2[:, 0] / d.x2[:, 0]).mean(),
        by_layer[0],
        w[0] * d.q[0] * np.sqrt(d.sharpness),
        np.sqrt((w**2 / d.x2).sum(1).mean() * d.sharpness),
        by_layer.sum(),
    ]


def of_bounds(d):
    norms = kernel, operator, _ = d.norms()
    has_bias = np.array([d.layers[k].bias is not None for k in d.keys], dtype=float)
    least = d.table(
        lambda s, k: smallest(d.layers[k], [x for o in (k, *d.tied(k)) for x in s.inputs[o]])
    )
    n, outputs = len(d.samples), d.outputs
    log_scale = outputs / 2 * np.log(n * d.sharpness / outputs) - np.log(n)
    powers = (kernel**2 / d.x2) ** outputs
    roots = np.sqrt(d.weight2)
    named = ("bound_b", "bound_c", "bound_d", "nmls_bound", "nmls_bound_layerwise")
    return {
        "bound_a": d.top[:, 0].mean(),
        **dict(zip(named, bounds(d, kernel), strict=True)),
        "nmls_bound_with_bias": np.sqrt(
            (kernel**2 / (d.x2 + has_bias)).sum(1).mean() * d.sharpness
        ),
        "layer_bound": kernel * d.q * np.sqrt(d.weight2.mean(0)),
        "bound_by_norm": np.array([bounds(d, w) for w in norms]),
        "violations": np.array(
            [(d.top * np.sqrt(d.x2) > w * roots * (1 + 1e-6)).sum(0) for w in norms]
        ),
        "corrected_bound": np.where(
            (least > 1e-12).all(0), operator * (roots / least).mean(0), np.nan
        ),
        "log_volume_bound": np.log(powers[:, 0].sum()) / 2 + log_scale,
        "network_log_volume_bound": np.log(powers.sum()) / 2 + log_scale,
        "matrix_normalized_sharpness": (kernel * np.sqrt(d.weight2.mean(0))).sum(),
        "weight_norm": kernel,
        "stability_trick_ratio": roots / np.sqrt(d.gamma2 * d.x2),
        "linear_stability_ratio": d.top * np.sqrt(d.x2) / (kernel * roots),
    }


@np.errstate(divide="ignore", invalid="ignore")
def reference(name):
    """Every quantity, written as its definition, and the names of the layers."""
    d = Derivatives(name)
    return {
        "layers": d.keys,
        **of_parameters(d),
        **of_jacobians(d),
        **of_singular_values(d),
        **of_bounds(d),
        "finite": 1.0,
        "samples_measured": len(d.samples),
        "samples_zero_jacobian": 0,
        "samples_zero_input": np.zeros(len(d.keys)),
        "layers_left_out": len(LEFT_OUT.get(name, [])),
    }
