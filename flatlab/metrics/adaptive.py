"""Elementwise-adaptive sharpness against normalized MLS, of networks of any kind: chen2026 Fig. 5.

f is the network with a sigmoid behind it unless told otherwise, L_i = |f(x_i) - y_i|^2 / 2 the loss
of a sample with a one-hot y_i, J = df/dx. These are estimates: each has its standard error. Nothing
about the architecture is asked for beyond two derivatives with respect to the inputs, and nothing
of the size of all Jacobians is ever formed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import torch
from msgspec import Meta
from torch import Tensor, nn
from torch.func import functional_call

from flatlab.derivatives.guard import MeasureError
from flatlab.derivatives.perturbation import (
    exact_gauss_newton,
    half_squares,
    loss_changes,
    random_gauss_newton,
)
from flatlab.derivatives.probe import check
from flatlab.derivatives.sensitivity import (
    Jacobian,
    Norms,
    largest_singular_values,
    samples_at_a_time,
    secant_slopes,
)
from flatlab.metrics import Measured, Quantity, Samples, Settings
from flatlab.plan.schema import Strict

ERROR = "standard error of "
QUANTITIES = {
    "adaptive_sharpness": Quantity(
        "elementwise-adaptive sharpness, (2/rho^2) mean[L(theta + d) - L(theta)], "
        "d ~ N(0, rho^2 diag(theta^2))",
        "output^2",
        "chen2026 Eq. 49, 57 with the factor",
    ),
    "adaptive_sharpness_error": Quantity(
        ERROR + "adaptive_sharpness over samples and draws", "output^2", ""
    ),
    "adaptive_sharpness_draw_error": Quantity(
        ERROR + "adaptive_sharpness over draws, for these samples", "output^2", ""
    ),
    "adaptive_trace": Quantity(
        "mean sum theta_j^2 ||df/dtheta_j||^2, the limit rho -> 0 without the residual's term",
        "output^2",
        "chen2026 Eq. 52",
    ),
    "adaptive_trace_error": Quantity(
        ERROR + "adaptive_trace over random signs; 0 where it is exact", "output^2", ""
    ),
    "plain_trace": Quantity(
        "sharpness S, mean ||df/dtheta||_F^2", "output^2/parameter^2", "chen2026 Eq. 3"
    ),
    "plain_trace_error": Quantity(
        ERROR + "plain_trace over random signs; 0 where it is exact", "output^2/parameter^2", ""
    ),
    "normalized_norm": Quantity(
        "normalized MLS, mean ||x||^2 ||J||_2^2, by a Krylov iteration",
        "output^2",
        "chen2026 Def. G.1",
    ),
    "normalized_norm_error": Quantity(ERROR + "normalized_norm over samples", "output^2", ""),
    "normalized_slope": Quantity(
        "the same with the largest slope of a secant that ascent meets in place of ||J||_2",
        "output^2",
        "chen2026 Eq. 58, squared",
    ),
    "normalized_slope_error": Quantity(ERROR + "normalized_slope over samples", "output^2", ""),
    "mean_norm": Quantity("MLS, mean ||J||_2", "output/input", "chen2026 Def. 3.7"),
    "mean_norm_error": Quantity(ERROR + "mean_norm over samples", "output/input", ""),
    "norm_per_sample": Quantity("||J||_2", "output/input", "chen2026 Def. 3.7", ("sample",)),
    "norm_residual": Quantity(
        "||J v - sigma u|| / sigma of the singular vectors found", "1", "", ("sample",)
    ),
    "norm_iterations": Quantity("products with J, and as many with J^T", "1", "", ("sample",)),
    "slope_per_sample": Quantity(
        "largest slope of a secant that ascent meets",
        "output/input",
        "chen2026 Eq. 58",
        ("sample",),
    ),
    "not_converged": Quantity("samples whose ||J||_2 is not within the tolerance", "1", ""),
    "sample_loss": Quantity("mean |f - y|^2 / 2", "output^2", ""),
    "sample_accuracy": Quantity("samples that are classified correctly", "%", ""),
    "dropped": Quantity(
        "whether a standard error exceeds the share of its estimate that is allowed",
        "1",
        "chen2026 Fig. 5, the authors' code",
    ),
    "finite": Quantity("whether all estimates are finite", "1", ""),
    "samples_measured": Quantity("samples in the means", "1", ""),
}


class Options(Strict, frozen=True):
    """How sharpness and sensitivity are estimated; the defaults are those of chen2026."""

    outputs: Annotated[
        Literal["sigmoid", "network"],
        Meta(description="sigmoid: appended to the network's outputs"),
    ] = "sigmoid"
    own_targets: Annotated[
        bool, Meta(description="the targets are the network's outputs, as if it fitted its data")
    ] = False
    rho: Annotated[float, Meta(gt=0, description="relative size of the changes of weights")] = 0.1
    draws: Annotated[int, Meta(ge=2, description="changes of weights, each with its negative")] = 50
    trace: Annotated[
        Literal["exact", "random", "none"],
        Meta(description="limit of small rho: a pass per sample and output, random signs, or not"),
    ] = "random"
    probes: Annotated[int, Meta(ge=2, description="of trace random: draws of signs")] = 10
    tolerance: Annotated[float, Meta(gt=0, lt=1, description="relative, of the norm of J")] = 1e-3
    iterations: Annotated[int, Meta(ge=1, description="towards the norm of J at most")] = 30
    ascent_steps: Annotated[int, Meta(ge=0, description="of the ascent of secants; 0: none")] = 30
    ascent_start: Annotated[float, Meta(gt=0, description="standard deviation of its start")] = 0.1
    ascent_lr: Annotated[float, Meta(gt=0, description="of Adam in the ascent")] = 0.1
    drop_above: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="a network is flagged where a standard error exceeds this share"),
    ] = 0.15


def measure(model: nn.Module, samples: Samples, settings: Settings) -> Measured:
    """All estimates on one sample set.

    Without a batch size, as many samples are taken at a time as fit a budget with the graphs of
    their Jacobians. Samples need labels or targets, unless the targets are the network's own
    outputs. Raises `MeasureError` where nothing per sample is defined.
    """
    chosen: Options = settings.options
    network = nn.Sequential(model, nn.Sigmoid()) if chosen.outputs == "sigmoid" else model
    inputs, seed = samples.inputs, settings.seed
    check(network, inputs)
    fixed = {name: p.detach() for name, p in network.named_parameters()}

    def f(x: Tensor) -> Tensor:  # of the inputs alone: no graph of weights is kept
        return functional_call(network, fixed, (x,))

    size = settings.batch_size or samples_at_a_time(f, inputs)
    with torch.no_grad():
        outputs = torch.cat([f(x.clone()) for x in inputs.split(size)])
    targets = outputs if chosen.own_targets else _targets(samples, outputs.shape[1])
    changes = loss_changes(
        network,
        inputs,
        targets,
        chosen.rho,
        chosen.draws,
        seed,
        size,
        progress=settings.progress,
    )
    values = _of_sharpness(2 / chosen.rho**2 * changes)
    values |= _of_traces(network, inputs, chosen, seed, size)
    values |= _of_norms(f, inputs, chosen, seed, size)
    values |= {} if chosen.own_targets else _of_fit(outputs, targets)
    values["samples_measured"] = np.float64(len(inputs))
    values["finite"] = np.float64(all(np.isfinite(value).all() for value in values.values()))
    values["dropped"] = np.float64(_dropped(values, chosen.drop_above))
    notes = {
        **{
            f"adaptive_{key}": getattr(chosen, key)
            for key in ("outputs", "own_targets", "rho", "draws", "trace")
        },
        "samples_at_a_time": size,
        "residual_term": "in adaptive_sharpness, not in adaptive_trace",
    }
    return Measured({name: np.asarray(value) for name, value in values.items()}, notes=notes)


def _targets(samples: Samples, outputs: int) -> Tensor:
    if samples.targets is not None:
        targets = samples.targets
    elif samples.labels is not None:
        if int(samples.labels.max()) >= outputs:
            raise MeasureError(f"label {int(samples.labels.max())}: there are {outputs} outputs")
        targets = nn.functional.one_hot(samples.labels, outputs).to(samples.inputs)
    else:
        raise MeasureError("adaptive sharpness is that of a loss: pass targets, classes or values")
    if tuple(targets.shape) != (len(samples.inputs), outputs):
        raise MeasureError(f"targets are {tuple(targets.shape)}, outputs {outputs} per sample")
    return targets


def _of_sharpness(changes: Tensor) -> dict[str, Any]:
    """The mean of (samples, draws) and its standard errors.

    All samples share the draws. The variance of the mean is that over samples and that over draws,
    of the means over the other, less what both contain of their interaction.
    """
    table = changes.cpu().numpy()
    samples, draws = table.shape
    of_samples, of_draws = table.mean(1), table.mean(0)
    rest = table - of_samples[:, None] - of_draws + table.mean()
    free = (samples - 1) * (draws - 1)
    interaction = (rest**2).sum() / free / (samples * draws) if free else 0.0
    total = _error(of_samples) ** 2 + _error(of_draws) ** 2 - interaction
    return {
        "adaptive_sharpness": table.mean(),
        "adaptive_sharpness_error": np.sqrt(np.maximum(total, _error(of_draws) ** 2)),
        "adaptive_sharpness_draw_error": _error(of_draws),
    }


def _of_traces(
    network: nn.Module, inputs: Tensor, chosen: Options, seed: int, size: int
) -> dict[str, Any]:
    if chosen.trace == "none":
        return {}
    exact = chosen.trace == "exact"
    plain, adaptive = (
        exact_gauss_newton(network, inputs)
        if exact
        else random_gauss_newton(network, inputs, chosen.probes, seed, size)
    )
    result: dict[str, Any] = {}
    for name, part in (("plain_trace", plain), ("adaptive_trace", adaptive)):
        of_probes = part.mean(0).cpu().numpy()
        result |= {name: of_probes.mean(), f"{name}_error": 0.0 if exact else _error(of_probes)}
    return result


def _of_norms(f: Any, inputs: Tensor, chosen: Options, seed: int, size: int) -> dict[str, Any]:
    chunks = inputs.split(size)
    found: list[Norms] = [
        largest_singular_values(Jacobian(f, x), chosen.tolerance, chosen.iterations, seed)
        for x in chunks
    ]
    norms, residuals, iterations, converged = (
        torch.cat([getattr(part, name) for part in found]).cpu().numpy()
        for name in ("values", "residuals", "iterations", "converged")
    )
    squares = inputs.flatten(1).double().square().sum(1).cpu().numpy()
    result = {
        **_with_error("normalized_norm", squares * norms**2),
        **_with_error("mean_norm", norms),
        "norm_per_sample": norms,
        "norm_residual": residuals,
        "norm_iterations": iterations,
        "not_converged": np.float64((~converged).sum()),
    }
    if chosen.ascent_steps:
        slopes = [
            secant_slopes(f, x, chosen.ascent_start, chosen.ascent_lr, chosen.ascent_steps, seed)
            for x in chunks
        ]
        slope = torch.cat(slopes).cpu().numpy()
        result |= {**_with_error("normalized_slope", squares * slope**2), "slope_per_sample": slope}
    return result


def _of_fit(outputs: Tensor, targets: Tensor) -> dict[str, Any]:
    correct = outputs.argmax(1) == targets.argmax(1)
    return {
        "sample_loss": half_squares(outputs, targets).mean().item(),
        "sample_accuracy": 100 * correct.double().mean().item(),
    }


def _error(values: np.ndarray) -> float:
    """Standard error of the mean of independent values; of a single one, not a number."""
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else float("nan")


def _with_error(name: str, values: np.ndarray) -> dict[str, Any]:
    return {name: values.mean(), f"{name}_error": _error(values)}


def _dropped(values: Mapping[str, Any], share: float | None) -> bool:
    """The paper's rule, of the two estimates that it draws; nothing that is no number is kept."""
    if share is None:
        return False
    slope = "normalized_slope" if "normalized_slope" in values else "normalized_norm"
    pairs = [(values[n], values[f"{n}_error"]) for n in ("adaptive_sharpness", slope)]
    return not all(error <= share * abs(value) for value, error in pairs)
