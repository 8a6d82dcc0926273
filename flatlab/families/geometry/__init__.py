"""Sharpness, compression and the bounds between them: chen2026 and chen2024, relative flatness.

Notation: f maps inputs x (M numbers) to N outputs; W_l, l = 1 ... L, are the weights of the linear
and convolution layers in the order of their first use, the last included; x^l is the input of
layer l (x^1 = x) and z^l its output; J^l = df/dx^l (N x M_l) along the path through layer l alone,
J = df/dx; Gamma^l = df/dz^l. ||.||_2 is the largest singular value, for a kernel of its matrix
(output channels, the rest); ||.||_F the Frobenius norm; means are over the samples.

The bounds rest on ||df/dW_l||_F = ||Gamma^l||_F ||x^l||, which holds for linear layers that see one
position of a sample, but not for weights that are shared between positions: in convolutions,
sequences, and layers used twice. For these the bounds are proxies; `linear_stability_ratio` and
`violations` say how far they are from holding. Where the first of these layers does not alone read
the inputs, as behind a recurrent or a normalizing module, it bounds no map from the inputs: A to D
and the bound of the volume are left out.
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from msgspec import Meta
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.core.schema import Key, Strict, closest, means
from flatlab.derivatives.checks.isolation import is_finite
from flatlab.derivatives.jacobians.norms import Norms
from flatlab.derivatives.per_sample.engine import derivatives
from flatlab.derivatives.per_sample.memory import accuracy_of, samples_at_a_time
from flatlab.derivatives.per_sample.probe import Findings, run
from flatlab.derivatives.per_sample.stack import State, stacked
from flatlab.families.geometry.estimates import ESTIMATED, estimated
from flatlab.families.geometry.values import BOUNDS, NORMS, Values, wanted_of
from flatlab.losses._base import Loss
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, Settings, chen2026, error_of

__all__ = ["BOUNDS", "ERRORS", "NORMS", "QUANTITIES", "Options", "measure"]


SAMPLE, LAYER, BOTH = ("sample",), ("layer",), ("sample", "layer")
S_UNITS = "output^2/parameter^2"
QUANTITIES = {
    "sharpness": chen2026(
        "sharpness S, mean ||df/dtheta||_F^2", S_UNITS, "Eq. 3", label="sharpness $S$"
    ),
    "root_sharpness": chen2026(
        "sqrt(S)", "output/parameter", "Eq. 3", label=r"sharpness $\sqrt{S}$"
    ),
    "sharpness_per_sample": chen2026("||df/dtheta||_F^2", S_UNITS, "Eq. 3", SAMPLE),
    "sharpness_per_layer": chen2026(
        "sharpness of a layer's weights S(W_l), mean ||df/dW_l||_F^2", S_UNITS, "Eq. 43", LAYER
    ),
    "bias_sharpness_per_layer": Quantity(
        "sharpness of a layer's biases S(b_l), mean ||df/db_l||_F^2",
        S_UNITS,
        "part of chen2026 Eq. 3",
        LAYER,
    ),
    "elementwise_adaptive_trace": chen2026(
        "mean sum theta_j^2 ||df/dtheta_j||^2", "output^2", "Eq. 52", label="adaptive trace"
    ),
    "jacobian_frobenius": Quantity("||J||_F", "output/input", "chen2024 Eq. 6", SAMPLE),
    "g": Quantity("G, mean ||J||_F^2", "output^2/input^2", "chen2024 Eq. 6", label="G"),
    "mls": chen2026(
        "maximum local sensitivity MLS, mean ||J||_2", "output/input", "Def. 3.7", label="MLS"
    ),
    "mls_per_sample": chen2026("||J||_2", "output/input", "Def. 3.7", SAMPLE),
    "sensitivity": chen2026(
        "||J^l||_2, through layer l alone", "output/layer input", "Def. 3.9", BOTH
    ),
    "mls_per_layer": chen2026(
        "maximum local sensitivity to a layer's input, mean ||J^l||_2",
        "output/layer input",
        "Def. 3.9",
        LAYER,
    ),
    "nmls": chen2026(
        "network MLS, sum over the layers of mean ||J^l||_2", "mixed", "Def. 3.9", label="NMLS"
    ),
    "weighted_mls": chen2026(
        "sum over the layers of mean ||J^l||_2 / sqrt(mean ||x^l||^-2)", "output", "Prop. F.2"
    ),
    "normalized_mls": chen2026(
        "normalized MLS, mean ||x||^2 ||J||_2^2", "output^2", "Def. G.1", label="normalized MLS"
    ),
    "input_invariant_mls": chen2026(
        "mean ||J diag(x)||_F^2", "output^2", "Def. F.7, its index corrected"
    ),
    "network_input_invariant_mls": chen2026(
        "sum over the layers of mean ||J^l diag(x^l)||_F^2 / d_l, d_l rows of W_l",
        "output^2",
        "Prop. F.8, made sharp",
    ),
    "log_volume": chen2026("log volumetric ratio, mean of the sum of ln sigma_k(J)", "ln", "Eq. 7"),
    "log_volume_per_sample": chen2026("sum of ln sigma_k(J)", "ln", "Def. 3.1", SAMPLE),
    "log_volume_of_three": Quantity(
        "log_volume of the three largest singular values", "ln", "chen2026, the authors' code"
    ),
    "log_mean_volume": chen2026("ln of the mean volumetric ratio", "ln", "Def. 3.3"),
    "network_log_volume": chen2026(
        "ln of the sum over the layers of the mean volumetric ratio of x^l -> f", "ln", "Def. 3.5"
    ),
    "local_dimension": chen2026(
        "local dimensionality, mean participation ratio of J J^T", "1", "Def. 3.11"
    ),
    "local_dimension_per_sample": chen2026("participation ratio of J J^T", "1", "Eq. 15", SAMPLE),
    "bound_a": chen2026("A, mean ||J^1||_2, = MLS", "output/input", "Eq. 59", label="bound A"),
    "bound_b": chen2026(
        "B = ||W_1||_2 mean(||df/dW_1||_F / ||x||)", "output/input", "Eq. 59", label="bound B"
    ),
    "bound_c": chen2026(
        "C = ||W_1||_2 sqrt(mean ||x||^-2) sqrt(S(W_1))", "output/input", "Eq. 59", label="bound C"
    ),
    "bound_d": chen2026(
        "D = ||W_1||_2 sqrt(mean ||x||^-2) sqrt(S), the MLS bound",
        "output/input",
        "Prop. 3.8",
        label="MLS bound",
    ),
    "nmls_bound": chen2026(
        "NMLS bound, sqrt(mean sum ||W_l||_2^2/||x^l||^2) sqrt(S)",
        "mixed",
        "Prop. 3.10",
        label="NMLS bound",
    ),
    "nmls_bound_layerwise": chen2026(
        "sum over the layers of C_l, a tighter NMLS bound", "mixed", "Prop. 3.10, tightened"
    ),
    "nmls_bound_with_bias": chen2026(
        "NMLS bound with (x, 1) for the x of layers that have a bias, and then always finite",
        "mixed",
        "Prop. 3.10, tightened",
    ),
    "layer_bound": chen2026(
        "C_l = ||W_l||_2 sqrt(mean ||x^l||^-2) sqrt(S(W_l))", "mixed", "Eq. 59", LAYER
    ),
    "bound_by_norm": chen2026(
        "the bounds with each norm of a kernel: of its matrix, of the convolution as an operator, "
        "sqrt(positions) x Frobenius (the authors' code)",
        "mixed",
        "Eq. 59, Prop. 3.10",
        ("norm", "bound"),
    ),
    "violations": chen2026(
        "samples with ||J^l||_2 ||x^l|| > ||W_l|| ||df/dW_l||_F; none where weights are not shared",
        "1",
        "Eq. 5",
        ("norm", "layer"),
    ),
    "corrected_bound": Quantity(
        "mean ||T_l||_2 ||df/dW_l||_F / sigma_min(U) >= mean ||J^l||_F, T_l the operator, U the "
        "patches; NaN where they are dependent",
        "output/layer input",
        "holds where weights are shared",
        LAYER,
    ),
    "log_volume_bound": chen2026(
        "bound of log_mean_volume: ln of sqrt(sum (||W_1||_2/||x||)^2N) (n S/N)^(N/2) / n",
        "ln",
        "Prop. 3.4",
    ),
    "network_log_volume_bound": chen2026(
        "bound of network_log_volume: the same summed over the layers", "ln", "Prop. 3.6"
    ),
    "matrix_normalized_sharpness": chen2026(
        "sum over the layers of ||W_l||_2 sqrt(S(W_l))",
        "output",
        "Def. F.1",
        label="matrix-normalized $S$",
    ),
    "relative_flatness": Quantity(
        "relative flatness kappa_Tr of a layer; large means sharp; NaN where weights are shared",
        "output^2, or loss",
        "petzka2021 Def. 3",
        LAYER,
        label=r"relative flatness $\kappa$",
    ),
    "weight_norm": chen2026("||W_l||_2", "1", "Eq. 59", LAYER),
    "reciprocal_input_norm": chen2026(
        "root mean square of 1/||x^l||", "1/layer input", "Eq. 11", LAYER
    ),
    "stability_trick_ratio": chen2026(
        "||df/dW_l||_F / (||Gamma^l||_F ||x^l||), 1 where weights are not shared",
        "1",
        "Eq. 4",
        BOTH,
    ),
    "linear_stability_ratio": chen2026(
        "||J^l||_2 ||x^l|| / (||W_l||_2 ||df/dW_l||_F), <= 1 where weights are not shared",
        "1",
        "Eq. 5",
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

ERRORS = {f"{name}_error": error_of(name, QUANTITIES[name]) for name in ESTIMATED}
PER_TOKEN = Quantity(
    "sharpness S of a sequence, over the number of its tokens", S_UNITS, "", label="$S$ per token"
)
ERRORS |= {
    "sharpness_per_token": PER_TOKEN,
    "sharpness_per_token_error": error_of("sharpness_per_token", PER_TOKEN),
}
ERRORS["norm_residual"] = Quantity(
    "largest relative residual |J v - sigma u| / sigma of the iterations for singular values",
    "1",
    "",
)
"""What is beside the quantities where they are estimated, or of sequences."""

OF_ALL_OUTPUTS = ("network_log_volume", "log_volume_bound", "network_log_volume_bound")
"""Quantities that are of N outputs of every sample, N the same for all."""
OF_INPUTS_OF_LAYERS = (
    *("relative_flatness", "weighted_mls", "bound_b", "bound_c", "bound_d", "bound_by_norm"),
    *("nmls_bound", "nmls_bound_layerwise", "nmls_bound_with_bias", "layer_bound"),
    *("corrected_bound", "violations", "reciprocal_input_norm", "stability_trick_ratio"),
    *("linear_stability_ratio", "samples_zero_input"),
)
"""Quantities in which the size of the inputs of layers is, at all positions of a sample."""


OF_THE_FIRST_LAYER = (
    "bound_a",
    "bound_b",
    "bound_c",
    "bound_d",
    "bound_by_norm",
    "log_volume_bound",
)
"""Bounds of the map from the inputs, which hold where J = J^1."""
NOT_DIRECT = (
    "bounds of the map from the inputs: the first layer does not alone read them, or not unchanged"
)

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


def measure(model: nn.Module, samples: SampleSet, settings: Settings) -> Measured:
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
    findings = settings.findings(model, samples.inputs)
    wanted = accuracy_of(options.accuracy, findings, samples.inputs, settings.budget)
    values: dict[str, Any]
    notes: dict[str, Any] = {}
    if wanted is None:
        (values,), findings, finite = _exact(model, samples, settings, loss, [settings.norms])
    else:
        values, findings, finite, notes = estimated(
            model, samples, settings, findings, loss, wanted
        )
    return _measured(values, findings, finite, samples, options, loss, notes)


def measure_several(
    model: nn.Module,
    states: Sequence[State],
    samples: SampleSet,
    settings: Settings,
    norms: Sequence[Norms],
) -> list[Measured]:
    """What `measure` returns for each of several networks, from one pass of them all (`stacked`).

    states: the state dictionary of each network, of finite numbers.
    norms: those of its weights that are known.

    Empty where they cannot be measured so: if two do not fit at a time, if one has outputs that are
    not finite, if no rule covers some weights, or if none was measured before.
    """
    findings, options = settings.found.get("checked"), settings.options
    if findings is None or findings.generic or samples.kept is not None:
        return []
    asked = findings, samples.inputs, settings.budget, len(states) * len(samples)
    size = (settings.batch_size or samples_at_a_time(*asked)) // len(samples)
    if size < 2 or options.accuracy != "exact" or not _stackable(model, states, samples, findings):
        return []
    loss = settings.loss_named(options.relative_flatness_loss)
    results: list[Measured] = []
    for start in range(0, len(states), size):
        some = states[start : start + size]
        with stacked(findings.modules, some):
            known = norms[start : start + size]
            each, _, finite = _exact(model, samples, settings, loss, known)
        if not finite:
            return []
        results += [_measured(v, findings, True, samples, options, loss, {}) for v in each]
    return results


def _stackable(
    model: nn.Module, states: Sequence[State], samples: SampleSet, findings: Findings
) -> bool:
    """Whether two networks give together what each gives alone: no weights are used elsewhere."""
    two, alone = states[:2], []
    with torch.no_grad():
        for state in two:
            model.load_state_dict(state)
            alone.append(run(model, samples.inputs))
        with stacked(findings.modules, two):
            together = run(model, torch.cat([samples.inputs] * len(two)))
    return torch.equal(together, torch.cat(alone))


def _measured(
    values: dict[str, Any],
    findings: Findings,
    finite: bool,
    samples: SampleSet,
    options: Options,
    loss: Loss,
    notes: dict[str, Any],
) -> Measured:
    """The values of one network that have a meaning and are asked for, with what was found."""
    if findings.embedding and loss.classes and "sharpness" in values:
        values |= _per_token(values, samples, findings.outputs // loss.classes)
    left_out = _without_positions(samples)
    if not findings.direct:
        left_out |= dict.fromkeys(OF_THE_FIRST_LAYER, NOT_DIRECT)
    values = {name: value for name, value in values.items() if name not in left_out}
    shared = values.get("shared", torch.zeros(len(findings.layers)))
    if several := [name for name, is_so in zip(findings.layers, shared, strict=True) if is_so]:
        told = f"{', '.join(several)} see several positions"
        notes["bounds"] = f"proxies, which may be exceeded: {told}"
    if options.quantities != "all":
        values = _chosen(values, options.quantities)
    values["finite"] = torch.tensor(float(finite), dtype=torch.float64)
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
    of_layers = {"layer": findings.layers, "norm": list(NORMS), "bound": list(BOUNDS)}
    result = Measured(values, of_layers if findings.layers else {}, notes, finite)
    return result if finite else result.without_numbers()


def _without_positions(samples: SampleSet) -> dict[str, str]:
    """Quantities that positions which do not count leave without a meaning, with the reason."""
    left_out: dict[str, str] = {}
    if samples.kept is not None:
        left_out |= dict.fromkeys(OF_ALL_OUTPUTS, "samples have different numbers of positions")
    if samples.padded:
        left_out |= dict.fromkeys(OF_INPUTS_OF_LAYERS, "inputs of layers are those of padding, too")
    return left_out


def _per_token(values: dict[str, Tensor], samples: SampleSet, tokens: float) -> dict[str, Tensor]:
    """Sharpness over the mean number of tokens that count, with its error if it has one."""
    if samples.kept is not None:
        tokens = float(samples.kept.sum(1).double().mean())
    pairs = {"sharpness": "sharpness_per_token", "sharpness_error": "sharpness_per_token_error"}
    return {new: values[old] / tokens for old, new in pairs.items() if old in values}


def _chosen(values: dict[str, Tensor], quantities: Sequence[str]) -> dict[str, Tensor]:
    """The quantities that are asked for, with what belongs to them, and counts."""
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
    model: nn.Module, samples: SampleSet, settings: Settings, loss: Loss, norms: Sequence[Norms]
) -> tuple[list[dict[str, np.ndarray]], Findings, bool]:
    """The values of each network, what rules cover, and whether all is finite.

    norms: those known of each network; several are `stacked`.
    """
    options: Options = settings.options
    inputs, several = samples.inputs, len(norms)
    if several > 1:
        inputs = inputs.repeat(several, *[1] * (inputs.ndim - 1))
    exact = derivatives(
        model,
        inputs,
        adaptive="elementwise-adaptive-trace" in options.costly,
        corrected="corrected-bound" in options.costly,
        loss=loss,
        batch_size=len(inputs) if several > 1 else settings.batch_size,
        wanted=wanted_of(options.quantities),
        budget=settings.budget,
        progress=settings.progress,
        findings=settings.findings(model, samples.inputs, checked=True),
    )
    settings.keep(exact.findings)
    with torch.no_grad():
        kept = samples.kept
        ranks = None if kept is None else kept.sum(1) * (exact.outputs.shape[1] // kept.shape[1])
        values = Values(exact, options, loss, norms, ranks).by_name()
        arrays = {name: value.cpu().numpy() for name, value in values.items()}
        singular = (layer.singular for layer in exact.layers)
        parts = exact.outputs, exact.sharpness, exact.singular, *singular
        finite = exact.findings.finite and is_finite(*parts)
    each = [{name: array[k] for name, array in arrays.items()} for k in range(several)]
    return each, exact.findings, finite
