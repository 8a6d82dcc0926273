"""Families of quantities: one file each, measured together because they share a computation.

A family has a dictionary `QUANTITIES` (what each is, its dimensions, units and source), a literal
`SETTINGS` (the keys of a grid's sections `measure` and `training` that it depends on, beside the
sample sets) and a function

    measure(model, samples, settings) -> Measured

of one sample set. A family that compares training with test samples has instead

    measure_splits(model, splits, settings) -> Measured

and is measured by the workflow alone. One without `SETTINGS` is not measured on grids.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn
from tqdm import tqdm

from flatlab.derivatives.guard import MeasureError, undisturbed
from flatlab.networks import build
from flatlab.plan import module_of
from flatlab.plan.registry import check_known, joined
from flatlab.plan.schema import Adaptive, convert
from flatlab.splits import Splits, prepare
from flatlab.store import as_strings
from flatlab.version import __version__

__all__ = ["MeasureError", "Measured", "Quantity", "Samples", "measure", "measure_pack"]

LOSSES = {"mse": "half-mse", "half-mse": "half-mse", "mean-mse": "mean-mse"}
LOSSES |= {name: name for name in ("cross-entropy", "sum-of-squares")}
CURVATURES = ("hessian", "gauss-newton")


@dataclass(frozen=True)
class Quantity:
    """What a number is.

    dims: of one network on one sample set: of `sample`, `layer` and those that its family names.
    source: the definition in a paper.
    """

    long_name: str
    units: str
    source: str
    dims: tuple[str, ...] = ()


@dataclass(frozen=True)
class Samples:
    """inputs: (samples, ...).  targets: (samples, N) or None.  labels: (samples) or None."""

    inputs: Tensor
    targets: Tensor | None = None
    labels: Tensor | None = None


@dataclass(frozen=True)
class Measured:
    """What a family found: an array for each quantity, the names along their dimensions, notes."""

    values: dict[str, np.ndarray]
    coordinates: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)


def measure(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor | None = None,
    *,
    families: Sequence[str] = ("geometry",),
    loss: str = "mse",
    batch_size: int | None = None,
    dtype: str | torch.dtype | None = None,
    seed: int = 0,
    singular_values: str | int = "all",
    conventions: str = "flatlab",
    costly: Iterable[str] = ("elementwise-adaptive-trace",),
    adaptive: Mapping[str, Any] | None = None,
    curvature: Iterable[str] = CURVATURES,
    label_smoothing: float = 0.0,
    batch_norm: str = "eval",
    progress: bool = False,
) -> xr.Dataset:
    """Measure a network on some samples.

    model: maps (batch, ...) to (batch, N), each sample on its own: in evaluation mode where it
    has batch norm or dropout. It is left exactly as it was.  inputs: (n, ...), numbers.
    targets: (n,) classes or (n, N) values, for the families that need them.
    families: files of flatlab/metrics.  loss: whose Hessian relative flatness and the family
    `hessian` use: "mse" (or "half-mse"), |f - y|^2 / 2; "mean-mse", the mean over outputs of
    (f - y)^2; "cross-entropy", in `hessian` with `label_smoothing`; "sum-of-squares", |f - y|^2
    added up over the samples.
    batch_size: samples at a time; None: what fits.  dtype: of the arithmetic, "float64" or
    "float32"; None: that of the model. Gram matrices and logarithms are in float64 always.
    seed: of the families that draw at random.  singular_values: of the log volume, "all" or the
    k largest.  conventions: "flatlab", or "chen-code" for those of the authors' code.
    costly: quantities that cost as much as the rest, or more: any of "elementwise-adaptive-trace",
    "operator-norm", "corrected-bound".  curvature, batch_norm: of `hessian`: whose eigenvalues, and
    "train" for batch norm with the statistics of these samples, all at once.
    adaptive: what the family of that name is to do, keys of `flatlab.plan.schema.Adaptive`,
    {"rho": 0.01}.  progress: show a bar.

    Returns a dataset with dimensions `sample` and `layer` (names as in `named_modules`); each
    variable has `long_name`, `units` and `source`. Raises `MeasureError` where nothing exact can
    be had; the message says what to do.
    """
    geometry = _family("geometry")  # by name: other families do not depend on its code
    families = [families] if isinstance(families, str) else list(families)
    costly = [costly] if isinstance(costly, str) else list(costly)
    curvature = [curvature] if isinstance(curvature, str) else list(curvature)
    first = next((p for p in model.parameters() if p.is_floating_point()), None)
    if first is None:
        raise MeasureError("the network has no parameters")
    precision = _precision(dtype) or first.dtype
    if precision not in (torch.float32, torch.float64):
        raise MeasureError(f"the network is {precision}; pass dtype='float32'")
    if batch_size is not None and batch_size < 1:
        raise MeasureError(f"batch_size={batch_size} is not a positive number")
    if not isinstance(inputs, Tensor) or inputs.ndim < 1:
        raise MeasureError("inputs must be a tensor (samples, ...)")
    if not inputs.is_floating_point():
        raise MeasureError(
            f"inputs are {inputs.dtype}: derivatives with respect to them need real numbers; "
            "for tokens measure the part of the network behind the embedding"
        )
    if any(p.dtype != precision for p in model.parameters() if p.is_floating_point()):
        with torch.inference_mode(False):
            model = copy.deepcopy(model).to(precision)
    settings = {
        "singular_values": _choice("singular_values", singular_values, ("all",), numbers=True),
        "relative_flatness_loss": LOSSES[_choice("loss", loss, LOSSES)],
        "loss": LOSSES[loss],
        "label_smoothing": label_smoothing,
        "curvature": [_choice("curvature", name, CURVATURES) for name in curvature],
        "batch_norm": _choice("batch_norm", batch_norm, ("train", "eval")),
        "conventions": _choice("conventions", conventions, geometry.CONVENTIONS),
        "costly": [_choice("costly", name, geometry.COSTLY) for name in costly],
        "adaptive": _adaptive(adaptive or {}),
        "batch_size": batch_size,
        "progress": progress,
        "seed": seed,
    }
    samples = _samples(inputs.to(first.device, precision), targets)
    variables: dict[str, Any] = {}
    coordinates: dict[str, Any] = {}
    notes: dict[str, Any] = {}
    for name in families:
        try:
            check_known("metrics", name, "families")
        except ValueError as error:
            raise MeasureError(str(error)) from None
        family = _family(name)
        if not hasattr(family, "measure"):
            raise MeasureError(f"{name} compares training with test samples; see the workflow")
        with undisturbed(model):
            found = family.measure(model, samples, settings)
        notes |= found.notes
        for variable, quantity in family.QUANTITIES.items():
            if (values := found.values.get(variable)) is None:
                continue
            variables[variable] = (quantity.dims, values, _attributes(quantity, precision))
            for dim in quantity.dims:
                if dim in found.coordinates:
                    coordinates[dim] = as_strings(found.coordinates[dim])
    about = {
        "title": f"{type(model).__name__} on {len(inputs)} samples",
        "flatlab_version": __version__,
        "families": families,
        "precision": _attributes(Quantity("", "", ""), precision)["precision"],
        "loss": "mean-mse" if conventions == "chen-code" else settings["relative_flatness_loss"],
        "singular_values": 3 if conventions == "chen-code" else singular_values,
        **notes,
    }
    return xr.Dataset(variables, coords=coordinates, attrs=about)


Weights = tuple[Mapping[str, np.ndarray], Mapping[str, Any]]


def measure_pack(
    weights: Sequence[Weights],
    raw: xr.Dataset,
    settings: Mapping[str, Any],
    device: str = "cpu",
) -> xr.Dataset:
    """Evaluate a family, or several, on every checkpoint of every run of a pack.

    weights: files of one pack, at the end and at other steps: arrays (run, checkpoint, ...) and
    their description each.  raw: a data file.
    settings: `family` (several are joined by +), `data`, `network`, `outputs`, `measure`,
    `hyperparameters`, `seeds`.
    Returns a dataset with dimensions run, checkpoint, `samples` (the sample sets of the grid) and
    those of the quantities; quantities of single samples are left out. A network with weights
    that are not finite has NaN everywhere.
    """
    precision = getattr(torch, settings["measure"]["precision"])
    splits = prepare(raw, settings["data"], settings["outputs"], precision, device)
    shape = tuple(splits.train.inputs.shape[1:])
    model = build(settings["network"], shape, splits.outputs).to(device, precision).eval()
    arrays_at = {
        iteration: {name: array[:, number] for name, array in arrays.items()}
        for arrays, about in weights
        for number, iteration in enumerate(about["iterations"])
    }
    about = {**weights[0][1], "iterations": sorted(arrays_at)}
    families = map(_family, joined(settings["family"]))
    measured = [_on_all_weights(f, model, splits, settings, arrays_at, about) for f in families]
    return xr.merge(measured, join="exact", compat="equals")


def _on_all_weights(
    family: ModuleType,
    model: nn.Module,
    splits: Splits,
    settings: Mapping[str, Any],
    arrays_at: Mapping[int, Mapping[str, np.ndarray]],
    about: Mapping[str, Any],
) -> xr.Dataset:
    """A family on every checkpoint of every run.  arrays_at: (run, ...) by name and iteration."""
    precision = splits.train.inputs.dtype
    kept = [name for name, q in family.QUANTITIES.items() if "sample" not in q.dims]
    size = len(about["runs"]), len(about["iterations"])
    found: dict[str, np.ndarray] = {}
    coordinates: dict[str, Any] = {}
    for place in tqdm(list(np.ndindex(*size)), mininterval=5):
        arrays = arrays_at[about["iterations"][place[1]]]
        model.load_state_dict({name: torch.from_numpy(a[place[0]]) for name, a in arrays.items()})
        with undisturbed(model):
            measured = _on_all_sets(family, model, splits, settings["measure"])
        coordinates |= measured.coordinates
        for name in (name for name in kept if name in measured.values):
            value = measured.values[name]
            found.setdefault(name, np.full((*size, *value.shape), np.nan))[place] = value
    variables = {
        name: (
            ("run", "checkpoint", *_dims(family, family.QUANTITIES[name])),
            values,
            _attributes(family.QUANTITIES[name], precision),
        )
        for name, values in found.items()
    }
    used = {dim for dims, *_ in variables.values() for dim in dims}
    coordinates = {dim: as_strings(names) for dim, names in coordinates.items() if dim in used}
    return xr.Dataset(variables, coords=coordinates | _run_coordinates(about, settings))


def _on_all_sets(
    family: ModuleType, model: nn.Module, splits: Splits, settings: Mapping[str, Any]
) -> Measured:
    """A family on each sample set of the grid, one after the other along the first axis.

    A set without samples, where a network gets nothing wrong, has NaN.
    """
    if hasattr(family, "measure_splits"):
        return family.measure_splits(model, splits, settings)
    sets: list[Measured | None] = []
    for chosen in settings["samples"].values():
        split = splits.train if chosen["split"] == "train" else splits.test
        size, seed = chosen["size"], chosen["seed"]
        if chosen["only"] == "misclassified":
            subset = split.misclassified(model, size, seed)
        else:
            subset = split.subset(size, seed)
        samples = Samples(subset.inputs, subset.targets, subset.labels)
        sets.append(family.measure(model, samples, settings) if len(subset) else None)
    some = next((measured for measured in sets if measured), Measured({}))
    values = {
        name: np.stack(
            [m.values[name] if m else np.full_like(some.values[name], np.nan) for m in sets]
        )
        for name, quantity in family.QUANTITIES.items()
        if name in some.values and "sample" not in quantity.dims
    }
    return Measured(values, some.coordinates | {"samples": list(settings["samples"])})


def _dims(family: ModuleType, quantity: Quantity) -> tuple[str, ...]:
    per_set = () if hasattr(family, "measure_splits") else ("samples",)
    return (*per_set, *quantity.dims)


def _run_coordinates(about: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    runs = len(about["runs"])
    coordinates: dict[str, Any] = {
        "run": as_strings(about["runs"]),
        "setting": ("run", as_strings([settings["setting"]] * runs)),
        "seed": ("run", list(settings["seeds"])),
        "steps": ("run", list(about["steps"])),
        "ended": ("run", as_strings(about["ended"])),
        "checkpoint": list(about["iterations"]),
    }
    if "lr" in about:  # each run has drawn its own
        coordinates["lr"] = ("run", list(about["lr"]))
    for key, value in settings["hyperparameters"].items():
        each = [value] * runs
        coordinates[key] = ("run", as_strings(each) if isinstance(value, str) else each)
    return coordinates


def _family(name: str) -> ModuleType:
    return importlib.import_module(module_of("metrics", name))


def _attributes(quantity: Quantity, precision: torch.dtype) -> dict[str, str]:
    return {
        "long_name": quantity.long_name,
        "units": quantity.units,
        "source": quantity.source,
        "precision": str(precision).removeprefix("torch."),
    }


def _adaptive(options: Mapping[str, Any]) -> Adaptive:
    try:
        return convert(options, Adaptive, "adaptive.")
    except ValueError as error:
        raise MeasureError(str(error)) from None


def _precision(dtype: str | torch.dtype | None) -> torch.dtype | None:
    known = {"float64": torch.float64, "float32": torch.float32}
    if dtype is None or dtype in known.values():
        return dtype  # type: ignore[return-value]
    return known[_choice("dtype", dtype, known)]


def _choice(name: str, value: Any, known: Iterable[str], numbers: bool = False) -> Any:
    number = numbers and isinstance(value, int) and not isinstance(value, bool) and value > 0
    if value in known or number:
        return value
    hint = " or a number" if numbers else ""
    raise MeasureError(f"{name}={value!r} is unknown; known: {', '.join(known)}{hint}")


def _samples(inputs: Tensor, targets: Tensor | None) -> Samples:
    if targets is None:
        return Samples(inputs)
    if len(targets) != len(inputs):
        raise MeasureError(f"there are {len(inputs)} inputs and {len(targets)} targets")
    if targets.ndim == 1 and not targets.is_floating_point():
        return Samples(inputs, None, targets.to(inputs.device))
    return Samples(inputs, targets.to(inputs))
