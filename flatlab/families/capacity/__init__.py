"""Measures of capacity: norms of weights, margins, Fisher-Rao norm, PAC-Bayes.

W_l, l = 1 ... L, are the weights of the linear and convolution layers in the order of their first
use, f the outputs, l the loss of a sample, means over the samples. Source: Jiang et al. (2019),
"Fantastic generalization measures and where to find them", arXiv 1912.02178, and petzka2021 Sec. 6.
Public code for these measures divides by the number of samples and takes roots; here they are as
defined in the text.
"""

import math
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.core.schema import Strict, means
from flatlab.derivatives.checks.evaluation_mode import check_mode
from flatlab.derivatives.per_sample.hooks import recorded
from flatlab.derivatives.per_sample.probe import Findings, probe, run
from flatlab.derivatives.second_order.hessian_products import Batches
from flatlab.derivatives.second_order.second_pass import piecewise_linear
from flatlab.families.capacity.norms import Weights, noise_tolerance, over_margin, path_norm
from flatlab.families.capacity.table import PAC_BAYES, QUANTITIES
from flatlab.losses._base import Loss
from flatlab.measuring.quantity import Measured, Samples, Settings

__all__ = ["QUANTITIES", "Options", "measure"]

BYTES = 2**26
"""Of what a forward pass keeps at a time, unless a batch size is given."""
PERCENTILE = 0.1


CHECKS = ("function",)


class Options(Strict, frozen=True):
    capacity: Annotated[
        tuple[Literal["path-norm", "margin", "fisher-rao", "pac-bayes", "distances"], ...],
        means("beside norms; distances: from initial weights, added wherever these are known"),
    ] = ("path-norm", "margin", "fisher-rao", "pac-bayes")
    capacity_norm: Annotated[
        Literal["kernel", "operator"],
        means("spectral norm of a convolution: of its matrix, or as a map of feature maps"),
    ] = "kernel"
    pac_bayes_draws: Annotated[int, means("of the noise, for each sigma", ge=1)] = 3


def measure(model: nn.Module, samples: Samples, settings: Settings) -> Measured:
    """All quantities on one sample set; NaN everywhere if weights or outputs are not finite.

    Raises `MeasureError` where classes, targets or initial weights are needed but missing.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(2, 2, bias=False).double()
    >>> network.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 2.0]])})
    <All keys matched successfully>
    >>> x, classes = torch.tensor([[3.0, 4.0], [4.0, 0.0]]), torch.tensor([1, 0])
    >>> report = flatlab.measure(network, x, classes, families="capacity", capacity=["margin"])
    >>> report["squared_norm"].item(), report["spectral_norm_per_layer"].values.tolist()
    (5.0, [2.0])
    >>> report["margin"].item()  # the 10th percentile of 5 and 4
    4.1
    """
    options: Options = settings.options
    wanted = options.capacity
    check_mode(model)
    findings = probe(model, samples.inputs)
    if not findings.layers:
        raise MeasureError(
            "capacity is of linear and convolution layers, and none is called as such a layer"
        )
    fitting = max(1, BYTES // (findings.numbers * samples.inputs.element_size()))
    size = settings.batch_size or fitting
    outputs, features, shapes = _forward(model, samples.inputs, findings, size)
    left_out = []
    weights = Weights(model, shapes, options.capacity_norm == "operator", settings.norms)
    values = {"output_norm": torch.linalg.vector_norm(outputs)}
    if samples.padded:
        left_out.append("feature_frobenius: inputs of layers are those of padding, too")
    else:
        values["feature_frobenius"] = features
    values |= weights.norms()
    if settings.initial is not None:
        values |= weights.distances(settings.initial)
    elif "distances" in wanted:
        raise MeasureError(
            "distances need the weights before training: pass initial=, that network or its state "
            "dictionary; a grid keeps them where step 0 is among its dense checkpoints"
        )
    else:
        left_out.append("distances: there are no initial weights")
    if "path-norm" in wanted:
        if reason := _against_paths(model, samples.inputs):
            left_out.append(f"path_norm: {reason}")
        else:
            values["path_norm"] = path_norm(model, tuple(samples.inputs.shape[1:]))
    if "fisher-rao" in wanted:
        targets = samples.targets_for(findings.outputs, settings.loss).double()
        values["fisher_rao"] = len(shapes) * fisher_rao(outputs, targets, settings.loss)
    if "margin" in wanted:
        classes = _classes(samples, outputs, "margin")
        rows = outputs.unflatten(1, (*classes.shape[1:], -1))[classes >= 0]
        of_rows = margins(rows, classes[classes >= 0])
        values |= over_margin(values, float(of_rows.quantile(PERCENTILE)))
    finite = findings.finite and bool(outputs.isfinite().all())
    if "pac-bayes" in wanted:
        classes = _classes(samples, outputs, "pac-bayes")
        batches = list(zip(samples.inputs.split(size), classes.split(size), strict=True))
        values |= _pac_bayes(
            model, batches if finite else [], float(values["squared_norm"]), settings
        )
    values.pop("log_ratio", None)
    if not finite:
        values = {name: np.full(np.shape(value), np.nan) for name, value in values.items()}
    return Measured(values, {"layer": findings.layers}, {"capacity_left_out": left_out})


def _forward(
    model: nn.Module, inputs: Tensor, findings: Findings, size: int
) -> tuple[Tensor, Tensor, dict[str, tuple[int, ...]]]:
    """The outputs, the Frobenius norm of each layer's inputs, and the shape of one such input."""
    modules = {name: findings.modules[name] for name in findings.layers}
    squares = dict.fromkeys(modules, torch.zeros((), dtype=torch.float64))
    shapes: dict[str, tuple[int, ...]] = {}
    parts = []
    for chunk in inputs.split(size):
        with recorded(modules) as uses:
            parts.append(run(model, chunk.clone()).detach().double())
        for use in uses:
            squares[use.name] = squares[use.name] + use.x.double().square().sum().cpu()
            shapes[use.name] = tuple(use.x.shape[1:])
    shapes = {name: shapes[name] for name in modules}
    return torch.cat(parts), torch.stack([*squares.values()]).sqrt(), shapes


def fisher_rao(outputs: Tensor, targets: Tensor, loss: Loss) -> Tensor:
    """sqrt(mean <dl/df, f>^2), without the factor in front.  outputs, targets: (samples, N)."""
    slopes = loss.gradient(outputs[:, None], targets[:, None])[:, 0]  # of each sample alone
    return (slopes * outputs).sum(1).square().mean().sqrt()


def margins(outputs: Tensor, classes: Tensor) -> Tensor:
    """The output of the right class minus the largest other output of each sample."""
    right = outputs.gather(1, classes[:, None])[:, 0]
    return right - outputs.scatter(1, classes[:, None], -torch.inf).amax(1)


def _classes(samples: Samples, outputs: Tensor, what: str) -> Tensor:
    """The classes of samples or positions; `MeasureError` where there are none, or do not fit."""
    if samples.position_labels is not None:
        return samples.position_labels
    if samples.labels is None or outputs.shape[1] < 2:
        lacking = "there are no classes" if samples.labels is None else "there is one output"
        raise MeasureError(
            f"{what} is for classifiers, but {lacking}; pass targets (samples,) of classes, or "
            f"leave {what} out of the option capacity"
        )
    samples.targets_for(outputs.shape[1])  # whether they fit
    return samples.labels


def _against_paths(model: nn.Module, inputs: Tensor) -> str:
    """Why a network has no path norm; "" if it has."""
    if any(map(nn.utils.parametrize.is_parametrized, model.modules())):
        return "weights are computed from other parameters"
    linear = piecewise_linear(run(model, inputs[:2].clone()))
    return "" if linear else "the network is not piecewise linear, or uses a parameter twice"


def _pac_bayes(
    model: nn.Module, batches: Batches, squared_norm: float, settings: Settings
) -> dict[str, float]:
    """batches: empty where outputs are not finite."""
    if not batches:
        return dict.fromkeys(PAC_BAYES, math.nan)
    options: Options = settings.options
    draws, seed = options.pac_bayes_draws, settings.seed
    tolerance = noise_tolerance(model, batches, draws, seed, settings.progress)
    count = sum(int((classes >= 0).sum()) for _, classes in batches)
    return {
        "pac_bayes": squared_norm / (4 * tolerance.sigma**2)
        + math.log(count / tolerance.sigma)
        + 10,
        "pac_bayes_sigma": tolerance.sigma,
        "pac_bayes_flatness": tolerance.sigma**-2,
        "pac_bayes_drop": tolerance.drop,
        "pac_bayes_converged": float(tolerance.converged),
    }
