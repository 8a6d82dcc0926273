"""Families of quantities: one file each, measured together because they share a computation.

A family has a dictionary `QUANTITIES` (what each is, its dimensions, units and source), a literal
`SETTINGS` (the keys of a grid's `measure` section that it depends on) and a function
`measure(model, splits, settings)` that returns an array for each quantity. Dimensions
are `samples` (the sample sets of the grid) and `layer` (the linear layers, by name).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import nn
from tqdm import tqdm

from flatlab.models import build
from flatlab.plan import module_of
from flatlab.splits import Splits, prepare
from flatlab.store import as_strings


class MeasureError(RuntimeError):
    """A network that cannot be measured; the message names the reason and the remedy."""


@dataclass(frozen=True)
class Quantity:
    """What a number is.

    dims: beyond the run and the checkpoint.  source: the definition in a paper.
    """

    long_name: str
    units: str
    source: str
    dims: tuple[str, ...] = ("samples",)


def measure_pack(
    weights: tuple[Mapping[str, np.ndarray], Mapping[str, Any]],
    raw: xr.Dataset,
    settings: Mapping[str, Any],
    device: str = "cpu",
) -> xr.Dataset:
    """Evaluate one family on every checkpoint of every run of a pack.

    weights: arrays (run, checkpoint, ...) and their description.  raw: a data file.
    settings: `family`, `data`, `network`, `outputs`, `measure`, `hyperparameters`, `seeds`.
    Returns a dataset with dimensions run, checkpoint and those of the quantities. A network with
    weights that are not finite has NaN everywhere.
    """
    arrays, about = weights
    family = importlib.import_module(module_of("metrics", settings["family"]))
    dtype = getattr(torch, settings["measure"]["precision"])
    splits = prepare(raw, settings["data"], settings["outputs"], dtype, device)
    shape = tuple(splits.train.inputs.shape[1:])
    model = build(settings["network"], shape, splits.outputs).to(device, dtype)
    layers = linear_layers(model)
    sizes = {"samples": len(settings["measure"].get("samples", ())), "layer": len(layers)}
    count = len(about["runs"]), len(about["iterations"])
    values = {
        name: np.full((*count, *(sizes[dim] for dim in quantity.dims)), np.nan)
        for name, quantity in family.QUANTITIES.items()
    }
    for run, checkpoint in tqdm(list(np.ndindex(*count)), mininterval=5):
        state = {name: array[run, checkpoint] for name, array in arrays.items()}
        if not all(np.isfinite(array).all() for array in state.values()):
            continue
        model.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
        for name, value in family.measure(model, splits, settings["measure"]).items():
            values[name][run, checkpoint] = value
    return _dataset(values, family.QUANTITIES, about, settings, list(layers), splits)


def linear_layers(model: nn.Module) -> dict[str, nn.Linear]:
    """The linear layers of a network by name, in the order in which it declares them.

    Raises `MeasureError` where another module has parameters: its part would be missing.
    """
    layers = {name: m for name, m in model.named_modules() if isinstance(m, nn.Linear)}
    for name, module in model.named_modules():
        if name not in layers and list(module.parameters(recurse=False)):
            raise MeasureError(
                f"layer {name!r} ({type(module).__name__}) has parameters that are not measured; "
                "networks of linear layers and activations are"
            )
    parameters = [parameter for m in layers.values() for parameter in m.parameters(recurse=False)]
    if len(set(map(id, parameters))) < len(parameters):
        raise MeasureError("two layers share their weights; shared weights are not measured")
    return layers


def _dataset(
    values: Mapping[str, np.ndarray],
    quantities: Mapping[str, Quantity],
    about: Mapping[str, Any],
    settings: Mapping[str, Any],
    layers: list[str],
    splits: Splits,
) -> xr.Dataset:
    variables: dict[str, Any] = {}
    for name, quantity in quantities.items():
        attributes = {
            "long_name": quantity.long_name,
            "units": quantity.units,
            "source": quantity.source,
            "precision": settings["measure"]["precision"],
        }
        variables[name] = (("run", "checkpoint", *quantity.dims), values[name], attributes)
    runs = len(about["runs"])
    coordinates: dict[str, Any] = {
        "run": as_strings(about["runs"]),
        "setting": ("run", as_strings([settings["setting"]] * runs)),
        "seed": ("run", list(settings["seeds"])),
        "checkpoint": list(about["iterations"]),
    }
    for key, value in settings["hyperparameters"].items():
        coordinates[key] = ("run", [value] * runs)
    used = {dim for quantity in quantities.values() for dim in quantity.dims}
    if "layer" in used:
        coordinates["layer"] = as_strings(layers)
    if "samples" in used:
        coordinates["samples"] = as_strings(list(settings["measure"]["samples"]))
    return xr.Dataset(variables, coords=coordinates)
