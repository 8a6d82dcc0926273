"""Families of quantities: one file each, measured together because they share a computation.

A family has a dictionary `QUANTITIES` (what each is, its dimensions, units and source), a class
`Options` where it has options, and a function

    measure(model, samples, settings) -> Measured

of one sample set. A family that compares training with test samples has instead

    measure_splits(model, splits, settings) -> Measured

and is measured by the workflow alone. `TOKENS = True` says that inputs may be integers: a family
whose quantities need no derivatives with respect to them.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn

from flatlab.derivatives.guard import MeasureError, is_of_device, undisturbed
from flatlab.derivatives.norms import Norms
from flatlab.losses import logistic
from flatlab.losses._base import Loss, loss_of
from flatlab.plan import module_of
from flatlab.plan.options import checked, options_of
from flatlab.plan.registry import check_known, imported, keys_of, measures_samples
from flatlab.plan.schema import PlanError, plain, refuse_unknown
from flatlab.store import as_strings
from flatlab.version import __version__

ALL = "all"


@dataclass(frozen=True)
class Quantity:
    """The definition of a quantity.

    source: where a paper defines it.  dims: the dimensions of its values for one network and one
    sample set: `sample`, `layer`, or others that its family names.
    """

    long_name: str
    units: str
    source: str
    dims: tuple[str, ...] = ()


def chen2026(long_name: str, units: str, where: str, dims: tuple[str, ...] = ()) -> Quantity:
    """A quantity that chen2026 defines."""
    return Quantity(long_name, units, f"chen2026 {where}", dims)


@dataclass(frozen=True)
class Samples:
    """inputs: (samples, ...).  targets: (samples, N) or None.  labels: (samples) or None."""

    inputs: Tensor
    targets: Tensor | None = None
    labels: Tensor | None = None

    def targets_for(self, outputs: int, loss: Loss | None = None) -> Tensor:
        """Targets (samples, outputs): as given, or one-hot vectors of the labels.

        Raises `MeasureError` where there are none, or they do not fit the outputs or the loss.
        """
        if self.targets is not None:
            targets = self.targets
        elif self.labels is None:
            raise MeasureError("the sharpness of a loss needs targets: classes, or output values")
        elif (largest := int(self.labels.max())) >= outputs:
            raise MeasureError(f"label {largest}: there are {outputs} outputs")
        else:
            real = self.inputs.dtype if self.inputs.is_floating_point() else torch.float32
            targets = nn.functional.one_hot(self.labels, outputs).to(real)
        if tuple(targets.shape) != (len(self.inputs), outputs):
            raise MeasureError(f"targets are {tuple(targets.shape)}, outputs {outputs} per sample")
        if isinstance(loss, logistic.Loss) and not bool((targets.abs() == 1).all()):
            raise MeasureError("the logistic loss has targets +1 and -1; pass these, not classes")
        return targets


@dataclass(frozen=True)
class Settings:
    """How a family measures.

    options: an instance of its class `Options`.  loss: the loss that the network was trained with.
    batch_size: samples at a time; None: as many as fit.  seed: of families that draw at random.
    progress: show a bar.  initial: the network before training or its state dictionary, if known.
    memory: what a family keeps from one checkpoint of a run to the next, for the same samples; it
    may save time, but must not be needed.  norms: likewise from one sample set to the next, for the
    same weights.
    """

    options: Any
    loss: Loss
    batch_size: int | None = None
    seed: int = 0
    progress: bool = False
    initial: nn.Module | Mapping[str, Tensor] | None = None
    memory: dict[str, Any] = field(default_factory=dict)
    norms: Norms = field(default_factory=dict)


@dataclass
class Measured:
    """The results of a family: an array per quantity, the names along their dimensions, notes.

    values: arrays, tensors or numbers; they are stored as arrays of float64.
    """

    values: dict[str, Any]
    coordinates: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = {
            name: np.asarray(value.cpu() if isinstance(value, Tensor) else value, np.float64)
            for name, value in self.values.items()
        }


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
    **options: Any,
) -> xr.Dataset:
    """Measure a network on some samples.

    model: maps (batch, ...) to (batch, N), each sample on its own: in evaluation mode where it
    has batch norm or dropout. It is left exactly as it was.  inputs: (n, ...), numbers; for
    `sharpness` also integers, such as tokens.
    targets: (n,) classes or (n, N) values, for the families that need them.
    families: files of flatlab/metrics, or "all": those that can be had of this network with these
    samples; the attribute `left_out` says why others cannot.  loss: a file of flatlab/losses, for
    quantities of a loss.  batch_size: samples at a time; None: as many as fit.
    dtype: of the arithmetic, "float64" or "float32"; None: that of the model. Gram matrices and
    logarithms are in float64 always.  seed: of families that draw at random.  progress: show a bar.
    initial: the network before training, or its state dictionary, for distances from it.
    options: those of the families and of the loss, for example costly=["operator-norm"] of
    `geometry`, rho=0.01 of `adaptive`, label_smoothing=0.1 of the loss "cross-entropy". The class
    `Options` in the file of a family or loss lists them, and so does `flatlab measure --help`.

    Returns a dataset with dimensions `sample` and `layer` (names as in `named_modules`); each
    variable has `long_name`, `units` and `source`. Raises `MeasureError` where nothing exact can
    be had; the message says what to do.
    """
    model = _ready(model, dtype)
    weight = next(p for p in model.parameters() if p.is_floating_point())
    families = [families] if isinstance(families, str) else list(families)
    every = families == [ALL]
    if every:
        families = [name for name in keys_of("metrics") if measures_samples(name)]
    chosen, chosen_loss = _checked(families, loss, options)
    tokens = all(getattr(imported("metrics", name), "TOKENS", False) for name in families)
    samples = _samples(inputs, targets, weight, batch_size, tokens)
    variables: dict[str, Any] = {}
    coordinates: dict[str, Any] = {}
    notes: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for name, of_family in chosen.items():
        family = imported("metrics", name)
        settings = settings_of(name, of_family, chosen_loss, batch_size, seed, progress, initial)
        try:
            with undisturbed(model):
                found = family.measure(model, samples, settings)
        except MeasureError as error:
            if not every or is_of_device(error):
                raise
            left_out[name] = str(error)
            continue
        notes |= found.notes
        for variable, quantity in family.QUANTITIES.items():
            if (values := found.values.get(variable)) is not None:
                variables[variable] = (quantity.dims, values, attributes(quantity, weight.dtype))
                known = [dim for dim in quantity.dims if dim in found.coordinates]
                coordinates |= {dim: as_strings(found.coordinates[dim]) for dim in known}
    if not variables:
        raise MeasureError("; ".join(dict.fromkeys(left_out.values())))
    if left_out:
        notes["left_out"] = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
    about = {
        "title": f"{type(model).__name__} on {len(inputs)} samples",
        "flatlab_version": __version__,
        "families": [name for name in families if name not in left_out],
        "precision": str(weight.dtype).removeprefix("torch."),
        "loss": loss,
        **notes,
    }
    return xr.Dataset(variables, coords=coordinates, attrs=about)


def only_layer(model: nn.Module) -> nn.Module | None:
    """The only module of a network that computes anything; None if there are several."""
    passing = (nn.Sequential, nn.Flatten, nn.Identity)
    layers = [module for module in model.modules() if type(module) not in passing]
    return layers[0] if len(layers) == 1 else None


def settings_of(name: str, options: Mapping[str, Any], loss: Loss, *how: Any) -> Settings:
    """The settings of a family by its key.  how: the fields of `Settings` behind the loss."""
    kind = getattr(imported("metrics", name), "Options", None)
    return Settings(kind(**options) if kind else None, loss, *how)


def attributes(quantity: Quantity, precision: torch.dtype) -> dict[str, str]:
    """What a variable of a dataset says about itself."""
    return {
        "long_name": quantity.long_name,
        "units": quantity.units,
        "source": quantity.source,
        "precision": str(precision).removeprefix("torch."),
    }


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
