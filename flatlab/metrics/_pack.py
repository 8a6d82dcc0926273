"""The metric file of one pack: families of quantities on every checkpoint of every run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import nn
from tqdm import tqdm

from flatlab.data._tensors import Splits, prepare
from flatlab.derivatives.guard import undisturbed
from flatlab.losses._base import loss_of
from flatlab.metrics import Measured, Samples, Settings, attributes, settings_of
from flatlab.networks._build import build
from flatlab.plan.registry import imported, joined
from flatlab.store import TrainedPack, as_strings

State = dict[str, torch.Tensor]


def measure_pack(
    packs: Sequence[TrainedPack],
    raw: xr.Dataset,
    settings: Mapping[str, Any],
    device: str = "cpu",
    folder: Path = Path("data"),
) -> xr.Dataset:
    """Evaluate a family, or several, on every checkpoint of every run of a pack.

    packs: the files of one pack, at the end and at other steps.  raw: a data file.
    settings: `family` (several are joined by +), `data`, `network`, `outputs`, `precision`,
    `samples`, `options` by family, `loss`, `setting`, `hyperparameters`, `seeds`; `test_sets` where
    there are any, whose published files are in `folder`; and `untrained: False` if step 0 is not
    measured.
    Returns a dataset with dimensions run, checkpoint, `samples` (the sample sets of the grid) and
    those of the quantities; quantities of single samples are left out. A network with weights
    that are not finite has NaN everywhere.
    """
    packs = [TrainedPack(*pack) for pack in packs]
    precision, classes = getattr(torch, settings["precision"]), settings["data"]["classes"]
    further = {
        name: imported("data", "corruptions").test_set(raw, chosen, classes, folder)
        for name, chosen in settings.get("test_sets", {}).items()
    }
    splits = prepare(raw, settings["data"], settings["outputs"], precision, device, further)
    shape = tuple(splits.train.inputs.shape[1:])
    model = build(settings["network"], shape, splits.outputs).to(device, precision).eval()
    kept = [_kept(packs, run) for run in packs[0].runs]
    steps = {step for states in kept for step in states if step or settings.get("untrained", True)}
    about = {**packs[0].about, **packs[-1].about, "iterations": sorted(steps)}
    measured = [
        _on_all_weights(name, model, splits, settings, kept, about)
        for name in joined(settings["family"])
    ]
    return xr.merge(measured, join="exact", compat="equals")


def _on_all_weights(
    name: str,
    model: nn.Module,
    splits: Splits,
    settings: Mapping[str, Any],
    kept: Sequence[Mapping[int, State]],
    about: Mapping[str, Any],
) -> xr.Dataset:
    """A family on every checkpoint of every run.  kept: the weights of each run, by iteration."""
    family, precision = imported("metrics", name), splits.train.inputs.dtype
    how = settings_of(name, settings["options"][name], loss_of(settings["loss"]))
    per_set = () if hasattr(family, "measure_splits") else ("samples",)
    size = len(about["runs"]), len(about["iterations"])
    found: dict[str, np.ndarray] = {}
    coordinates: dict[str, Any] = {}
    for place in tqdm(list(np.ndindex(*size)), mininterval=5):
        if place[1] == 0:
            how = replace(how, memory={}, initial=kept[place[0]].get(0))
        if (step := about["iterations"][place[1]]) not in kept[place[0]]:
            continue
        model.load_state_dict(kept[place[0]][step])
        with undisturbed(model):
            if per_set:
                own = replace(how, norms={})
                measured = _on_all_sets(family, model, splits, settings["samples"], own)
            else:
                measured = family.measure_splits(model, splits, how)
        coordinates |= measured.coordinates
        for name, value in measured.values.items():
            found.setdefault(name, np.full((*size, *value.shape), np.nan))[place] = value
    variables = {}
    for name in (name for name in family.QUANTITIES if name in found):
        quantity = family.QUANTITIES[name]
        dims = ("run", "checkpoint", *per_set, *quantity.dims)
        variables[name] = (dims, found[name], attributes(quantity, precision))
    used = {dim for dims, *_ in variables.values() for dim in dims}
    coordinates = {dim: as_strings(names) for dim, names in coordinates.items() if dim in used}
    return xr.Dataset(variables, coords=coordinates | _run_coordinates(about, settings))


def _kept(packs: Sequence[TrainedPack], run: str) -> dict[int, State]:
    """The state dictionary of a run at each step at which it was kept."""
    states = {step: pack.state(run, step) for pack in packs for step in pack.steps(run)}
    return {
        step: {name: torch.as_tensor(array) for name, array in state.items()}
        for step, state in states.items()
    }


def _on_all_sets(
    family: ModuleType,
    model: nn.Module,
    splits: Splits,
    sample_sets: Mapping[str, Mapping[str, Any]],
    settings: Settings,
) -> Measured:
    """A family on each sample set of the grid, one after the other along the first axis.

    settings: those of one network, whose `norms` are shared by its sample sets.

    A set without samples, where a network gets nothing wrong, has NaN. Quantities of single samples
    are left out.
    """
    sets: list[Measured | None] = []
    for name, chosen in sample_sets.items():
        split = splits.train if chosen["split"] == "train" else splits.test
        draw, wrong = (chosen["size"], chosen["seed"]), chosen["only"] == "misclassified"
        subset = split.misclassified(model, *draw) if wrong else split.subset(*draw)
        samples = Samples(subset.inputs, subset.targets, subset.labels)
        kept = replace(settings, memory=settings.memory.setdefault(name, {}))
        sets.append(family.measure(model, samples, kept) if len(subset) else None)
    some = next(filter(None, sets), Measured({}))
    values = {
        name: np.stack(
            [m.values[name] if m else np.full_like(some.values[name], np.nan) for m in sets]
        )
        for name, quantity in family.QUANTITIES.items()
        if name in some.values and "sample" not in quantity.dims
    }
    return Measured(values, some.coordinates | {"samples": list(sample_sets)})


def _run_coordinates(about: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    runs = len(about["runs"])
    by_run = {
        "run": about["runs"],
        "setting": [settings["setting"]] * runs,
        "seed": settings["seeds"],
        **{key: about[key] for key in ("steps", "ended", "lr") if key in about},  # lr: if drawn
        **({"fitted": np.array(about["fitted"], float).tolist()} if "fitted" in about else {}),
        **{key: [value] * runs for key, value in settings["hyperparameters"].items()},
    }
    coordinates: dict[str, Any] = {"checkpoint": list(about["iterations"])}
    for key, values in by_run.items():
        text = isinstance(values[0], str)
        coordinates[key] = ("run", as_strings(values) if text else list(values))
    return coordinates
