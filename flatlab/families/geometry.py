"""Sharpness, compression and the bounds between them: chen2026 and chen2024, relative flatness.

Notation: f maps inputs x (M numbers) to N outputs; W_l, l = 1 ... L, are the weights of the linear
and convolution layers in the order of their first use, the last included; x^l is the input of
layer l (x^1 = x) and z^l its output; J^l = df/dx^l (N x M_l) along the path through layer l alone,
J = df/dx; Gamma^l = df/dz^l. ||.||_2 is the largest singular value, for a kernel of its matrix
(output channels, the rest); ||.||_F the Frobenius norm; means are over the samples.

The bounds rest on ||df/dW_l||_F = ||Gamma^l||_F ||x^l||, which holds for linear layers that see one
position of a sample, but not for weights that are shared between positions: in convolutions,
sequences, and layers used twice. For these the bounds are proxies; `linear_stability_ratio` and
`violations` say how far they are from holding.
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from msgspec import Meta
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.core.schema import Key, Strict, closest, means
from flatlab.derivatives.per_sample.engine import derivatives
from flatlab.derivatives.per_sample.probe import Findings
from flatlab.families._accuracy import accuracy_of
from flatlab.families._geometry.estimates import estimated
from flatlab.families._geometry.table import ERRORS, OF_ALL_OUTPUTS, OF_INPUTS_OF_LAYERS, QUANTITIES
from flatlab.families._geometry.values import BOUNDS, NORMS, Values, wanted_of
from flatlab.losses._base import Loss
from flatlab.measuring.quantity import Measured, Samples, Settings

__all__ = ["BOUNDS", "ERRORS", "NORMS", "QUANTITIES", "Options", "measure"]


NO_LAYERS = "no linear or convolution layer is called as such a layer; see layers_left_out"


CHECKS = ("gradient",)
TOKENS = "embedded"


class Options(Strict, frozen=True):
    FOLDERS: ClassVar[dict[str, str]] = {"relative_flatness_loss": "losses"}

    singular_values: Annotated[
        Literal["all"] | Annotated[int, Meta(ge=1)],
        means("the k largest that enter the log volume"),
    ] = "all"
    relative_flatness_loss: Annotated[
        Key | None, means("whose Hessian it uses; null: the loss of training")
    ] = None
    costly: Annotated[
        tuple[Literal["elementwise-adaptive-trace", "operator-norm", "corrected-bound"], ...],
        means("quantities that cost as much as all others together"),
    ] = ("elementwise-adaptive-trace",)
    quantities: Annotated[
        Literal["all"] | tuple[str, ...],
        means("names of those wanted: sharpness alone costs less than all"),
    ] = "all"
    accuracy: Annotated[
        Literal["exact", "auto"] | Annotated[float, Meta(gt=0, lt=1)],
        means(
            "exact, a relative standard error, or auto: 0.02 where a sample does not fit at once"
        ),
    ] = "exact"


def measure(model: nn.Module, samples: Samples, settings: Settings) -> Measured:
    """All quantities on one sample set.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(2, 2, bias=False).double()
    >>> network.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 2.0]])})
    <All keys matched successfully>
    >>> x, classes = torch.tensor([[3.0, 4.0], [4.0, 0.0]]), torch.tensor([1, 0])
    >>> report = flatlab.measure(network, x, families="geometry")
    >>> report["sharpness"].item()  # mean |x|^2, for each of two outputs
    41.0
    >>> report["mls"].item(), report["bound_d"].item() >= report["mls"].item()
    (2.0, True)
    """
    options: Options = settings.options
    loss = settings.loss_named(options.relative_flatness_loss)
    wanted, findings = accuracy_of(options.accuracy, model, samples.inputs, settings.budget)
    if wanted is None or findings is None:
        values, findings, finite = _exact(model, samples, settings, loss)
        notes: dict[str, Any] = {}
    else:
        estimates = estimated(
            model,
            samples.inputs,
            findings,
            options,
            loss,
            settings.norms,
            accuracy=wanted,
            seed=settings.seed,
            size=settings.batch_size,
            budget=settings.budget,
            progress=settings.progress,
        )
        values, findings = {**estimates.values, **estimates.errors}, estimates.findings
        finite, notes = estimates.finite, estimates.notes
    if findings.embedding and loss.classes and "sharpness" in values:
        values |= _per_token(values, samples, findings.outputs // loss.classes)
    left_out = _without_positions(samples)
    values = {name: value for name, value in values.items() if name not in left_out}
    values = _chosen(values, options.quantities)
    values["finite"] = torch.tensor(float(finite), dtype=torch.float64)
    if not finite:
        for name in values.keys() - {"finite", "samples_measured", "shared", "layers_left_out"}:
            values[name] = torch.full_like(values[name], torch.nan)
    notes |= {
        "singular_values": options.singular_values,
        "layers_left_out": [f"{name}: {reason}" for name, reason in findings.excluded.items()],
        "parameters_by_generic_gradient": findings.generic,
        "parameters_unused": findings.unused,
        "parameters_frozen": findings.frozen,
    }
    if findings.embedding:
        notes["derivatives_with_respect_to"] = (
            f"the output of the embedding {findings.embedding!r}; a sample is a sequence"
        )
    if reasons := dict.fromkeys(left_out.values()):
        known = notes.get("quantities_left_out")
        notes["quantities_left_out"] = "; ".join([*([known] if known else []), *reasons])
    if not findings.layers:
        notes["quantities_left_out"] = f"those of layers: {NO_LAYERS}"
        return Measured(values, {}, notes)
    coordinates = {"layer": findings.layers, "norm": list(NORMS), "bound": list(BOUNDS)}
    return Measured(values, coordinates, notes)


def _without_positions(samples: Samples) -> dict[str, str]:
    """Quantities that positions which do not count leave without a meaning, with the reason."""
    left_out: dict[str, str] = {}
    if samples.kept is not None:
        left_out |= dict.fromkeys(OF_ALL_OUTPUTS, "samples have different numbers of positions")
    if samples.padded:
        left_out |= dict.fromkeys(OF_INPUTS_OF_LAYERS, "inputs of layers are those of padding, too")
    return left_out


def _per_token(values: dict[str, Tensor], samples: Samples, tokens: float) -> dict[str, Tensor]:
    """Sharpness over the mean number of tokens that count, with its error if it has one."""
    if samples.kept is not None:
        tokens = float(samples.kept.sum(1).double().mean())
    pairs = {"sharpness": "sharpness_per_token", "sharpness_error": "sharpness_per_token_error"}
    return {new: values[old] / tokens for old, new in pairs.items() if old in values}


def _chosen(values: dict[str, Tensor], quantities: str | Sequence[str]) -> dict[str, Tensor]:
    """The quantities that are asked for, with what belongs to them, and counts."""
    if quantities == "all":
        return values
    for name in quantities:
        if name not in {**QUANTITIES, **ERRORS}:
            raise MeasureError(f"quantities: unknown {name!r}; {closest(name, QUANTITIES)}")
    counted = {"samples_measured", "layers_left_out", "norm_residual"}
    return {
        name: value
        for name, value in values.items()
        if name.removesuffix("_error") in quantities or name in counted
    }


def _exact(
    model: nn.Module, samples: Samples, settings: Settings, loss: Loss
) -> tuple[dict[str, Tensor], Findings, bool]:
    """The values, what rules cover, and whether all is finite."""
    options: Options = settings.options
    exact = derivatives(
        model,
        samples.inputs,
        adaptive="elementwise-adaptive-trace" in options.costly,
        corrected="corrected-bound" in options.costly,
        loss=loss,
        batch_size=settings.batch_size,
        wanted=wanted_of(options.quantities),
        budget=settings.budget,
        progress=settings.progress,
    )
    with torch.no_grad():
        kept = samples.kept
        ranks = None if kept is None else kept.sum(1) * (exact.outputs.shape[1] // kept.shape[1])
        values = Values(exact, options, loss, settings.norms, ranks).by_name()
        singular = (layer.singular for layer in exact.layers)
        parts = exact.outputs, exact.sharpness, exact.singular, *singular
        finite = exact.findings.finite and all(bool(part.isfinite().all()) for part in parts)
    return values, exact.findings, finite
