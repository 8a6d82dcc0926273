"""Elementwise-adaptive sharpness and normalized MLS of any network: chen2026 Fig. 5.

f is the network followed by a sigmoid (unless the options say otherwise), J = df/dx, and
L_i = |f(x_i) - y_i|^2 / 2 the loss of a sample with a one-hot target y_i. All are estimates with
standard errors. The network only needs two derivatives with respect to its inputs, and whole
Jacobians are never formed.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import torch
from msgspec import Meta
from torch import Tensor, nn
from torch.func import functional_call

from flatlab.core.progress import ProgressBar
from flatlab.core.schema import Strict, means
from flatlab.derivatives.estimates.random_perturbations import (
    LOSS,
    exact_gauss_newton,
    loss_changes,
    random_gauss_newton,
)
from flatlab.derivatives.jacobians.golub_kahan import (
    Jacobian,
    Norms,
    largest_singular_values,
    samples_at_a_time,
    secant_slopes,
)
from flatlab.derivatives.per_sample.probe import check
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, Settings, chen2026

SAMPLE = ("sample",)
ESTIMATES = True
CHECKS = ("gradient", "inputs")


S_UNITS, SIGNS = "output^2/parameter^2", "random signs; 0 where it is exact"


def _error_of(estimate: str, over: str, units: str = "output^2") -> Quantity:
    return Quantity(f"standard error of {estimate} over {over}", units)


QUANTITIES = {
    "adaptive_sharpness": chen2026(
        "elementwise-adaptive sharpness, (2/rho^2) mean[L(theta + d) - L(theta)], "
        "d ~ N(0, rho^2 diag(theta^2))",
        "output^2",
        "Eq. 49, 57 with the factor",
        label="elementwise-adaptive sharpness",
    ),
    "adaptive_sharpness_error": _error_of("adaptive_sharpness", "samples and draws"),
    "adaptive_sharpness_draw_error": _error_of("adaptive_sharpness", "draws, for these samples"),
    "elementwise_adaptive_trace": chen2026(
        "mean sum theta_j^2 ||df/dtheta_j||^2, the limit rho -> 0 without the residual's term",
        "output^2",
        "Eq. 52",
    ),
    "elementwise_adaptive_trace_error": _error_of("elementwise_adaptive_trace", SIGNS),
    "sharpness": chen2026(
        "sharpness S, mean ||df/dtheta||_F^2", S_UNITS, "Eq. 3", label="sharpness $S$"
    ),
    "sharpness_error": _error_of("sharpness", SIGNS, S_UNITS),
    "normalized_mls": chen2026(
        "normalized MLS, mean ||x||^2 ||J||_2^2, by a Krylov iteration",
        "output^2",
        "Def. G.1",
        label="normalized MLS",
    ),
    "normalized_mls_error": _error_of("normalized_mls", "samples"),
    "normalized_slope": chen2026(
        "the same with the largest slope of a secant that ascent meets in place of ||J||_2",
        "output^2",
        "Eq. 58, squared",
    ),
    "normalized_slope_error": _error_of("normalized_slope", "samples"),
    "mls": chen2026("MLS, mean ||J||_2", "output/input", "Def. 3.7", label="MLS"),
    "mls_error": _error_of("mls", "samples", "output/input"),
    "mls_per_sample": chen2026("||J||_2", "output/input", "Def. 3.7", SAMPLE),
    "norm_residual": Quantity(
        "||J v - sigma u|| / sigma of the singular vectors found", dims=SAMPLE
    ),
    "norm_iterations": Quantity("products with J, and as many with J^T", dims=SAMPLE),
    "slope_per_sample": chen2026(
        "largest slope of a secant that ascent meets", "output/input", "Eq. 58", SAMPLE
    ),
    "not_converged": Quantity("samples whose ||J||_2 is not within the tolerance"),
    "sample_loss": Quantity("mean |f - y|^2 / 2", "output^2"),
    "sample_accuracy": Quantity("samples that are classified correctly", "%"),
    "dropped": chen2026(
        "whether a standard error exceeds the share of its estimate that is allowed",
        "1",
        "Fig. 5, the authors' code",
    ),
    "finite": Quantity("whether all estimates are finite"),
    "samples_measured": Quantity("samples in the means"),
}


class Options(Strict, frozen=True):
    """How sharpness and sensitivity are estimated; the defaults are those of chen2026."""

    outputs: Annotated[
        Literal["sigmoid", "network"], means("sigmoid: appended to the network's outputs")
    ] = "sigmoid"
    rho: Annotated[float, means("relative size of weight changes", gt=0)] = 0.1
    draws: Annotated[int, means("weight changes, each with both signs", ge=2)] = 50
    trace: Annotated[
        Literal["exact", "random", "none"],
        means("limit rho -> 0: one pass per sample and output, random signs, or none"),
    ] = "random"
    probes: Annotated[int, means("random signs, for trace: random", ge=2)] = 10
    tolerance: Annotated[float, means("relative tolerance of ||J||_2", gt=0, lt=1)] = 1e-3
    iterations: Annotated[int, means("at most, for ||J||_2", ge=1)] = 30
    ascent_steps: Annotated[int, means("for the secant slopes; 0: none", ge=0)] = 30
    ascent_start: Annotated[float, means("standard deviation of the start", gt=0)] = 0.1
    ascent_lr: Annotated[float, means("learning rate of Adam", gt=0)] = 0.1
    drop_above: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        means("flag a network if a standard error exceeds this share of its estimate"),
    ] = 0.15


def measure(model: nn.Module, samples: SampleSet, settings: Settings) -> Measured:
    """All estimates on one sample set.

    Without a batch size, as many samples are taken at a time as fit a budget with the graphs of
    their Jacobians. Samples need labels or targets. Raises `MeasureError` where
    nothing per sample is defined.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(2, 2, bias=False).double()
    >>> _ = network.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 2.0]])})
    >>> x, classes = torch.tensor([[3.0, 4.0], [4.0, 0.0]]), torch.tensor([1, 0])
    >>> how = {"outputs": "network", "draws": 5}
    >>> report = flatlab.measure(network, x, classes, families="adaptive", **how)
    >>> round(report["mls"].item(), 3), report["mls_error"].item() < 1e-6
    (2.0, True)
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
    targets = samples.targets_for(outputs.shape[1])
    targets = torch.where(targets.isnan(), outputs, targets)  # positions that do not count
    changes = loss_changes(
        network, inputs, targets, chosen.rho, chosen.draws, seed, size, progress=settings.progress
    )
    values = _of_sharpness(2 / chosen.rho**2 * changes)
    values |= _of_traces(network, inputs, settings, size, outputs.shape[1])
    if settings.difference_step is not None:  # differences of outputs have half of the digits
        fixed = {name: p.double() for name, p in fixed.items()}
        fixed |= {name: b.double() for name, b in network.named_buffers() if b.is_floating_point()}
        inputs = inputs.double()
    values |= _of_norms(f, inputs, settings, size, samples.masks)
    values |= _of_fit(outputs, targets, settings.loss.classes, samples.kept)
    values["samples_measured"] = np.float64(len(inputs))
    values["finite"] = np.float64(all(np.isfinite(value).all() for value in values.values()))
    values["dropped"] = np.float64(_dropped(values, chosen.drop_above))
    keys = ("outputs", "rho", "draws", "trace")
    notes = {
        **{f"adaptive_{key}": getattr(chosen, key) for key in keys},
        "samples_at_a_time": size,
        "residual_term": "in adaptive_sharpness, not in elementwise_adaptive_trace",
    }
    return Measured(values, notes=notes)


def _of_sharpness(changes: Tensor) -> dict[str, Any]:
    """The mean of (samples, draws) and its standard errors.

    All samples share the draws. The variance of the mean is the sum of the variances of the means
    per sample and per draw, minus their interaction, which both contain.
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
    network: nn.Module, inputs: Tensor, settings: Settings, size: int, outputs: int
) -> dict[str, Any]:
    chosen: Options = settings.options
    if chosen.trace == "none":
        return {}
    exact, seed, progress = chosen.trace == "exact", settings.seed, settings.progress
    if exact:
        traces = exact_gauss_newton(network, inputs, outputs, progress)
    else:
        traces = random_gauss_newton(network, inputs, chosen.probes, seed, size, progress)
    result: dict[str, Any] = {}
    for name, part in zip(("sharpness", "elementwise_adaptive_trace"), traces, strict=True):
        of_probes = part.mean(0).cpu().numpy()
        result |= {name: of_probes.mean(), f"{name}_error": 0.0 if exact else _error(of_probes)}
    return result


def _of_norms(f: Any, inputs: Tensor, settings: Settings, size: int, masks: int) -> dict[str, Any]:
    """masks: numbers of each sample, the last ones, that are no inputs."""
    chosen: Options = settings.options
    maps = [_of_inputs(f, x, masks) for x in inputs.split(size)]
    tolerance, most = chosen.tolerance, chosen.iterations
    with ProgressBar("norms", len(maps) * most, settings.progress) as forecast:
        how: dict[str, Any] = {"seed": settings.seed, "tick": forecast.tick}
        results: list[Norms] = [
            largest_singular_values(
                Jacobian(g, x, settings.difference_step), tolerance, most, **how
            )
            for g, x in maps
        ]
    norms, residuals, iterations, converged = (
        torch.cat([getattr(part, name) for part in results]).cpu().numpy()
        for name in ("values", "residuals", "iterations", "converged")
    )
    squares = torch.cat([x.flatten(1).double().square().sum(1) for _, x in maps]).cpu().numpy()
    result = {
        **_with_error("normalized_mls", squares * norms**2),
        **_with_error("mls", norms),
        "mls_per_sample": norms,
        "norm_residual": residuals,
        "norm_iterations": iterations,
        "not_converged": np.float64((~converged).sum()),
    }
    if chosen.ascent_steps:
        start, lr, steps = chosen.ascent_start, chosen.ascent_lr, chosen.ascent_steps
        with ProgressBar("slopes", len(maps) * steps, settings.progress) as forecast:
            how["tick"] = forecast.tick
            slopes = [secant_slopes(g, x, start, lr, steps, **how) for g, x in maps]
        slope = torch.cat(slopes).cpu().numpy()
        result |= {**_with_error("normalized_slope", squares * slope**2), "slope_per_sample": slope}
    return result


def _of_inputs(f: Any, x: Tensor, masks: int) -> tuple[Any, Tensor]:
    """f as a function of inputs alone, and the inputs.  x: with masks behind them."""
    if not masks:
        return f, x
    free, fixed = x.split([x.shape[1] - masks, masks], 1)
    return lambda inputs: f(torch.cat([inputs, fixed], 1)), free


def _of_fit(outputs: Tensor, targets: Tensor, classes: int, kept: Tensor | None) -> dict[str, Any]:
    """classes, kept: of positions, where samples have some."""
    parts = [each.unflatten(1, (-1, classes)) if classes else each for each in (outputs, targets)]
    correct = parts[0].argmax(-1) == parts[1].argmax(-1)
    correct = correct if kept is None else correct[kept]
    loss = LOSS.values(outputs.double(), targets.double()).mean().item()
    return {"sample_loss": loss, "sample_accuracy": 100 * correct.double().mean().item()}


def _error(values: np.ndarray) -> float:
    """Standard error of the mean of independent values; NaN for a single value."""
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else float("nan")


def _with_error(name: str, values: np.ndarray) -> dict[str, Any]:
    return {name: values.mean(), f"{name}_error": _error(values)}


def _dropped(values: Mapping[str, Any], share: float | None) -> bool:
    """The paper's rule, applied to the two estimates in its figure; it also drops NaN."""
    if share is None:
        return False
    slope = "normalized_slope" if "normalized_slope" in values else "normalized_mls"
    pairs = [(values[n], values[f"{n}_error"]) for n in ("adaptive_sharpness", slope)]
    return not all(error <= share * abs(value) for value, error in pairs)
