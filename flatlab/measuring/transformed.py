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

from flatlab.core.registry import imported
from flatlab.core.store import TrainedPack, as_strings
from flatlab.data._tensors import prepare
from flatlab.measuring.grid import GridMeasurer, State, measure_pack, states_of
from flatlab.measuring.quantity import quantities_of
from flatlab.networks._build import build
from flatlab.networks._transformations import transformed

COMPARED = 1000
"""Samples of the training and of the test set on which outputs are compared, at most."""
TOLERANCE = 1e-6
UNCHANGED, CHANGE = "none", "output_change"


def measure_transformed(
    packs: Sequence[TrainedPack | tuple[Any, Any]],
    raw: xr.Dataset,
    settings: Mapping[str, Any],
    device: str = "cpu",
    folder: Path = Path("data"),
) -> xr.Dataset:
    """`measure_pack`, and again at the last checkpoint with the weights transformed.

    settings: those of `measure_pack` and `transformations`: `kinds` of `networks._transformations`,
        `families`, how many `runs` if not all, and whether the change of `outputs` is stored. Draws
        are determined by the kind and the key of a run.

    Returns a dataset in which the quantities of these families have the dimension `transformation`:
    none, then the kinds. They are NaN where a kind does not apply to an architecture, at earlier
    checkpoints, and where it changes outputs by more than 1e-6. `output_change` (run, checkpoint,
    transformation) is the largest |change| / |output| over samples, in float64.
    """
    chosen = settings["transformations"]
    unchanged = measure_pack(packs, raw, settings, device, folder)
    quantities = [quantities_of(imported("families", name)) for name in chosen["families"]]
    names = [name for name in unchanged.data_vars if any(name in family for family in quantities)]
    files = [TrainedPack(*pack).first(chosen.get("runs")) for pack in packs]
    runs, shape = files[0].runs, ("run", "checkpoint")
    zero = np.zeros([unchanged.sizes[dim] for dim in shape])
    parts = {UNCHANGED: unchanged[names].assign({CHANGE: (shape, zero)})}
    without_test_sets = {key: value for key, value in settings.items() if key != "test_sets"}
    measurer = GridMeasurer.prepare(raw, without_test_sets, device, folder)
    kept = [states_of(files, run) for run in runs]
    initial = [{0: states[0]} if 0 in states else {} for states in kept]
    for kind in chosen["kinds"]:
        try:
            final, changes = _transform(kind, files[0], raw, settings, device)
        except ValueError as error:
            print(f"{kind}: {error}", file=sys.stderr)
            continue
        last = files[0].about["iterations"][-1]
        states = [{**first, last: state} for first, state in zip(initial, final, strict=True)]
        after = measurer.on(states, chosen["families"], last=True)
        change = xr.DataArray(changes[:, None], dims=shape)
        after = after[names].assign_coords(run=as_strings(runs)).where(change <= TOLERANCE)
        whole = {dim: unchanged[dim] for dim in shape}
        parts[kind] = after.assign({CHANGE: change}).reindex(whole)
    index = pd.Index(as_strings(list(parts)), name="transformation")
    together = xr.concat(parts.values(), index, join="exact", coords="minimal", compat="equals")
    together = together.reindex(transformation=as_strings([UNCHANGED, *chosen["kinds"]]))
    about = {"long_name": "largest relative change of outputs by a transformation", "units": "1"}
    together[CHANGE].attrs = {**about, "source": "petzka2021 App. C.2", "precision": "float64"}
    if not chosen["outputs"]:
        together = together.drop_vars(CHANGE)
    return xr.merge([unchanged.drop_vars(names), together], join="exact", compat="equals")


def _transform(
    kind: str, pack: TrainedPack, raw: xr.Dataset, settings: Mapping[str, Any], device: str
) -> tuple[list[State], np.ndarray]:
    """The last weights of each run transformed, and how much the outputs of each run change.

    Raises `ValueError` where the architecture has nothing that can be changed so.
    """
    splits = prepare(raw, settings["data"], settings["outputs"], torch.float32, device)
    inputs = [split.inputs[:COMPARED].double() for split in (splits.train, splits.test)]
    model = build(settings["network"], tuple(inputs[0].shape[1:]), splits.outputs)
    model = model.to(device, torch.float64).eval()
    states: list[State] = []
    changes = []
    for run in pack.runs:
        arrays = pack.state(run)
        model.load_state_dict({name: torch.as_tensor(array) for name, array in arrays.items()})
        after = transformed(model, kind, crc32(f"{kind}/{run}".encode()))
        states.append({name: tensor.cpu() for name, tensor in after.state_dict().items()})
        changes.append(max(_change(model, after, part) for part in inputs))
    return states, np.array(changes)


@torch.no_grad()
def _change(before: nn.Module, after: nn.Module, inputs: Tensor) -> float:
    """The largest |f' - f| / |f| over samples; 0 where both are zero."""
    outputs, others = before(inputs), after(inputs)
    difference, size = (others - outputs).norm(dim=1), outputs.norm(dim=1)
    return float((difference / size.clamp(min=torch.finfo(size.dtype).tiny)).max())
