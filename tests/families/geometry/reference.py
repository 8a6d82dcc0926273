"""Every quantity of `geometry` by its definition, for networks of every kind.

It knows nothing of the package's rules: it adds a tensor of zeros to the input and to the output of
each layer, and asks autograd for the derivative of one output of one sample at a time with respect
to each of them and to each parameter.
"""

import copy
from types import SimpleNamespace

import numpy as np
import torch
from numpy.linalg import norm
from torch import nn

from tests.families.geometry.architectures import CONVOLUTIONS, GENERIC, LEFT_OUT, MATRICES, network


def weight_gradient(layer, s, name):
    """df_k/dW as the sum over uses of Gamma U^T."""
    total = 0
    start = 0
    for x in s.inputs[name]:
        weight = layer.weight.detach().clone().requires_grad_()
        z = torch.func.functional_call(copy.deepcopy(plain(layer)), {"weight": weight}, (x,))
        gamma = s.gamma[name][:, start : start + z.numel()]
        start += z.numel()
        slopes = [torch.from_numpy(g).view_as(z) for g in gamma]
        rows = [torch.autograd.grad(z, weight, g, retain_graph=True)[0] for g in slopes]
        total = total + torch.stack(rows).flatten(1).numpy()
    return total


def plain(layer):
    """The layer without a parametrization."""
    if not nn.utils.parametrize.is_parametrized(layer):
        return layer
    other = nn.Linear(layer.in_features, layer.out_features, dtype=torch.float64)
    other.weight.data, other.bias.data = layer.weight.detach(), layer.bias.detach()
    return other


def operator_of(layer, shape):
    """The matrix of the map from one input to its output, column by column."""
    if isinstance(layer, nn.Linear):
        return layer.weight.detach().numpy()
    size = int(np.prod(shape))
    basis = torch.eye(size, dtype=torch.float64).view(size, *shape)
    zero = layer(torch.zeros(1, *shape, dtype=torch.float64)).detach()
    return (layer(basis).detach() - zero).flatten(1).numpy().T


def smallest(layer, inputs):
    """Smallest singular value of U over the groups; 0 where it has more columns than rows."""
    values = []
    groups = getattr(layer, "groups", 1)
    width = layer.weight[0].numel()
    for group in range(groups):
        row = group * (len(layer.weight) // groups)
        weight = layer.weight.detach().clone().requires_grad_()
        numbers = []
        for x in inputs:
            z = torch.func.functional_call(copy.deepcopy(plain(layer)), {"weight": weight}, (x,))
            numbers += [*(z[..., row] if isinstance(layer, nn.Linear) else z[:, row]).flatten()]
        if len(numbers) > width:
            return 0.0
        columns = [torch.autograd.grad(v, weight, retain_graph=True)[0][row] for v in numbers]
        u = torch.stack([column.flatten() for column in columns], 1).numpy()
        values.append(np.linalg.svd(u)[1][-1])
    return min(values)


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
    into, out, x, read = ({name: [] for name in layers} for _ in range(4))
    hooks = []
    for name, layer in layers.items():

        def before(module, given, name=name):
            read[name].append(given[0])
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

    def rows(tensors, numbers=outputs):
        how = {"retain_graph": True, "materialize_grads": True, "is_grads_batched": True}
        found = torch.autograd.grad(numbers, tensors, torch.eye(len(numbers)).to(numbers), **how)
        return [of_one.flatten(1).numpy() for of_one in found]

    def joined(tensors):
        return np.concatenate(rows(tensors), 1)

    return SimpleNamespace(
        outputs=outputs.detach().numpy(),
        x0=sample.detach().numpy().ravel(),
        j0=rows([sample])[0],
        x={name: torch.cat([t.flatten() for t in x[name]]).numpy() for name in layers},
        j={name: joined(into[name]) for name in layers},
        **{"rows": rows, "read": read, "sample": sample},
        gamma={name: joined(out[name]) for name in layers},
        of_parameter=dict(zip(map(id, parameters), rows(parameters), strict=True)),
        shapes={name: [tuple(t.shape[1:]) for t in x[name]] for name in layers},
        inputs=x,
        positions={n: [t[0].numel() // len(layers[n].weight) for t in out[n]] for n in layers},
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
        squares = [[norm(g) ** 2 for g in s.of_parameter.values()] for s in self.samples]
        self.per_sample = np.sum(squares, 1)
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
        positions = [
            first.positions[k][0] if isinstance(self.layers[k], CONVOLUTIONS) else 1
            for k in self.keys
        ]
        frobenius = [norm(self.matrix(k)) for k in self.keys] * np.sqrt(positions)
        return np.array(kernel), np.array(operator), frobenius


def of_parameters(d):
    theta = {id(p): p.detach().numpy().ravel() for p in d.model.parameters()}

    def adaptive(s):
        return sum(((g * theta[i]) ** 2).sum() for i, g in s.of_parameter.items())

    return {
        "sharpness": d.sharpness,
        "root_sharpness": np.sqrt(d.sharpness),
        "sharpness_per_sample": d.per_sample,
        "sharpness_per_layer": d.weight2.mean(0),
        "bias_sharpness_per_layer": d.bias2.mean(0),
        "elementwise_adaptive_trace": d.mean(adaptive),
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
    seen = {k: (k, *d.tied(k)) for k in d.keys}
    least = d.table(lambda s, k: smallest(d.layers[k], [x for o in seen[k] for x in s.inputs[o]]))
    n, outputs = len(d.samples), d.outputs
    log_scale = outputs / 2 * np.log(n * d.sharpness / outputs) - np.log(n)
    powers = (kernel**2 / d.x2) ** outputs
    roots, sides = np.sqrt(d.weight2), d.top * np.sqrt(d.x2)
    with_bias = np.sqrt((kernel**2 / (d.x2 + has_bias)).sum(1).mean() * d.sharpness)
    corrected = operator * (roots / least).mean(0)
    named = ("bound_b", "bound_c", "bound_d", "nmls_bound", "nmls_bound_layerwise")
    return {
        "bound_a": d.top[:, 0].mean(),
        **dict(zip(named, bounds(d, kernel), strict=True)),
        "nmls_bound_with_bias": with_bias,
        "layer_bound": kernel * d.q * np.sqrt(d.weight2.mean(0)),
        "bound_by_norm": np.array([bounds(d, w) for w in norms]),
        "violations": np.array([(sides > w * roots * (1 + 1e-6)).sum(0) for w in norms]),
        "corrected_bound": np.where((least > 1e-12).all(0), corrected, np.nan),
        "log_volume_bound": np.log(powers[:, 0].sum()) / 2 + log_scale,
        "network_log_volume_bound": np.log(powers.sum()) / 2 + log_scale,
        "matrix_normalized_sharpness": (kernel * np.sqrt(d.weight2.mean(0))).sum(),
        "weight_norm": kernel,
        "stability_trick_ratio": roots / np.sqrt(d.gamma2 * d.x2),
        "linear_stability_ratio": sides / (kernel * roots),
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
