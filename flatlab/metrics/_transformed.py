"""The metric file of one pack whose networks are measured again with their weights transformed."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import torch
import xarray as xr
from torch import Tensor, nn

from flatlab.data._tensors import prepare
from flatlab.metrics._pack import Weights, measure_pack
from flatlab.networks._build import build
from flatlab.networks._transformations import transformed
from flatlab.plan.registry import imported
from flatlab.store import as_strings

COMPARED = 1000
"""Samples of the training and of the test set on which outputs are compared, at most."""
TOLERANCE = 1e-6
UNCHANGED, CHANGE = "none", "output_change"


def measure_transformed(
    weights: Sequence[Weights],
    raw: xr.Dataset,
    settings: Mapping[str, Any],
    device: str = "cpu",
    folder: Path = Path("data"),
) -> xr.Dataset:
    """`measure_pack`, and again at the last checkpoint with the weights transformed.

    settings: those of `measure_pack` and `transformations`: `kinds` of `networks._transformations`,
    `families`, how many `runs` if not all, and whether the change of `outputs` is stored. Draws are
    determined by the kind and the key of a run.
    Returns a dataset in which the quantities of these families have the dimension `transformation`:
    none, then the kinds. They are NaN where a kind does not apply to an architecture, at earlier
    checkpoints, and where it changes outputs by more than 1e-6. `output_change` (run, checkpoint,
    transformation) is the largest |change| / |output| over samples, in float64.
    """
    chosen = settings["transformations"]
    found = measure_pack(weights, raw, settings, device, folder)
    quantities = [imported("metrics", name).QUANTITIES for name in chosen["families"]]
    names = [name for name in found.data_vars if any(name in each for each in quantities)]
    own = {**settings, "family": "+".join(chosen["families"])}
    own.pop("test_sets", None)
    weights = [_first(each, chosen.get("runs")) for each in weights]
    own["seeds"] = own["seeds"][: chosen.get("runs")]
    shape, last = ("run", "checkpoint"), found["checkpoint"].values[-1:]
    zero = np.zeros([found.sizes[dim] for dim in shape])
    parts = {UNCHANGED: found[names].assign({CHANGE: (shape, zero)})}
    for kind in chosen["kinds"]:
        try:
            final, changes = _transform(kind, weights[0], raw, settings, device)
        except ValueError as error:
            print(f"{kind}: {error}", file=sys.stderr)
            continue
        after = measure_pack([final, *_initial(weights)], raw, own, device, folder)
        change = xr.DataArray(changes[:, None], dims=shape)
        after = after[names].sel(checkpoint=last).where(change <= TOLERANCE)
        whole = {dim: found[dim] for dim in shape}
        parts[kind] = after.assign({CHANGE: change}).drop_vars(_of_runs(after)).reindex(whole)
    index = pd.Index(as_strings(list(parts)), name="transformation")
    together = xr.concat(parts.values(), index, join="exact", coords="minimal", compat="equals")
    together = together.reindex(transformation=as_strings([UNCHANGED, *chosen["kinds"]]))
    about = {"long_name": "largest relative change of outputs by a transformation", "units": "1"}
    together[CHANGE].attrs = {**about, "source": "petzka2021 App. C.2", "precision": "float64"}
    if not chosen["outputs"]:
        together = together.drop_vars(CHANGE)
    return xr.merge([found.drop_vars(names), together], join="exact", compat="equals")


def _first(weights: Weights, count: int | None) -> Weights:
    """The first runs of a file."""
    arrays, about = weights
    of_run = {k: about[k][:count] for k in ("runs", "steps", "ended", "lr", "fitted") if k in about}
    return {name: array[:count] for name, array in arrays.items()}, {**about, **of_run}


def _of_runs(measured: xr.Dataset) -> list[str]:
    """The coordinates of runs besides their keys; those that were not measured have none."""
    return [str(name) for name, c in measured.coords.items() if c.dims == ("run",) != (name,)]


def _initial(weights: Sequence[Weights]) -> list[Weights]:
    """The initial weights as a file of their own, where they are known: distances are from them."""
    for arrays, about in weights:
        if 0 in (steps := list(about["iterations"])):
            first = {name: array[:, [steps.index(0)]] for name, array in arrays.items()}
            own = {key: value for key, value in about.items() if key != "fitted"}
            return [(first, {**own, "iterations": [0]})]
    return []


def _transform(
    kind: str, weights: Weights, raw: xr.Dataset, settings: Mapping[str, Any], device: str
) -> tuple[Weights, np.ndarray]:
    """The last weights (run, 1, ...) transformed, and how much the outputs of each run change.

    Raises `ValueError` where the architecture has nothing that can be changed so.
    """
    splits = prepare(raw, settings["data"], settings["outputs"], torch.float32, device)
    inputs = [split.inputs[:COMPARED].double() for split in (splits.train, splits.test)]
    model = build(settings["network"], tuple(inputs[0].shape[1:]), splits.outputs)
    model = model.to(device, torch.float64).eval()
    arrays, about = weights
    states, changes = [], []
    for number, run in enumerate(about["runs"]):
        state = {name: torch.from_numpy(array[number, -1]) for name, array in arrays.items()}
        model.load_state_dict(state)
        after = transformed(model, kind, crc32(f"{kind}/{run}".encode()))
        states.append({name: tensor.cpu().numpy() for name, tensor in after.state_dict().items()})
        changes.append(max(_change(model, after, part) for part in inputs))
    final = {name: np.stack([state[name] for state in states])[:, None] for name in arrays}
    return (final, {**about, "iterations": about["iterations"][-1:]}), np.array(changes)


@torch.no_grad()
def _change(before: nn.Module, after: nn.Module, inputs: Tensor) -> float:
    """The largest |f' - f| / |f| over samples; 0 where both are zero."""
    outputs, others = before(inputs), after(inputs)
    difference, size = (others - outputs).norm(dim=1), outputs.norm(dim=1)
    return float((difference / size.clamp(min=torch.finfo(size.dtype).tiny)).max())
