"""Sharpness, compression and the bounds between them: chen2026 and chen2024, relative flatness.

Notation: f maps inputs x (M numbers) to N outputs; W_l, l = 1 ... L, are the weights of the linear
and convolution layers in the order of their first use, the last included; x^l is the input of
layer l (x^1 = x) and z^l its output; J^l = df/dx^l (N x M_l) along the path through layer l alone,
J = df/dx; Gamma^l = df/dz^l. ||.||_2 is the largest singular value, of a kernel that of its matrix
(output channels, the rest); ||.||_F the Frobenius norm; means are over the samples.

The bounds rest on ||df/dW_l||_F = ||Gamma^l||_F ||x^l||, which holds for linear layers that see one
position of a sample and fails where weights are shared between positions: in convolutions, in
sequences, in layers used twice. There they are proxies; `linear_stability_ratio` and `violations`
say how far from it a network is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from msgspec import Meta
from torch import Tensor, nn

from flatlab.derivatives import Derivatives, derivatives
from flatlab.derivatives.convolution import CONVOLUTIONS
from flatlab.derivatives.norms import authors_norm, operator_norm, spectral_norm
from flatlab.losses import Loss, loss_of, mean_mse
from flatlab.metrics import Measured, Quantity, Samples, Settings
from flatlab.plan.schema import Key, Strict


class Options(Strict, frozen=True):
    """The options of this family.

    chen-code stands for the conventions of the authors' code: 3 singular values, J^l through all
    that reads x^l, sqrt(positions) x Frobenius norms in networks with convolutions, 1e-4 added to
    ||x^l||^2 in the NMLS bound, mean-mse, and ||J x||^2 / M for the normalized MLS.
    """

    FOLDERS: ClassVar[dict[str, str]] = {"relative_flatness_loss": "losses"}

    singular_values: Annotated[
        Literal["all"] | Annotated[int, Meta(ge=1)],
        Meta(description="the k largest that enter the log volume"),
    ] = "all"
    relative_flatness_loss: Annotated[
        Key | None, Meta(description="whose Hessian it uses; null: the loss of training")
    ] = None
    conventions: Annotated[
        Literal["flatlab", "chen-code"], Meta(description="docs/measures.md")
    ] = "flatlab"
    costly: Annotated[
        tuple[Literal["elementwise-adaptive-trace", "operator-norm", "corrected-bound"], ...],
        Meta(description="quantities that cost as much as all others together"),
    ] = ("elementwise-adaptive-trace",)


NORMS = ("kernel", "operator", "frobenius")
BOUNDS = ("b", "c", "d", "nmls", "nmls-layerwise")
AUTHORS_EPSILON = 1e-4
"""What the authors' code adds to ||x^l||^2 in the NMLS bound."""

SAMPLE, LAYER, BOTH = ("sample",), ("layer",), ("sample", "layer")
S_UNITS = "output^2/parameter^2"
QUANTITIES = {
    "sharpness": Quantity("sharpness S, mean ||df/dtheta||_F^2", S_UNITS, "chen2026 Eq. 3"),
    "root_sharpness": Quantity("sqrt(S)", "output/parameter", "chen2026 Eq. 3"),
    "sharpness_per_sample": Quantity("||df/dtheta||_F^2", S_UNITS, "chen2026 Eq. 3", SAMPLE),
    "sharpness_per_layer": Quantity(
        "sharpness of a layer's weights S(W_l), mean ||df/dW_l||_F^2",
        S_UNITS,
        "chen2026 Eq. 43",
        LAYER,
    ),
    "bias_sharpness_per_layer": Quantity(
        "sharpness of a layer's biases S(b_l), mean ||df/db_l||_F^2",
        S_UNITS,
        "part of chen2026 Eq. 3",
        LAYER,
    ),
    "elementwise_adaptive_trace": Quantity(
        "mean sum theta_j^2 ||df/dtheta_j||^2", "output^2", "chen2026 Eq. 52"
    ),
    "jacobian_frobenius": Quantity("||J||_F", "output/input", "chen2024 Eq. 6", SAMPLE),
    "g": Quantity("G, mean ||J||_F^2", "output^2/input^2", "chen2024 Eq. 6"),
    "mls": Quantity(
        "maximum local sensitivity MLS, mean ||J||_2", "output/input", "chen2026 Def. 3.7"
    ),
    "mls_per_sample": Quantity("||J||_2", "output/input", "chen2026 Def. 3.7", SAMPLE),
    "sensitivity": Quantity(
        "||J^l||_2, through layer l alone", "output/layer input", "chen2026 Def. 3.9", BOTH
    ),
    "mls_per_layer": Quantity(
        "maximum local sensitivity to a layer's input, mean ||J^l||_2",
        "output/layer input",
        "chen2026 Def. 3.9",
        LAYER,
    ),
    "nmls": Quantity(
        "network MLS, sum over the layers of mean ||J^l||_2", "mixed", "chen2026 Def. 3.9"
    ),
    "weighted_mls": Quantity(
        "sum over the layers of mean ||J^l||_2 / sqrt(mean ||x^l||^-2)",
        "output",
        "chen2026 Prop. F.2",
    ),
    "normalized_mls": Quantity(
        "normalized MLS, mean ||x||^2 ||J||_2^2", "output^2", "chen2026 Def. G.1"
    ),
    "input_invariant_mls": Quantity(
        "mean ||J diag(x)||_F^2", "output^2", "chen2026 Def. F.7, its index corrected"
    ),
    "network_input_invariant_mls": Quantity(
        "sum over the layers of mean ||J^l diag(x^l)||_F^2 / d_l, d_l rows of W_l",
        "output^2",
        "chen2026 Prop. F.8, made sharp",
    ),
    "log_volume": Quantity(
        "log volumetric ratio, mean of the sum of ln sigma_k(J)", "ln", "chen2026 Eq. 7"
    ),
    "log_volume_per_sample": Quantity("sum of ln sigma_k(J)", "ln", "chen2026 Def. 3.1", SAMPLE),
    "log_volume_of_three": Quantity(
        "log_volume of the three largest singular values", "ln", "chen2026, the authors' code"
    ),
    "log_mean_volume": Quantity("ln of the mean volumetric ratio", "ln", "chen2026 Def. 3.3"),
    "network_log_volume": Quantity(
        "ln of the sum over the layers of the mean volumetric ratio of x^l -> f",
        "ln",
        "chen2026 Def. 3.5",
    ),
    "local_dimension": Quantity(
        "local dimensionality, mean participation ratio of J J^T", "1", "chen2026 Def. 3.11"
    ),
    "local_dimension_per_sample": Quantity(
        "participation ratio of J J^T", "1", "chen2026 Eq. 15", SAMPLE
    ),
    "bound_a": Quantity("A, mean ||J^1||_2, = MLS", "output/input", "chen2026 Eq. 59"),
    "bound_b": Quantity(
        "B = ||W_1||_2 mean(||df/dW_1||_F / ||x||)", "output/input", "chen2026 Eq. 59"
    ),
    "bound_c": Quantity(
        "C = ||W_1||_2 sqrt(mean ||x||^-2) sqrt(S(W_1))", "output/input", "chen2026 Eq. 59"
    ),
    "bound_d": Quantity(
        "D = ||W_1||_2 sqrt(mean ||x||^-2) sqrt(S), the MLS bound",
        "output/input",
        "chen2026 Prop. 3.8",
    ),
    "nmls_bound": Quantity(
        "NMLS bound, sqrt(mean sum ||W_l||_2^2/||x^l||^2) sqrt(S)", "mixed", "chen2026 Prop. 3.10"
    ),
    "nmls_bound_layerwise": Quantity(
        "sum over the layers of C_l, a tighter NMLS bound",
        "mixed",
        "chen2026 Prop. 3.10, tightened",
    ),
    "nmls_bound_with_bias": Quantity(
        "NMLS bound with (x, 1) for the x of layers that have a bias, and then always finite",
        "mixed",
        "chen2026 Prop. 3.10, tightened",
    ),
    "layer_bound": Quantity(
        "C_l = ||W_l||_2 sqrt(mean ||x^l||^-2) sqrt(S(W_l))", "mixed", "chen2026 Eq. 59", LAYER
    ),
    "bound_by_norm": Quantity(
        "the bounds with each norm of a kernel: of its matrix, of the convolution as an operator, "
        "sqrt(positions) x Frobenius (the authors' code)",
        "mixed",
        "chen2026 Eq. 59, Prop. 3.10",
        ("norm", "bound"),
    ),
    "violations": Quantity(
        "samples with ||J^l||_2 ||x^l|| > ||W_l|| ||df/dW_l||_F; none where weights are not shared",
        "1",
        "chen2026 Eq. 5",
        ("norm", "layer"),
    ),
    "corrected_bound": Quantity(
        "mean ||T_l||_2 ||df/dW_l||_F / sigma_min(U) >= mean ||J^l||_F, T_l the operator, U the "
        "patches; NaN where they are dependent",
        "output/layer input",
        "holds where weights are shared",
        LAYER,
    ),
    "log_volume_bound": Quantity(
        "bound of log_mean_volume: ln of sqrt(sum (||W_1||_2/||x||)^2N) (n S/N)^(N/2) / n",
        "ln",
        "chen2026 Prop. 3.4",
    ),
    "network_log_volume_bound": Quantity(
        "bound of network_log_volume: the same summed over the layers", "ln", "chen2026 Prop. 3.6"
    ),
    "matrix_normalized_sharpness": Quantity(
        "sum over the layers of ||W_l||_2 sqrt(S(W_l))", "output", "chen2026 Def. F.1"
    ),
    "relative_flatness": Quantity(
        "relative flatness kappa_Tr of a layer; large means sharp; NaN where weights are shared",
        "output^2, or loss",
        "petzka2021 Def. 3",
        LAYER,
    ),
    "weight_norm": Quantity("||W_l||_2", "1", "chen2026 Eq. 59", LAYER),
    "reciprocal_input_norm": Quantity(
        "root mean square of 1/||x^l||", "1/layer input", "chen2026 Eq. 11", LAYER
    ),
    "stability_trick_ratio": Quantity(
        "||df/dW_l||_F / (||Gamma^l||_F ||x^l||), 1 where weights are not shared",
        "1",
        "chen2026 Eq. 4",
        BOTH,
    ),
    "linear_stability_ratio": Quantity(
        "||J^l||_2 ||x^l|| / (||W_l||_2 ||df/dW_l||_F), <= 1 where weights are not shared",
        "1",
        "chen2026 Eq. 5",
        BOTH,
    ),
    "shared": Quantity("whether the layer's weights see several positions", "1", "", LAYER),
    "finite": Quantity(
        "whether weights, outputs and derivatives are finite; if not, nothing else is a number",
        "1",
        "",
    ),
    "samples_measured": Quantity("samples in the means", "1", ""),
    "samples_rank_deficient": Quantity(
        "samples left out of log_volume: J has a singular value of zero", "1", ""
    ),
    "samples_zero_jacobian": Quantity("samples left out of local_dimension: J = 0", "1", ""),
    "samples_zero_input": Quantity(
        "samples whose input to the layer is zero, which makes the bounds infinite", "1", "", LAYER
    ),
    "layers_left_out": Quantity("linear and convolution layers left out; see the notes", "1", ""),
}
"""Relative flatness is exact for the last layer, and for every layer where the activations are
piecewise linear; elsewhere it is its Gauss-Newton part, as sharpness is of the Hessian's trace."""


def measure(model: nn.Module, samples: Samples, settings: Settings) -> Measured:
    """All quantities on one sample set."""
    options: Options = settings.options
    authors, costly = options.conventions == "chen-code", options.costly
    found = derivatives(
        model,
        samples.inputs,
        adaptive="elementwise-adaptive-trace" in costly,
        total=authors,
        corrected="corrected-bound" in costly,
        batch_size=settings.batch_size,
        progress=settings.progress,
    )
    largest = 3 if authors else options.singular_values
    loss = settings.loss
    if authors:
        loss = mean_mse.Loss()
    elif options.relative_flatness_loss:
        loss = loss_of({"loss": options.relative_flatness_loss})
    with torch.no_grad():
        values = _quantities(found, loss, largest, authors, costly)
        parts = (found.outputs, found.sharpness, found.gram, *(la.gram for la in found.layers))
        finite = found.findings.finite and all(bool(part.isfinite().all()) for part in parts)
    values["finite"] = torch.tensor(float(finite), dtype=torch.float64)
    if not finite:
        for name in values.keys() - {"finite", "samples_measured", "shared", "layers_left_out"}:
            values[name] = torch.full_like(values[name], torch.nan)
    return Measured(
        values={name: value.cpu().numpy() for name, value in values.items()},
        coordinates={
            "layer": [layer.name for layer in found.layers],
            "norm": list(NORMS),
            "bound": list(BOUNDS),
        },
        notes={"singular_values": largest, **_notes(found, options.conventions)},
    )


def _quantities(
    found: Derivatives, loss: Loss, largest: str | int, authors: bool, costly: Sequence[str]
) -> dict[str, Tensor]:
    layers, outputs = found.layers, found.outputs.shape[1]
    samples = len(found.outputs)

    def each(name: str) -> Tensor:
        """(samples, layers)"""
        return torch.stack([getattr(layer, name).double() for layer in layers], dim=1)

    x2, gamma2, weight2, bias2 = map(each, ("x2", "gamma2", "weight2", "bias2"))
    singular = torch.stack([layer.singular for layer in layers], dim=1)  # (samples, layers, N)
    shared = torch.tensor([layer.shared for layer in layers], device=x2.device)
    eps = torch.finfo(found.outputs.dtype).eps
    norms = _norms(found, costly, x2.device)
    norm = norms["kernel"]
    if authors and any(isinstance(layer.module, CONVOLUTIONS) for layer in layers):
        norm = norms["frobenius"]
    per_sample = found.sharpness.double()
    sharpness, weights = per_sample.mean(), weight2.mean(0)
    top = singular[..., 0]
    reciprocal = x2.reciprocal().mean(0).sqrt()
    has_bias = torch.tensor([layer.module.bias is not None for layer in layers]).to(x2)
    norms_by_x2 = norm.square() / (x2 + (AUTHORS_EPSILON if authors else 0.0))
    bounds = {
        kind: _bounds(value, x2, gamma2, weight2, sharpness, shared)
        for kind, value in norms.items()
    }
    own = _bounds(norm, x2, gamma2, weight2, sharpness, shared)
    volume, full = log_volumes(found.singular, largest, eps)
    of_three, full_of_three = log_volumes(found.singular, 3, eps)
    dimension = participation(found.singular)
    whole = log_volumes(found.singular, "all", eps)[0]
    each_volume = torch.stack([log_volumes(s, "all", eps)[0] for s in singular.unbind(1)])
    frobenius = torch.linalg.vector_norm(found.singular, dim=1)
    normalized = found.along2.double() / found.findings.input_numbers
    logs = outputs * (2 * norm.log() - x2.log())  # of (||W_l|| / ||x^l||)^2N
    scale = outputs / 2 * (samples * sharpness / outputs).log() - math.log(samples)
    tolerance = 1 + (1e-6 if found.outputs.dtype == torch.float64 else 1e-4)
    slope = top * x2.sqrt()
    values = {
        "sharpness": sharpness,
        "root_sharpness": sharpness.sqrt(),
        "sharpness_per_sample": per_sample,
        "sharpness_per_layer": weights,
        "bias_sharpness_per_layer": bias2.mean(0),
        "jacobian_frobenius": frobenius,
        "g": frobenius.square().mean(),
        "mls": found.singular[:, 0].mean(),
        "mls_per_sample": found.singular[:, 0],
        "sensitivity": top,
        "mls_per_layer": top.mean(0),
        "nmls": top.mean(0).sum(),
        "weighted_mls": (top.mean(0) / reciprocal).sum(),
        "normalized_mls": (
            normalized if authors else found.x2.double() * found.singular[:, 0].square()
        ).mean(),
        "input_invariant_mls": found.scaled2.mean(),
        "network_input_invariant_mls": sum(
            layer.scaled2.mean() / len(layer.weight) for layer in layers
        ),
        "log_volume": volume[full].mean(),
        "log_volume_per_sample": volume,
        "log_volume_of_three": of_three[full_of_three].mean(),
        "log_mean_volume": _log_mean(whole),
        "network_log_volume": torch.logsumexp(_log_mean(each_volume), 0),
        "local_dimension": dimension[~dimension.isnan()].mean(),
        "local_dimension_per_sample": dimension,
        "bound_a": top[:, 0].mean(),
        "bound_b": own["b"],
        "bound_c": own["layers"][0],
        "bound_d": own["d"],
        "nmls_bound": _times(norms_by_x2.sum(1).mean().sqrt(), sharpness.sqrt()),
        "nmls_bound_layerwise": own["layers"].sum(),
        "nmls_bound_with_bias": _times(
            (norm.square() / (x2 + has_bias)).sum(1).mean().sqrt(), sharpness.sqrt()
        ),
        "layer_bound": own["layers"],
        "bound_by_norm": torch.stack(
            [
                torch.stack([b["b"], b["layers"][0], b["d"], b["nmls"], b["layers"].sum()])
                for b in bounds.values()
            ]
        ),
        "violations": torch.stack(
            [
                (slope > value * weight2.sqrt() * tolerance).double().sum(0)
                + torch.where(value.isnan(), torch.nan, 0.0)
                for value in norms.values()
            ]
        ),
        "log_volume_bound": _plus(torch.logsumexp(logs[:, 0], 0) / 2, scale),
        "network_log_volume_bound": _plus(torch.logsumexp(logs.flatten(), 0) / 2, scale),
        "matrix_normalized_sharpness": (norm * weights.sqrt()).sum(),
        "relative_flatness": _relative_flatness(found, x2, loss).masked_fill(shared, torch.nan),
        "weight_norm": norm,
        "reciprocal_input_norm": reciprocal,
        "stability_trick_ratio": (weight2 / (gamma2 * x2)).sqrt(),
        "linear_stability_ratio": slope / (norm * weight2.sqrt()),
        "shared": shared.double(),
        "samples_measured": torch.tensor(float(samples)),
        "samples_rank_deficient": (~full).sum(),
        "samples_zero_jacobian": (found.singular[:, 0] == 0).sum(),
        "samples_zero_input": (x2 == 0).sum(0),
        "layers_left_out": torch.tensor(float(len(found.findings.excluded))),
    }
    if found.adaptive is not None:
        values["elementwise_adaptive_trace"] = found.adaptive.double().mean()
    if "corrected-bound" in costly:
        operator = torch.tensor(
            [operator_norm(layer.module, layer.input_shape) for layer in layers],
            dtype=torch.float64,
            device=x2.device,
        )
        ratio = (weight2 / each("smallest2")).sqrt().mean(0)
        values["corrected_bound"] = (operator * ratio).masked_fill(
            (each("smallest2") == 0).any(0), torch.nan
        )
    return {name: value.double() for name, value in values.items()}


def _norms(found: Derivatives, costly: Sequence[str], device: torch.device) -> dict[str, Tensor]:
    """By kind, (layers,) each; NaN for the operator norm of convolutions if nobody asked."""
    kernel = [spectral_norm(layer.weight) for layer in found.layers]
    wanted = "operator-norm" in costly
    operator = [
        norm
        if not isinstance(layer.module, CONVOLUTIONS)
        else (operator_norm(layer.module, layer.input_shape) if wanted else float("nan"))
        for layer, norm in zip(found.layers, kernel, strict=True)
    ]
    authors = [authors_norm(layer.module, layer.output_positions) for layer in found.layers]
    lists = dict(zip(NORMS, (kernel, operator, authors), strict=True))
    return {
        kind: torch.tensor(values, dtype=torch.float64, device=device)
        for kind, values in lists.items()
    }


def _bounds(
    norm: Tensor, x2: Tensor, gamma2: Tensor, weight2: Tensor, sharpness: Tensor, shared: Tensor
) -> dict[str, Tensor]:
    """B, C of every layer, D and the NMLS bound with one definition of the norm."""
    reciprocal = x2.reciprocal().mean(0).sqrt()
    by_layer = norm * reciprocal * weight2.mean(0).sqrt()
    by_layer = by_layer.masked_fill((x2 == 0).any(0), torch.inf)  # not 0 x inf
    # ||df/dW|| / ||x|| = ||Gamma|| where weights are not shared, and there it is finite at x = 0
    ratio = (weight2[:, 0] / x2[:, 0]).masked_fill(x2[:, 0] == 0, torch.inf)
    slope = (ratio if shared[0] else gamma2[:, 0]).sqrt()
    return {
        "b": norm[0] * slope.mean(),
        "layers": by_layer,
        "d": _times(norm[0] * reciprocal[0], sharpness.sqrt()),
        "nmls": _times((norm.square() / x2).sum(1).mean().sqrt(), sharpness.sqrt()),
    }


def _times(factor: Tensor, root: Tensor) -> Tensor:
    """Infinite where a sample has an input of zero, also if sharpness is zero."""
    return torch.where(factor == torch.inf, torch.inf, factor * root)


def _plus(log_factor: Tensor, log_root: Tensor) -> Tensor:
    """The same of logarithms."""
    return torch.where(log_factor == torch.inf, torch.inf, log_factor + log_root)


def log_volumes(singular: Tensor, largest: str | int, eps: float) -> tuple[Tensor, Tensor]:
    """Sum of ln sigma_k of each sample, and whether its Jacobian has full rank.

    singular: (samples, N), descending.  largest: how many, or "all" N. Without full rank
    (sigma_k <= 10 eps sigma_1) the volume is zero and its logarithm minus infinity.
    """
    chosen = singular if largest == "all" else singular[:, : int(largest)]
    full = ~(chosen[:, -1] <= 10 * eps * singular[:, 0])  # or NaN
    return torch.where(full, chosen.log().sum(1), -torch.inf), full


def participation(singular: Tensor) -> Tensor:
    """(sum sigma^2)^2 / sum sigma^4 of each sample; NaN where J = 0."""
    share = (singular / singular[:, :1]).square()
    return share.sum(1).square() / share.square().sum(1)


def _log_mean(logs: Tensor) -> Tensor:
    """ln of the mean over the last dimension of exp(logs)."""
    return torch.logsumexp(logs, -1) - math.log(logs.shape[-1])


def _relative_flatness(found: Derivatives, x2: Tensor, loss: Loss) -> Tensor:
    """||x^l||^2 Tr(J^l^T A J^l) of each layer, A the Hessian of a sample's loss in its outputs."""
    grams = torch.stack([layer.gram for layer in found.layers], dim=1)
    outputs = found.outputs.double()[:, None]
    unit = torch.eye(outputs.shape[-1]).to(outputs).expand(len(outputs), -1, -1)
    traces = torch.einsum("nij,nlij->nl", loss.hessian_product(outputs, unit), grams)
    return loss.of_batch((x2 * traces).T)


def _notes(found: Derivatives, conventions: str) -> dict[str, Any]:
    """What a reader must know: what was left out and why, and what no rule covered."""
    findings = found.findings
    reasons = [f"{name}: {reason}" for name, reason in findings.excluded.items()]
    return {
        "conventions": conventions,
        "layers_left_out": reasons,
        "parameters_by_generic_gradient": findings.generic,
        "parameters_unused": findings.unused,
        "parameters_frozen": findings.frozen,
    }
