"""`flatlab.measure`: families of quantities of one network on some samples."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import xarray as xr
from torch import Tensor, nn

from flatlab.derivatives.errors import MeasureError, is_device_failure
from flatlab.derivatives.isolation import preserving_state
from flatlab.derivatives.memory import available
from flatlab.losses._base import Loss, loss_of
from flatlab.metrics._quantity import (
    Measured,
    Quantity,
    Samples,
    attributes,
    quantities_of,
    settings_of,
)
from flatlab.plan.options import checked, options_of
from flatlab.plan.registry import check_known, imported, keys_of, measures_samples
from flatlab.plan.schema import PlanError, plain, refuse_unknown
from flatlab.store import as_strings
from flatlab.version import __version__

ALL = "all"


def measure(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor | None = None,
    *,
    families: Sequence[str] = ("geometry",),
    loss: str = "half-mse",
    batch_size: int | None = None,
    dtype: str | torch.dtype | None = None,
    seed: int = 0,
    progress: bool = False,
    initial: nn.Module | Mapping[str, Tensor] | None = None,
    memory: int | None = None,
    **options: Any,
) -> xr.Dataset:
    """Measure a network on some samples.

    model: maps (batch, ...) to (batch, N), each sample on its own: in evaluation mode where it
        has batch norm or dropout. It is left exactly as it was.
    inputs: (n, ...), numbers; for `sharpness` also integers, such as tokens.
    targets: (n,) classes or (n, N) values, for the families that need them.
    families: files of flatlab/metrics, or "all": those that can be had of this network with these
        samples; the attribute `left_out` says why others cannot. A quantity that several of them
        have is that of the first one; "all" takes exact ones before estimates.
    loss: a file of flatlab/losses, for quantities of a loss.
    batch_size: samples at a time; None: as many as fit.
    dtype: of the arithmetic, "float64" or "float32"; None: that of the model. Gram matrices and
        logarithms are in float64 always.
    seed: of families that draw at random.
    progress: show a bar.
    initial: the network before training, or its state dictionary, for distances from it.
    memory: bytes that derivatives may take; None: a quarter of what is free. Whatever does not fit
        is computed in blocks.
    options: those of the families and of the loss, for example costly=["operator-norm"] of
        `geometry`, rho=0.01 of `adaptive`, label_smoothing=0.1 of the loss "cross-entropy". The
        class `Options` in the file of a family or loss lists them, and so does
        `flatlab measure --help`.

    A network of many outputs: accuracy="exact" computes all of them in blocks, accuracy=0.02
    estimates with that relative standard error of random directions, which is written beside each
    value under its name and `_error`, accuracy="auto" does so where a sample does not fit at once.

    Returns a dataset with dimensions `sample` and `layer` (names as in `named_modules`); each
    variable has `long_name`, `units` and `source`. Raises `MeasureError` where nothing exact can
    be had; the message says what to do.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(3, 2, bias=False).double()
    >>> x = torch.tensor([[3.0, 4.0, 0.0]]).double()
    >>> report = flatlab.measure(network, x)
    >>> float(report["sharpness"])  # sum of |x|^2 over the two outputs
    50.0
    >>> report["mls"].attrs["units"]
    'output/input'
    """
    how = {"batch_size": batch_size, "seed": seed, "progress": progress, "initial": initial}
    names = [families] if isinstance(families, str) else list(families)
    ready = _ready(model, dtype)
    how["budget"] = memory or available(next(ready.parameters()).device) // 4
    return _report(ready, inputs, targets, names, loss, options, how)


def _report(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor | None,
    families: Sequence[str],
    loss: str,
    options: Mapping[str, Any],
    how: Mapping[str, Any],
) -> xr.Dataset:
    """The report of `measure`.  how: fields of `Settings`."""
    if every := families == [ALL]:
        families = [name for name in keys_of("metrics") if measures_samples(name)]
        families.sort(key=lambda name: getattr(imported("metrics", name), "ESTIMATES", False))
    chosen, chosen_loss = _checked(families, loss, options)
    weight = next(p for p in model.parameters() if p.is_floating_point())
    tokens = all(getattr(imported("metrics", name), "TOKENS", False) for name in families)
    samples = _samples(inputs, targets, weight, how["batch_size"], tokens)
    report, left_out = xr.Dataset(), {}
    for name in families:
        settings = settings_of(name, chosen[name], chosen_loss, **how)
        try:
            with preserving_state(model):
                measured = imported("metrics", name).measure(model, samples, settings)
        except MeasureError as error:
            if not every or is_device_failure(error):
                raise
            left_out[name] = str(error)
            continue
        report = _with_family(
            report, quantities_of(imported("metrics", name)), measured, weight.dtype
        )
    if not report.data_vars:
        raise MeasureError("; ".join(dict.fromkeys(left_out.values())))
    reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
    about = {
        "title": f"{type(model).__name__} on {len(inputs)} samples",
        "flatlab_version": __version__,
        "families": [name for name in families if name not in left_out],
        "precision": str(weight.dtype).removeprefix("torch."),
        "loss": loss,
        **report.attrs,
        **({"left_out": reasons} if left_out else {}),
    }
    return report.assign_attrs(about)


def _with_family(
    report: xr.Dataset,
    quantities: Mapping[str, Quantity],
    measured: Measured,
    precision: torch.dtype,
) -> xr.Dataset:
    """A report with the quantities of one more family, but for those that it has already."""
    variables: dict[str, Any] = {}
    coordinates: dict[str, Any] = {}
    for name, quantity in quantities.items():
        if name not in measured.values or {name, name.removesuffix("_error")} & {*report.data_vars}:
            continue
        variables[name] = (quantity.dims, measured.values[name], attributes(quantity, precision))
        named = [dim for dim in quantity.dims if dim in measured.coordinates]
        coordinates |= {dim: as_strings(measured.coordinates[dim]) for dim in named}
    return report.assign(variables).assign_coords(coordinates).assign_attrs(measured.notes)


def _checked(
    families: Sequence[str], loss: str, options: Mapping[str, Any]
) -> tuple[dict[str, dict[str, Any]], Loss]:
    """The options of each family, and the loss; `MeasureError` for what none of them knows."""
    try:
        for name in families:
            check_known("metrics", name, "families")
            if not measures_samples(name):
                raise MeasureError(f"{name} compares training with test samples; see the workflow")
        check_known("losses", loss, "loss")
        kinds = {name: options_of("metrics", name) for name in families}
        of_loss = options_of("losses", loss)
        known = {key for kind in (*kinds.values(), of_loss) for key in kind.__struct_fields__}
        refuse_unknown(options, known, f"options of {', '.join([*families, loss])}")
        chosen = {name: plain(checked(options, kind)) for name, kind in kinds.items()}
        return chosen, loss_of({**plain(checked(options, of_loss)), "loss": loss})
    except PlanError as error:
        raise MeasureError(str(error)) from None


def _ready(model: nn.Module, dtype: str | torch.dtype | None) -> nn.Module:
    """The network in the precision of the measurement, a copy where it has another."""
    if not isinstance(model, nn.Module):
        raise MeasureError(f"the network is {type(model).__name__}, not a torch Module")
    first = next((p for p in model.parameters() if p.is_floating_point()), None)
    if first is None:
        raise MeasureError("the network has no parameters")
    if any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers())):
        raise MeasureError(
            "the network is on the meta device, where tensors have no numbers; call "
            "model.to_empty(device='cpu') and load its weights"
        )
    precisions = {"float64": torch.float64, "float32": torch.float32}
    wanted = first.dtype if dtype is None else precisions.get(str(dtype).removeprefix("torch."))
    if wanted not in precisions.values():
        if dtype is None:
            raise MeasureError(f"the network is {first.dtype}; pass dtype='float32'")
        raise MeasureError(f"dtype={dtype!r} is unknown; known: {', '.join(precisions)}")
    if any(p.dtype != wanted for p in model.parameters() if p.is_floating_point()):
        with torch.inference_mode(False):
            model = copy.deepcopy(model).to(wanted)
    return model


def _samples(
    inputs: Tensor, targets: Tensor | None, weight: Tensor, batch_size: int | None, tokens: bool
) -> Samples:
    if batch_size is not None and batch_size < 1:
        raise MeasureError(f"batch_size={batch_size} is not a positive number")
    if not isinstance(inputs, Tensor) or inputs.ndim < 1:
        raise MeasureError("inputs must be a tensor (samples, ...)")
    if inputs.layout != torch.strided:
        raise MeasureError("inputs are sparse; pass inputs.to_dense()")
    if not inputs.is_floating_point() and not tokens:
        raise MeasureError(
            f"inputs are {inputs.dtype}: derivatives with respect to them need real numbers; "
            "for tokens measure the part of the network behind the embedding"
        )
    inputs = inputs.to(weight if inputs.is_floating_point() else weight.device)
    if targets is None:
        return Samples(inputs)
    if len(targets) != len(inputs):
        raise MeasureError(f"there are {len(inputs)} inputs and {len(targets)} targets")
    if targets.ndim == 1 and not targets.is_floating_point():
        return Samples(inputs, None, targets.to(inputs.device))
    return Samples(inputs, targets.to(weight))
