"""Norms of the weights of layers, distances from initial weights, path norm."""

import copy
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from flatlab.core.errors import MeasureError
from flatlab.core.forecast import Forecast
from flatlab.derivatives.jacobians.norms import Norms, known, operator_norm, spectral_norm
from flatlab.derivatives.per_sample.convolution import CONVOLUTIONS
from flatlab.derivatives.per_sample.layers import base_of

Shapes = Mapping[str, tuple[int, ...]]


class Weights:
    """||W_l||_2 and ||W_l||_F^2 of each layer, and of its distance from the initial weight.

    model: the network.
    shapes: of the input of one sample, by layer.
    operator: take convolutions as maps of feature maps, not as matrices (output channels, the
        rest).
    known: norms that are known already.

    All in float64.
    """

    def __init__(self, model: nn.Module, shapes: Shapes, operator: bool, known: Norms) -> None:
        self.model, self.shapes, self.operator, self.known = model, shapes, operator, known
        layers: dict[str, Any] = {name: model.get_submodule(name) for name in shapes}
        weights = {name: layer.weight.detach().double() for name, layer in layers.items()}
        self.spectral = self._spectral("weight", weights)
        self.frobenius2 = _frobenius2(weights)
        self.weights = weights

    def norms(self) -> dict[str, Any]:
        """Without the margin and without initial weights."""
        parameters = dict(self.model.named_parameters())
        squares = {
            name: p.detach().double().square().sum()
            for name, p in parameters.items()
            if p.requires_grad
        }
        of_weights = [s for name, s in squares.items() if name.rpartition(".")[2] != "bias"]
        logs = {"spectral": 2 * self.spectral.log().sum(), "frobenius": self.frobenius2.log().sum()}
        count = len(self.shapes)
        return {
            "weight_layers": count,
            "squared_norm": sum(of_weights),
            "squared_norm_with_biases": sum(squares.values()),
            "squared_norm_per_layer": self.frobenius2,
            "spectral_norm_per_layer": self.spectral,
            **{f"log_{kind}_product": log for kind, log in logs.items()},
            **{f"{kind}_sum": count * (log / count).exp() for kind, log in logs.items()},
            "frobenius_over_spectral": (self.frobenius2 / self.spectral.square()).sum(),
            "layers_frobenius": self.frobenius2.sum(),
        }

    def distances(self, initial: nn.Module | Mapping[str, Tensor]) -> dict[str, Any]:
        """From the initial weights; `log_ratio`: ln of sum ||W_l - W_l^0||_F^2 / ||W_l||_2^2."""
        initial = initial.state_dict() if isinstance(initial, nn.Module) else initial
        states = self.model.state_dict()
        for name, tensor in states.items():
            if name not in initial or initial[name].shape != tensor.shape:
                actual = f"of shape {tuple(initial[name].shape)}" if name in initial else "missing"
                raise MeasureError(
                    f"initial: {name} is {actual}; pass the same network before its training, or "
                    "its state dictionary"
                )
        names = [f"{name}.weight" if name else "weight" for name in self.weights]
        if unknown := [name for name in names if name not in states]:
            raise MeasureError(
                f"{unknown[0]} is computed from other parameters, so there is no initial weight; "
                "leave out initial"
            )
        moved = {
            layer: weight - initial[name].to(weight)
            for name, (layer, weight) in zip(names, self.weights.items(), strict=True)
        }
        theta = [name for name, p in self.model.named_parameters() if p.requires_grad]
        steps = (
            (states[name].double() - initial[name].to(states[name]).double()) for name in theta
        )
        frobenius2 = _frobenius2(moved)
        return {
            "frobenius_distance": frobenius2.sum(),
            "spectral_distance": self._spectral("distance", moved).square().sum(),
            "parameter_distance": torch.stack([step.square().sum() for step in steps]).sum().sqrt(),
            "log_ratio": (frobenius2 / self.spectral.square()).sum().log(),
        }

    def _spectral(self, of: str, weights: Mapping[str, Tensor]) -> Tensor:
        """(layers,)"""
        norms = [
            known(self.known, (of, name, self.shapes[name]), partial(self._norm, name, weight))
            for name, weight in weights.items()
        ]
        return torch.tensor(norms, dtype=torch.float64)

    def _norm(self, name: str, weight: Tensor) -> float:
        layer: Any = self.model.get_submodule(name)
        if not (self.operator and isinstance(layer, CONVOLUTIONS)):
            return spectral_norm(weight.flatten(1))
        layer = copy.copy(layer)
        layer.__class__ = base_of(layer)  # no weight that is computed from others
        layer._parameters = {"weight": nn.Parameter(weight), "bias": None}
        return operator_norm(layer, self.shapes[name])


def _frobenius2(weights: Mapping[str, Tensor]) -> Tensor:
    """(layers,)"""
    return torch.stack([weight.square().sum() for weight in weights.values()]).cpu()


@torch.no_grad()
def path_norm(model: nn.Module, shape: tuple[int, ...]) -> float:
    """Sum of the outputs of a network for inputs of one, all its parameters being squared.

    shape: of one input. Batch norm in evaluation mode is an affine map, whose slope and offset are
    squared. For piecewise linear networks it is the sum over all paths from an input or a bias to
    an output of the product of the squared weights, if maxima are over one path each.
    """
    model = copy.deepcopy(model).double()
    tensors = {name: p.square() for name, p in model.named_parameters()}
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            tensors |= {
                f"{name}.{key}" if name else key: value for key, value in _squared(module).items()
            }
    ones = torch.ones(1, *shape, dtype=torch.float64, device=next(model.parameters()).device)
    return float(functional_call(model, tensors, (ones,)).sum())


def _squared(norm: Any) -> dict[str, Tensor]:
    """The tensors of a batch norm that maps x to (g / s)^2 x + (b - g m / s)^2, s^2 = v + eps."""
    mean, variance = norm.running_mean, norm.running_var + norm.eps
    changed = {"running_var": variance.square() - norm.eps}
    if not norm.affine:
        return {**changed, "running_mean": -mean.square()}
    offset = norm.bias - norm.weight * mean / variance.sqrt()
    return {**changed, "running_mean": torch.zeros_like(mean), "bias": offset.square()}


def over_margin(values: Mapping[str, Any], margin: float) -> dict[str, Any]:
    """What divides norms by the squared margin; NaN unless that is positive.

    values: what `norms`, `distances` and `path_norm` have found, where they were asked for.
    """
    log = -2 * math.log(margin) if margin > 0 else math.nan
    count = values["weight_layers"]
    quantities = {"margin": margin, "inverse_margin": math.exp(log)}
    for kind in ("spectral", "frobenius"):
        product = values[f"log_{kind}_product"] + log
        quantities[f"log_{kind}_product_over_margin"] = product
        quantities[f"{kind}_sum_over_margin"] = count * (product / count).exp()
    product = quantities["log_spectral_product_over_margin"]
    quantities["log_spectral_complexity"] = product + values["frobenius_over_spectral"].log()
    if "log_ratio" in values:
        quantities["log_spectral_complexity_from_initial"] = product + values["log_ratio"]
    if "path_norm" in values:
        quantities["path_norm_over_margin"] = values["path_norm"] * math.exp(log)
    return quantities


DROP, TOLERANCE, LARGEST, STEPS = 0.1, 0.01, 2.0, 15
"""Of the accuracy, how far from it the search may end, where it begins, and its most steps."""


class NoiseTolerance(NamedTuple):
    """How much noise on the parameters a classification endures.

    sigma: standard deviation of the noise.
    drop: of the mean accuracy at sigma.
    converged: whether that is close to `DROP`.
    """

    sigma: float
    drop: float
    converged: bool


@torch.no_grad()
def noise_tolerance(
    model: nn.Module,
    batches: Sequence[tuple[Tensor, Tensor]],
    draws: int = 3,
    seed: int = 0,
    progress: bool = False,
) -> NoiseTolerance:
    """The deviation of normal noise on all trainable parameters that lowers the accuracy by 0.1.

    By bisection on [0, 2]. The network is never written to.

    batches: inputs, and classes (samples,), or (samples, positions) with -1 where there is none.
    draws: of the noise, over which accuracies are averaged; every step has the same draws, times
        its deviation, in every precision.
    seed: of the noise.
    progress: show a bar.
    """
    theta = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    device = next(iter(theta.values())).device

    def accuracy(parameters: dict[str, Tensor]) -> float:
        right = torch.zeros((), device=device)
        for x, y in batches:
            outputs = functional_call(model, parameters, (x.clone(),))
            right += outputs.unflatten(1, (*y.shape[1:], -1)).argmax(-1).eq(y).sum()
            forecast.tick()
        return float(right / count)

    def accuracy_with(deviation: float, draw: int) -> float:
        generator = torch.Generator(device).manual_seed(1_000_003 * seed + draw)
        moved = {}
        for name, p in theta.items():
            noise = torch.randn(p.shape, generator=generator, dtype=torch.float32, device=device)
            moved[name] = noise.to(p).mul_(deviation).add_(p)
        return accuracy(moved)

    count = sum(int((classes >= 0).sum()) for _, classes in batches)
    low, high = 0.0, LARGEST
    with Forecast("noise tolerance", (1 + STEPS * draws) * len(batches), progress) as forecast:
        without_noise = accuracy(theta)
        for _ in range(STEPS):
            sigma = (low + high) / 2
            mean = sum(accuracy_with(sigma, draw) for draw in range(draws)) / draws
            drop = without_noise - mean
            if abs(drop - DROP) < TOLERANCE:
                return NoiseTolerance(sigma, drop, True)
            low, high = (low, sigma) if drop > DROP else (sigma, high)
    return NoiseTolerance(sigma, drop, False)
