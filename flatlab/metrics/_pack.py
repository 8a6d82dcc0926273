"""The metric file of one pack: families of quantities on every checkpoint of every run."""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import nn
from tqdm import tqdm

from flatlab.derivatives.guard import undisturbed
from flatlab.losses import loss_of
from flatlab.metrics import (
    Measured,
    Quantity,
    Samples,
    Settings,
    attributes,
    family_of,
    settings_of,
)
from flatlab.networks import build
from flatlab.plan.registry import joined
from flatlab.splits import Splits, prepare
from flatlab.store import as_strings

Weights = tuple[Mapping[str, np.ndarray], Mapping[str, Any]]


def measure_pack(
    weights: Sequence[Weights], raw: xr.Dataset, settings: Mapping[str, Any], device: str = "cpu"
) -> xr.Dataset:
    """Evaluate a family, or several, on every checkpoint of every run of a pack.

    weights: files of one pack, at the end and at other steps: arrays (run, checkpoint, ...) and
    their description each.  raw: a data file.
    settings: `family` (several are joined by +), `data`, `network`, `outputs`, `precision`,
    `samples`, `options` by family, `loss`, `setting`, `hyperparameters`, `seeds`.
    Returns a dataset with dimensions run, checkpoint, `samples` (the sample sets of the grid) and
    those of the quantities; quantities of single samples are left out. A network with weights
    that are not finite has NaN everywhere.
    """
    precision = getattr(torch, settings["precision"])
    splits = prepare(raw, settings["data"], settings["outputs"], precision, device)
    shape = tuple(splits.train.inputs.shape[1:])
    model = build(settings["network"], shape, splits.outputs).to(device, precision).eval()
    arrays_at = {
        iteration: {name: array[:, number] for name, array in arrays.items()}
        for arrays, about in weights
        for number, iteration in enumerate(about["iterations"])
    }
    about = {**weights[0][1], "iterations": sorted(arrays_at)}
    measured = [
        _on_all_weights(name, model, splits, settings, arrays_at, about)
        for name in joined(settings["family"])
    ]
    return xr.merge(measured, join="exact", compat="equals")


def _on_all_weights(
    name: str,
    model: nn.Module,
    splits: Splits,
    settings: Mapping[str, Any],
    arrays_at: Mapping[int, Mapping[str, np.ndarray]],
    about: Mapping[str, Any],
) -> xr.Dataset:
    """A family on every checkpoint of every run.  arrays_at: (run, ...) by name and iteration."""
    family, precision = family_of(name), splits.train.inputs.dtype
    how = settings_of(name, settings["options"][name], loss_of(settings["loss"]))
    kept = [name for name, q in family.QUANTITIES.items() if "sample" not in q.dims]
    size = len(about["runs"]), len(about["iterations"])
    found: dict[str, np.ndarray] = {}
    coordinates: dict[str, Any] = {}
    for place in tqdm(list(np.ndindex(*size)), mininterval=5):
        arrays = arrays_at[about["iterations"][place[1]]]
        model.load_state_dict({name: torch.from_numpy(a[place[0]]) for name, a in arrays.items()})
        with undisturbed(model):
            measured = _on_all_sets(family, model, splits, settings.get("samples", {}), how)
        coordinates |= measured.coordinates
        for name in (name for name in kept if name in measured.values):
            value = measured.values[name]
            found.setdefault(name, np.full((*size, *value.shape), np.nan))[place] = value
    variables = {
        name: (
            ("run", "checkpoint", *_dims(family, family.QUANTITIES[name])),
            values,
            attributes(family.QUANTITIES[name], precision),
        )
        for name, values in found.items()
    }
    used = {dim for dims, *_ in variables.values() for dim in dims}
    coordinates = {dim: as_strings(names) for dim, names in coordinates.items() if dim in used}
    return xr.Dataset(variables, coords=coordinates | _run_coordinates(about, settings))


def _on_all_sets(
    family: ModuleType,
    model: nn.Module,
    splits: Splits,
    sample_sets: Mapping[str, Mapping[str, Any]],
    settings: Settings,
) -> Measured:
    """A family on each sample set of the grid, one after the other along the first axis.

    A set without samples, where a network gets nothing wrong, has NaN.
    """
    if hasattr(family, "measure_splits"):
        return family.measure_splits(model, splits, settings)
    sets: list[Measured | None] = []
    for chosen in sample_sets.values():
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
    return Measured(values, some.coordinates | {"samples": list(sample_sets)})


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
