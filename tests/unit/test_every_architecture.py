"""Every quantity of `geometry` against its definition, for networks of every kind.

The reference knows nothing of the package's rules: it adds a tensor of zeros to the input and to
the output of each layer, and asks autograd for the derivative of one output of one sample at a
time with respect to each of them and to each parameter.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.linalg import eigvalsh, norm
from torch import nn

from flatlab.metrics import measure
from flatlab.metrics.geometry import QUANTITIES

COSTLY = ("elementwise-adaptive-trace", "operator-norm", "corrected-bound")

EXACT = 1e-9
ROUNDING = 1e-12
MATRICES = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
CONVOLUTIONS = MATRICES[1:]


class Residual(nn.Module):
    """Strided convolution, batch norm, ReLU in place, and a connection that is no module."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(2, 4, 3, stride=2, padding=1)
        self.norm1, self.norm2 = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.relu, self.head = nn.ReLU(inplace=True), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(x))
        y += x
        return self.head(self.relu(y).mean((2, 3)))


class Twice(nn.Module):
    """One layer used two times."""

    def __init__(self, layer: nn.Module, size: int) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(size, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.layer(torch.tanh(self.layer(x)))).flatten(1))


class Tied(nn.Module):
    """Two layers with one weight, and biases of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.two.weight = self.one.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.two(torch.tanh(self.one(x)))))


class Sequence(nn.Module):
    """Linear layers that see the positions of a sequence, and a parameter without a module."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm, self.head = nn.Linear(3, 5), nn.LayerNorm(5), nn.Linear(5, 2)
        self.position = nn.Parameter(torch.randn(4, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.gelu(self.norm(self.embed(x)) + self.position).mean(1))


class Borrowed(nn.Module):
    """A weight that is also used outside of its layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(4, 5), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.linear(torch.relu(self.layer(x)), self.layer.weight.t()))


class Doubled(nn.Linear):
    """A linear layer that is none."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


def transformer() -> nn.Module:
    timm = pytest.importorskip("timm")
    return timm.models.vision_transformer.VisionTransformer(
        img_size=4, patch_size=2, embed_dim=8, depth=2, num_heads=2, num_classes=3
    )


def frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    model[0].weight.requires_grad_(False)
    return model


def package(name: str, shape: tuple[int, ...], outputs: int, **options: Any) -> nn.Module:
    from flatlab.networks import build

    activation = {} if name == "simple-vit" else {"activation": "relu"}
    return build({"name": name, "options": {**activation, **options}}, shape, outputs)


NARROW = {
    "widths": [16, "pool", 16, "pool", 32, "pool", 64, "pool", 64, "pool"],
    "hidden": [128],
    "padding": 2,
}
PLAIN = {"normalization": "none", "widths": [5, 6]}
SMALL_VIT = {"patch": 2, "width": 8, "depth": 2, "heads": 2, "head_width": 3, "mlp_width": 5}
THIRTY_SECOND = {
    "widths": [2, "pool", 4, "pool", 8, 8, "pool", 16, 16, "pool", 16, 16, "pool"],
    "hidden": [6, 6],
}


S = nn.Sequential
ZOO: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "perceptron": (
        lambda: S(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 7), nn.ReLU(), nn.Linear(7, 3)),
        (5,),
    ),
    "perceptron without biases": (
        lambda: S(nn.Linear(5, 8, bias=False), nn.Tanh(), nn.Linear(8, 3, bias=False)),
        (5,),
    ),
    "lenet5": (lambda: package("lenet5", (1, 16, 16), 2), (1, 16, 16)),
    "vgg-narrow": (lambda: package("vgg", (3, 8, 8), 2, **NARROW), (3, 8, 8)),
    "vgg11, narrow": (lambda: package("vgg", (3, 32, 32), 2, **THIRTY_SECOND), (3, 32, 32)),
    "vgg, batch norm": (
        lambda: package("vgg", (2, 4, 4), 2, widths=[3, "pool", 4], normalization="batch"),
        (2, 4, 4),
    ),
    "residual, batch norm": (Residual, (2, 6, 6)),
    "resnet": (lambda: package("resnet", (2, 4, 4), 2, widths=[5, 6]), (2, 4, 4)),
    "resnet, plain": (lambda: package("resnet", (2, 4, 4), 2, **PLAIN), (2, 4, 4)),
    "preactivation": (
        lambda: package("resnet", (2, 4, 4), 2, order="pre", widths=[5, 6]),
        (2, 4, 4),
    ),
    "preactivation, plain": (
        lambda: package("resnet", (2, 4, 4), 2, order="pre", **PLAIN),
        (2, 4, 4),
    ),
    "simple vit": (lambda: package("simple-vit", (2, 4, 6), 3, **SMALL_VIT), (2, 4, 6)),
    "transformer": (transformer, (3, 4, 4)),
    "linear twice": (lambda: Twice(nn.Linear(4, 4), 4), (4,)),
    "convolution twice": (lambda: Twice(nn.Conv2d(2, 2, 3, padding=1), 18), (2, 3, 3)),
    "tied": (Tied, (4,)),
    "sequence": (Sequence, (4, 3)),
    "borrowed": (Borrowed, (4,)),
    "frozen": (frozen, (4,)),
    "strides, groups": (
        lambda: S(
            *(nn.Conv2d(4, 6, 3, groups=2, stride=2, padding=1, bias=False), nn.ReLU()),
            *(nn.Conv2d(6, 6, 3, groups=6, dilation=2, padding="same"), nn.GELU()),
            *(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(6, 3)),
        ),
        (4, 4, 4),
    ),
    "few channels": (
        lambda: S(
            *(nn.Conv2d(3, 5, (3, 2), padding=(2, 1)), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
            *(nn.Conv2d(5, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)),
        ),
        (3, 5, 5),
    ),
    "circular": (
        lambda: S(
            *(nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), nn.ReLU()),
            *(nn.Conv2d(4, 4, 2, stride=3), nn.Flatten(), nn.Linear(4, 3)),
        ),
        (3, 4, 4),
    ),
    "one dimension": (
        lambda: S(
            *(nn.Conv1d(2, 3, 3, padding=1), nn.InstanceNorm1d(3, affine=True), nn.Tanh()),
            *(nn.Flatten(), nn.Linear(15, 3)),
        ),
        (2, 5),
    ),
    "three dimensions": (
        lambda: S(
            *(nn.Conv3d(2, 4, 2), nn.GroupNorm(2, 4), nn.Tanh(), nn.Flatten()), nn.Linear(32, 3)
        ),
        (2, 3, 3, 3),
    ),
    "normalized input": (
        lambda: S(nn.BatchNorm1d(5), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)),
        (5,),
    ),
    "parametrized": (
        lambda: S(
            nn.utils.parametrizations.weight_norm(nn.Linear(5, 4)), nn.Tanh(), nn.Linear(4, 2)
        ),
        (5,),
    ),
    "another forward": (
        lambda: S(nn.Linear(4, 5), nn.Tanh(), Doubled(5, 3), nn.Linear(3, 2)),
        (4,),
    ),
    "transposed convolution": (
        lambda: S(nn.ConvTranspose2d(2, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(27, 2)),
        (2, 2, 2),
    ),
    "one output": (lambda: S(nn.Linear(4, 5, bias=False), nn.ReLU(), nn.Linear(5, 1)), (4,)),
    "more outputs than inputs": (lambda: S(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 3)), (2,)),
    "leaky": (lambda: S(nn.Linear(4, 5), nn.PReLU(5), nn.Linear(5, 3)), (4,)),
}
GENERIC = {
    "transformer": ["cls_token", "pos_embed"],
    "sequence": ["position"],
    "borrowed": ["layer.weight"],
    "parametrized": [f"0.parametrizations.weight.original{k}" for k in (0, 1)],
    "another forward": ["2.weight", "2.bias"],
    "transposed convolution": ["0.weight", "0.bias"],
    "leaky": ["1.weight"],
}
LEFT_OUT = {
    "another forward": [
        "2: its forward is not that of its base class, or a hook changes what it returns"
    ]
}
SAMPLES = 3


def network(name: str) -> tuple[nn.Module, torch.Tensor]:
    """A network in float64 with statistics and affine parameters that are not trivial."""
    make, shape = ZOO[name]
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = make().double().eval()
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
            if isinstance(module, nn.modules.batchnorm._NormBase | nn.LayerNorm | nn.GroupNorm):
                nn.init.normal_(module.weight)
                nn.init.normal_(module.bias)
        if name == "transformer":
            nn.init.normal_(model.cls_token)
        return model, torch.randn(SAMPLES, *shape, dtype=torch.float64)


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


def one_sample(
    model: nn.Module, layers: dict[str, Any], sample: torch.Tensor, total: bool
) -> SimpleNamespace:
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
            into[name].append(given[0] if total else zeros)
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


def weight_gradient(layer: Any, s: SimpleNamespace, name: str) -> np.ndarray:
    """df_k/dW as the sum over uses of Gamma U^T."""
    total: Any = 0
    start = 0
    for x in s.inputs[name]:
        weight = layer.weight.detach().clone().requires_grad_()
        z = torch.func.functional_call(copy.deepcopy(plain(layer)), {"weight": weight}, (x,))
        gamma = s.gamma[name][:, start : start + z.numel()]
        start += z.numel()
        total = total + np.stack(
            [
                torch.autograd.grad(z, weight, torch.from_numpy(g).view_as(z), retain_graph=True)[0]
                .numpy()
                .ravel()
                for g in gamma
            ]
        )
    return total


def plain(layer: Any) -> Any:
    """The layer without a parametrization."""
    if not nn.utils.parametrize.is_parametrized(layer):
        return layer
    other = nn.Linear(layer.in_features, layer.out_features, dtype=torch.float64)
    other.weight.data, other.bias.data = layer.weight.detach(), layer.bias.detach()
    return other


def operator_of(layer: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The matrix of the map from one input to its output, column by column."""
    if isinstance(layer, nn.Linear):
        return layer.weight.detach().numpy()
    size = int(np.prod(shape))
    basis = torch.eye(size, dtype=torch.float64).view(size, *shape)
    zero = layer(torch.zeros(1, *shape, dtype=torch.float64)).detach()
    return (layer(basis).detach() - zero).flatten(1).numpy().T


def smallest(layer: Any, inputs: list) -> float:
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


def safe_log_mean(logs: list[float]) -> float:
    with np.errstate(divide="ignore"):
        return float(np.log(np.mean(np.exp(logs))))


@np.errstate(divide="ignore", invalid="ignore")
def reference(name: str, chen_code: bool = False) -> dict[str, Any]:
    """Every quantity, written as its definition."""
    model, inputs = network(name)
    layers = layers_of(model, inputs, name)
    samples = [one_sample(model, layers, sample, chen_code) for sample in inputs]
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
    convolutional = any(isinstance(layer, CONVOLUTIONS) for layer in layers.values())
    own = frobenius if chen_code and convolutional else kernel
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
    count = min(3, outputs) if chen_code else outputs
    volumes = np.array([log_volume(s, count) for s in sigmas])
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
    factor = 2 / outputs if chen_code else 1.0
    log_scale = outputs / 2 * np.log(n * sharpness / outputs) - np.log(n)
    powers = (own**2 / x2) ** outputs
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
        "normalized_mls": mean(
            lambda s: (
                norm(s.j0 @ s.x0) ** 2 / len(s.x0)
                if chen_code
                else norm(s.x0) ** 2 * norm(s.j0, 2) ** 2
            )
        ),
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
        "bound_b": bounds(own)[0],
        "bound_c": bounds(own)[1],
        "bound_d": bounds(own)[2],
        "nmls_bound": np.sqrt(
            (own**2 / (x2 + (1e-4 if chen_code else 0))).sum(1).mean() * sharpness
        ),
        "nmls_bound_layerwise": bounds(own)[4],
        "nmls_bound_with_bias": np.sqrt((own**2 / (x2 + has_bias)).sum(1).mean() * sharpness),
        "layer_bound": own * q * np.sqrt(weight2.mean(0)),
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
        "matrix_normalized_sharpness": (own * np.sqrt(weight2.mean(0))).sum(),
        "relative_flatness": np.where(
            shared,
            np.nan,
            factor * table(lambda s, k: norm(s.x[k]) ** 2 * norm(s.j[k]) ** 2).mean(0),
        ),
        "weight_norm": own,
        "reciprocal_input_norm": q,
        "stability_trick_ratio": np.sqrt(weight2 / (gamma2 * x2)),
        "linear_stability_ratio": top * np.sqrt(x2) / (own * np.sqrt(weight2)),
        "shared": shared.astype(float),
        "finite": 1.0,
        "samples_measured": n,
        "samples_rank_deficient": (~np.isfinite(volumes)).sum(),
        "samples_zero_jacobian": 0,
        "samples_zero_input": np.zeros(len(keys)),
        "layers_left_out": len(LEFT_OUT.get(name, [])),
    }
    return {"layers": keys, **expected}


@pytest.mark.parametrize("name", ZOO)
def test_every_quantity_is_its_definition(name: str) -> None:
    model, inputs = network(name)
    report = measure(model, inputs, costly=COSTLY)
    expected = reference(name)
    assert list(report["layer"].values) == expected.pop("layers")
    assert set(expected) == set(QUANTITIES) == set(report)
    for key, value in expected.items():
        found = report[key].values
        assert found.shape == np.shape(value), key
        assert found == pytest.approx(value, rel=EXACT, abs=ROUNDING, nan_ok=True), key
    assert report.attrs["parameters_by_generic_gradient"] == GENERIC.get(name, [])
    assert report.attrs["layers_left_out"] == LEFT_OUT.get(name, [])


@pytest.mark.parametrize("name", ["lenet5", "residual, batch norm", "transformer", "leaky"])
def test_the_authors_conventions_are_as_described(name: str) -> None:
    """Three singular values, total derivatives, Frobenius norms, 1e-4, mean-mse, |J x|^2 / M."""
    model, inputs = network(name)
    report = measure(model, inputs, costly=COSTLY, conventions="chen-code")
    expected = reference(name, chen_code=True)
    for key in expected.keys() - {"layers", "violations"}:
        value = expected[key]
        assert report[key].values == pytest.approx(value, rel=EXACT, abs=ROUNDING, nan_ok=True), key


@pytest.mark.parametrize("name", ZOO)
def test_float32_agrees_to_four_digits(name: str) -> None:
    model, inputs = network(name)
    exact = measure(model, inputs, costly=COSTLY)
    rounded = measure(model, inputs.float(), costly=COSTLY, dtype="float32")
    for key in QUANTITIES.keys() - {"violations", "corrected_bound", "samples_rank_deficient"}:
        close = {"rel": 1e-4, "abs": 1e-3 if "volume" in key else 1e-6}
        assert rounded[key].values == pytest.approx(exact[key].values, nan_ok=True, **close), key


@pytest.mark.parametrize("name", ["residual, batch norm", "transformer", "convolution twice"])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_the_batch_size_does_not_matter(name: str, batch_size: int) -> None:
    model, inputs = network(name)
    together = measure(model, inputs, costly=COSTLY)
    apart = measure(model, inputs, costly=COSTLY, batch_size=batch_size)
    for key in QUANTITIES:
        assert apart[key].values == pytest.approx(
            together[key].values, rel=1e-11, abs=1e-13, nan_ok=True
        ), key


def test_inputs_need_not_be_contiguous() -> None:
    model, inputs = network("residual, batch norm")
    strided = inputs.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    assert not strided.is_contiguous()
    one, two = measure(model, inputs), measure(model, strided)
    for key in one:
        assert two[key].values == pytest.approx(one[key].values, rel=1e-11, nan_ok=True), key


def test_the_reference_measures_an_eigenvalue_as_numpy_does() -> None:
    """The operator norm of a convolution is that of its dense matrix."""
    layer = nn.Conv2d(2, 3, 3, stride=2, padding=1).double()
    dense = operator_of(layer, (2, 5, 5))
    assert norm(dense, 2) ** 2 == pytest.approx(eigvalsh(dense @ dense.T)[-1])
