"""Relative flatness of the linear layers of a network, for any loss, and traces of its Hessian.

Of a layer z = w phi + b that sees one vector phi of each sample, with the Hessian of the loss in
the rows s and t of w, H_{s,t} = mean (H^z)_{s,t} phi phi^T, where H^z = d^2 loss / dz^2:

    kappa_Tr = sum_{s,t} <w_s, w_t> Tr H_{s,t} = mean |phi|^2 Tr(w^T H^z w)    petzka2021 Def. 3
    kappa    = sum_s |w_s|^2 lambda_max(H_{s,s})                               Def. 13

They do not change when layers or neurons are rescaled, except the neurons of phi. Therefore the
features phi are also divided by their standard deviation over the samples, and the columns of w
multiplied by it: that changes nothing in the function, and removes this exception (Theorem 4; with
the variance that it prints, it does not). A feature that is constant on the samples has no
deviation: its contribution moves into the bias, and its column is left out. Large means sharp.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from msgspec import Meta
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.core.progress import ProgressBar
from flatlab.core.schema import Key, Strict, closest, means
from flatlab.derivatives.jacobians.feature_maps import inputs_of_layers
from flatlab.derivatives.per_sample.memory import accuracy_of
from flatlab.derivatives.per_sample.probe import Findings
from flatlab.derivatives.second_order.layer_curvature import (
    ineligible_layers,
    largest_of_blocks,
    layer_curvatures,
)
from flatlab.derivatives.second_order.traces import hessian_traces
from flatlab.losses._base import Loss
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, Settings

LAYER = ("layer",)
FLATNESS, TRACE = "output^2, or loss", "loss/parameter^2"
NORMALIZED = "of a layer whose features have standard deviation 1; large means sharp"
QUANTITIES = {
    "features": Quantity("number of inputs of the layer", dims=LAYER),
    "features_constant": Quantity("number of inputs that are constant on the samples", dims=LAYER),
    "kappa_trace": Quantity(
        "relative flatness kappa_Tr = sum <w_s, w_t> Tr H_st of a layer; large means sharp",
        FLATNESS,
        "petzka2021 Def. 3",
        LAYER,
        label=r"relative flatness $\kappa_{\mathrm{Tr}}$",
    ),
    "normalized_kappa_trace": Quantity(
        f"kappa_Tr {NORMALIZED}",
        FLATNESS,
        "petzka2021 Thm. 4, corrected",
        LAYER,
        label=r"$\kappa_{\mathrm{Tr}}$ normalized",
    ),
    "kappa_max": Quantity(
        "maximal relative flatness, sum |w_s|^2 lambda_max(H_ss) of a layer; large means sharp",
        FLATNESS,
        "petzka2021 Def. 13",
        LAYER,
    ),
    "normalized_kappa_max": Quantity(
        f"maximal relative flatness {NORMALIZED}",
        FLATNESS,
        "petzka2021 Def. 13",
        LAYER,
        label=r"$\kappa$ normalized",
    ),
    "hessian_trace": Quantity(
        "trace of the Hessian in all parameters", TRACE, "petzka2021 Sec. 6", label="trace of $H$"
    ),
    "hessian_trace_error": Quantity("standard error of hessian_trace; 0 where it is exact", TRACE),
    "hessian_trace_per_layer": Quantity(
        "trace of the Hessian in the weights of a layer",
        TRACE,
        "petzka2021 Sec. 6",
        LAYER,
        label="trace of the Hessian",
    ),
    "hessian_trace_per_layer_error": Quantity(
        "standard error of hessian_trace_per_layer; 0 where it is exact", TRACE, dims=LAYER
    ),
}


class Options(Strict, frozen=True):
    FOLDERS: ClassVar[dict[str, str]] = {"relative_flatness_loss": "losses"}

    relative_flatness_loss: Annotated[
        Key | None, means("whose Hessian it uses; null: the loss of training")
    ] = None
    flatness_layers: Annotated[
        Literal["all"] | tuple[str, ...],
        means("names of linear layers; all: those that see one vector per sample"),
    ] = "all"
    flatness: Annotated[
        tuple[Literal["exact", "maximal", "traces"], ...],
        means("exact: kappa_trace; maximal: kappa_max; traces: of H"),
    ] = ("exact",)
    hessian_traces: Annotated[
        Literal["auto", "exact", "random"],
        means("auto: random signs only where the network is curved and has over 1000 parameters"),
    ] = "auto"
    accuracy: Annotated[
        Literal["exact", "auto"] | Annotated[float, Meta(gt=0, lt=1)],
        means(
            "of traces: exact, a relative standard error until which signs are drawn, or auto: "
            "0.02 where a sample does not fit at once"
        ),
    ] = "exact"


CHECKS = ("gradient", "hessian")
TOKENS = "embedded"
CONSTANT = 1e-12
"""A feature counts as constant if its deviation is at most this share of its largest value."""
BATCH = 500
"""Samples at a time for the features."""


def measure(model: nn.Module, samples: SampleSet, settings: Settings) -> Measured:
    """Every layer that `geometry` has; NaN for one that is left out or for which it is undefined.

    Raises `MeasureError` for a layer asked for by name that is not linear, is used several times
    or sees several positions, and where targets are needed but missing.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(2, 2, bias=False).double()
    >>> _ = network.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 2.0]])})
    >>> x, classes = torch.tensor([[3.0, 4.0], [4.0, 0.0]]), torch.tensor([1, 0])
    >>> report = flatlab.measure(network, x, classes, families="flatness")
    >>> report["kappa_trace"].values.tolist()  # mean |x|^2 times |W|_F^2
    [102.5]
    """
    options: Options = settings.options
    loss = settings.loss_named(options.relative_flatness_loss)
    findings = settings.findings(model, samples.inputs)
    ineligible = ineligible_layers(model, samples.inputs, findings)
    chosen = _chosen(options.flatness_layers, findings.layers, ineligible)
    if not chosen and "traces" not in options.flatness:
        why = "is called as a module and sees one vector per sample; flatness=[traces] needs none"
        raise MeasureError(f"relative flatness needs a linear layer that {why}")
    with torch.no_grad():
        features, finite = inputs_of_layers(model, samples.inputs, chosen, BATCH)
    scales = {name: _deviation(of_layer) for name, of_layer in features.items()}
    of_layers: dict[str, Mapping[str, Any]] = {
        "features": {name: of_layer.shape[1] for name, of_layer in features.items()},
        "features_constant": {name: int((scale == 0).sum()) for name, scale in scales.items()},
    }
    if chosen and {"exact", "maximal"} & {*options.flatness}:
        known = samples.given is not None
        targets = samples.targets_for(findings.outputs, loss) if known else None
        of_layers |= _exact(model, samples.inputs, targets, settings, loss, findings, features)
    values: dict[str, Any] = {
        name: [by_layer.get(layer, torch.nan) for layer in findings.layers]
        for name, by_layer in of_layers.items()
    }
    notes: dict[str, Any] = {"flatness_left_out": [f"{k}: {v}" for k, v in ineligible.items()]}
    if "traces" in options.flatness:
        targets = samples.targets_for(findings.outputs, loss)
        wanted = accuracy_of(options.accuracy, findings, samples.inputs, settings.budget)
        given = model, samples.inputs, targets, loss, findings, options.hessian_traces, wanted
        how: dict[str, Any] = {"size": settings.batch_size, "step": settings.difference_step}
        how |= {"budget": settings.budget, "seed": settings.seed, "progress": settings.progress}
        traced = hessian_traces(*given, **how)
        for end, part in zip(("", "_error"), traced.estimates(), strict=True):
            values |= {f"hessian_trace{end}": part[0], f"hessian_trace_per_layer{end}": part[1:]}
        notes |= {"hessian_probes": len(traced.draws), "hessian_traces_by": traced.way}
    return Measured(values, {"layer": findings.layers}, notes, finite)


def _chosen(
    wanted: str | Sequence[str], layers: Sequence[str], ineligible: Mapping[str, str]
) -> list[str]:
    """The layers to be measured.  ineligible: those that cannot be, with the reason."""
    if wanted == "all":
        return [name for name in layers if name not in ineligible]
    for name in wanted:
        if name not in layers:
            raise MeasureError(f"flatness_layers: unknown layer {name!r}; {closest(name, layers)}")
        if name in ineligible:
            raise MeasureError(
                f"flatness_layers: relative flatness of layer {name!r} is not defined, because "
                f"{ineligible[name]}; it is for linear layers that see one vector per sample"
            )
    return [name for name in layers if name in wanted]


def _deviation(features: Tensor) -> Tensor:
    """The standard deviation of each feature; 0 where it is constant up to rounding."""
    deviation = features.std(0, correction=0)
    return deviation.masked_fill(deviation <= CONSTANT * features.abs().amax(0), 0.0)


def _exact(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor | None,
    settings: Settings,
    loss: Loss,
    findings: Findings,
    features: Mapping[str, Tensor],
) -> dict[str, dict[str, float]]:
    """kappa_Tr and kappa of each layer, as it is and normalized, by quantity and layer."""
    wanted = settings.options.flatness
    modules = {name: findings.modules[name] for name in features}
    forms = {name: _forms(modules[name], features[name]) for name in features}
    sums = {name: inputs.new_zeros(2, dtype=torch.float64) for name in features}
    diagonals: dict[str, list[Tensor]] = {name: [] for name in features}
    how: dict[str, Any] = {"size": settings.batch_size, "progress": settings.progress}
    how["twice"] = settings.difference_step is None
    for name, x, hessian in layer_curvatures(
        model, inputs, targets, loss, modules, findings, **how
    ):
        diagonals[name].append(hessian.diagonal(dim1=1, dim2=2).clone())
        for number, (weight, scale) in enumerate(forms[name]):
            squares = (x * scale).square().sum(1)
            curved = (hessian * (weight @ weight.T)).sum((1, 2))
            sums[name][number] += (squares * curved).sum()
    share = loss.share(1, len(inputs))
    curvatures = {name: share * torch.cat(parts) for name, parts in diagonals.items()}
    result: dict[str, dict[str, float]] = {}
    for number, head in enumerate(("", "normalized_")):
        if "exact" in wanted:
            totals = {name: float(share * sums[name][number]) for name in features}
            result[f"{head}kappa_trace"] = totals
        if "maximal" in wanted:
            rows = sum(len(of_layers[number][0]) for of_layers in forms.values())
            with ProgressBar("eigenvalues of rows", rows, settings.progress) as forecast:
                result[f"{head}kappa_max"] = {
                    name: _maximal(*forms[name][number], features[name], curved, forecast.tick)
                    for name, curved in curvatures.items()
                }
    return result


def _forms(layer: Any, features: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The weight (d, m) and what its features are multiplied by, as it is and normalized."""
    weight, deviation = layer.weight.detach().double(), _deviation(features).double()
    inverse = torch.where(deviation > 0, deviation, torch.inf).reciprocal()
    return [(weight, torch.ones_like(deviation)), (weight * deviation, inverse)]


def _maximal(
    weight: Tensor, scale: Tensor, features: Tensor, curvature: Tensor, tick: Callable[[], None]
) -> float:
    """sum_s |w_s|^2 lambda_max(H_ss); NaN where something is not finite."""
    x = features.double() * scale
    if not (x.isfinite().all() and curvature.isfinite().all()):
        return torch.nan
    return float(weight.square().sum(1) @ largest_of_blocks(x, curvature, tick))
