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

from typing import Annotated, ClassVar, Literal

import torch
from msgspec import Meta
from torch import nn

from flatlab.derivatives import derivatives
from flatlab.losses import mean_mse
from flatlab.losses._base import loss_of
from flatlab.metrics import Measured, Samples, Settings
from flatlab.metrics._geometry.table import QUANTITIES
from flatlab.metrics._geometry.values import BOUNDS, NORMS, Values
from flatlab.plan.schema import Key, Strict, means

__all__ = ["BOUNDS", "NORMS", "QUANTITIES", "Options", "measure"]


NO_LAYERS = "no linear or convolution layer is called as such a layer; see layers_left_out"


class Options(Strict, frozen=True):
    """The options of this family.

    chen-code stands for the conventions of the authors' code: 3 singular values, J^l through all
    that reads x^l, sqrt(positions) x Frobenius norms in networks with convolutions, 1e-4 added to
    ||x^l||^2 in the NMLS bound, mean-mse, and ||J x||^2 / M for the normalized MLS.
    """

    FOLDERS: ClassVar[dict[str, str]] = {"relative_flatness_loss": "losses"}

    singular_values: Annotated[
        Literal["all"] | Annotated[int, Meta(ge=1)],
        means("the k largest that enter the log volume"),
    ] = "all"
    relative_flatness_loss: Annotated[
        Key | None, means("whose Hessian it uses; null: the loss of training")
    ] = None
    conventions: Annotated[Literal["flatlab", "chen-code"], means("docs/measures.md")] = "flatlab"
    costly: Annotated[
        tuple[Literal["elementwise-adaptive-trace", "operator-norm", "corrected-bound"], ...],
        means("quantities that cost as much as all others together"),
    ] = ("elementwise-adaptive-trace",)


def measure(model: nn.Module, samples: Samples, settings: Settings) -> Measured:
    """All quantities on one sample set."""
    options: Options = settings.options
    authors, costly = options.conventions == "chen-code", options.costly
    loss = settings.loss
    if authors:
        loss = mean_mse.Loss()
    elif options.relative_flatness_loss:
        loss = loss_of({"loss": options.relative_flatness_loss})
    found = derivatives(
        model,
        samples.inputs,
        adaptive="elementwise-adaptive-trace" in costly,
        total=authors,
        corrected="corrected-bound" in costly,
        loss=loss,
        batch_size=settings.batch_size,
        progress=settings.progress,
    )
    with torch.no_grad():
        geometry = Values(found, options, loss, settings.norms)
        values = geometry.by_name()
        singular = (layer.singular for layer in found.layers)
        parts = found.outputs, found.sharpness, found.singular, *singular
        finite = found.findings.finite and all(bool(part.isfinite().all()) for part in parts)
    values["finite"] = torch.tensor(float(finite), dtype=torch.float64)
    if not finite:
        for name in values.keys() - {"finite", "samples_measured", "shared", "layers_left_out"}:
            values[name] = torch.full_like(values[name], torch.nan)
    findings = found.findings
    notes = {
        "singular_values": geometry.largest,
        "conventions": options.conventions,
        "layers_left_out": [f"{name}: {reason}" for name, reason in findings.excluded.items()],
        "parameters_by_generic_gradient": findings.generic,
        "parameters_unused": findings.unused,
        "parameters_frozen": findings.frozen,
    }
    if not findings.layers:
        notes["quantities_left_out"] = f"those of layers: {NO_LAYERS}"
        return Measured(values, {}, notes)
    coordinates = {"layer": findings.layers, "norm": list(NORMS), "bound": list(BOUNDS)}
    return Measured(values, coordinates, notes)
