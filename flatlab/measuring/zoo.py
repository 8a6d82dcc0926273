"""One pack of a zoo: its networks are built and measured one after the other.

A network that fails is recorded and the job continues; an interrupted job keeps its results.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
import xarray as xr
from torch import Tensor, nn

from flatlab.api.measure import measure
from flatlab.core import store
from flatlab.core.errors import MeasureError, is_device_failure
from flatlab.core.progress import Progress
from flatlab.core.registry import imported, measures_samples
from flatlab.core.resume_state import ResumeState
from flatlab.data._dataset import Arrays, DataError
from flatlab.data._tensors import Split, Splits, prepare
from flatlab.derivatives.per_sample.memory import BUDGET
from flatlab.losses._base import loss_of
from flatlab.measuring.quantity import Measured, Quantity, quantities_of, settings_of
from flatlab.measuring.stacked import stacked
from flatlab.networks import _timm
from flatlab.networks._build import build

ACCURACIES = ("train_accuracy", "test_accuracy")
"""In %; unknown for networks that were trained elsewhere."""

LOSS = "cross-entropy"
"""Networks of a zoo are classifiers."""


class LoadedNetwork(NamedTuple):
    """A network and what it is measured on.

    model: the network, in evaluation mode.
    inputs: (samples, ...).
    labels: classes of the inputs, (samples,); None if the outputs are the targets.
    splits: for families that compare test sets.
    known: values of quantities that are known without measuring.
    """

    model: nn.Module
    inputs: Tensor
    labels: Tensor | None = None
    splits: Splits | None = None
    known: Mapping[str, float] = {}


class LazyNetwork(NamedTuple):
    """An entry of a zoo; `build()` loads the network and may raise.

    key: its row in the table.
    architecture: its name.
    build: makes the network and its samples.
    hyperparameters: coordinates of the table.
    """

    key: str
    architecture: str
    build: Callable[[], LoadedNetwork]
    hyperparameters: Mapping[str, Any] = {}


def measure_zoo(
    settings: Mapping[str, Any], files: Any, folder: Path, unfinished: ResumeState, device: str
) -> xr.Dataset:
    """Measure the networks of one pack.

    settings: those of `flatlab.lab.kinds.zoo`.
    files: `weights` and `data` of a grid's networks.
    folder: holds images and the weights of networks from elsewhere.
    unfinished: the results of an interrupted job.
    device: where to measure.

    Returns a dataset with the dimension `run`; a network that failed has NaN, and the reason in
    `failure`.
    """
    if "networks" in settings:
        networks = list(_of_grid(settings, files, folder, device))
    else:
        from flatlab.measuring import pretrained as _pretrained

        networks = list(_pretrained.networks(settings, folder, device))
    rows: list[tuple[dict[str, np.ndarray], dict[str, Any]]] = []
    progress = Progress(
        len(networks), "networks", lambda: f"{sum(bool(row['failure']) for _, row in rows)} failed"
    )
    for network in networks:
        if left := unfinished.load(network.key):
            rows.append(left)
        else:
            rows.append(_measured(network, settings, device))
            unfinished.save(network.key, *rows[-1])
        progress.advance(lambda: len(rows))
    progress.close(len(rows))
    return _joined(rows, settings)


def _measured(
    network: LazyNetwork, settings: Mapping[str, Any], device: str
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The quantities of a network, and what is known of it, which JSON has."""
    about: dict[str, Any] = {"parameters": 0, "pixels": 0, "failure": "", "coordinates": {}}
    about |= {"run": network.key, "network": network.architecture}
    about["hyperparameters"] = dict(network.hyperparameters)
    values: dict[str, np.ndarray] = {}
    try:
        loaded = network.build()
        loaded.model.to(device)
        about["parameters"] = sum(p.numel() for p in loaded.model.parameters())
        about["pixels"] = loaded.inputs.shape[-1]
        for name in settings["families"]:
            measured = _of_family(name, loaded, settings, device)
            values = measured.values | values
            about["coordinates"] |= measured.coordinates
        values |= {name: np.array(value) for name, value in loaded.known.items()}
    except (MeasureError, DataError, RuntimeError, ValueError, MemoryError) as error:
        if is_device_failure(error):  # so would all networks that follow
            raise
        values = {}
        about["failure"] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        print(f"{network.key}: {about['failure']}", file=sys.stderr)
    return values, about


def _of_family(
    name: str, network: LoadedNetwork, settings: Mapping[str, Any], device: str
) -> Measured:
    """The quantities of a family that have no dimension `sample`."""
    options, family = settings["families"][name], imported("metrics", name)
    if not measures_samples(name):
        how = settings_of(name, options, loss_of({"loss": LOSS}))
        return family.measure_splits(network.model, network.splits, how)
    labels = None if network.labels is None else network.labels.to(device)
    report = measure(
        network.model,
        network.inputs.to(device),
        labels,
        families=[name],
        seed=settings["seed"],
        memory=BUDGET,
        **options,
    )
    kept = [n for n in quantities_of(family) if n in report and "sample" not in report[n].dims]
    dims = {str(dim) for n in kept for dim in report[n].dims}
    coordinates = {dim: report[dim].values.tolist() for dim in dims}
    return Measured({n: report[n].values for n in kept}, coordinates)


def _of_grid(
    settings: Mapping[str, Any], files: Any, folder: Path, device: str
) -> Iterator[LazyNetwork]:
    raw = {Path(path).name: store.load_dataset(path) for path in files.data}
    packs = [store.TrainedPack.load(path) for path in files.weights]
    further: dict[str, dict[str, Arrays]] = {}

    def load(chosen: Mapping[str, Any]) -> LoadedNetwork:
        file = f"{chosen['data']['set']}.zarr.zip"
        if file not in further:
            further[file] = _test_sets(raw[file], chosen["data"]["classes"], settings, folder)
        how = chosen["data"], chosen["outputs"], torch.float32, device
        splits = prepare(raw[file], *how, further[file])
        model = build(chosen["network"], tuple(splits.train.inputs.shape[1:]), splits.outputs)
        state = packs[chosen["file"]].state(chosen["run"])
        model.load_state_dict({name: torch.tensor(array) for name, array in state.items()})
        model.to(device).eval()
        known = {}
        if "accuracy" not in settings["families"]:
            accuracies = [_accuracy(model, split) for split in (splits.train, splits.test)]
            known = dict(zip(ACCURACIES, accuracies, strict=True))
        subset = splits.train.subset(settings["samples"], settings["seed"])
        return LoadedNetwork(model, subset.inputs, _labels(subset), splits, known)

    for chosen in settings["networks"]:
        network, pack = chosen["network"], packs[chosen["file"]]
        name = network["options"].get("model", network["name"])
        known = dict(chosen["hyperparameters"])
        if "lr" in pack.about:  # drawn by each run
            known["lr"] = pack.about["lr"][pack.runs.index(chosen["run"])]
        wanted = settings.get("hyperparameters", {})
        values = {coordinate: known.get(key) for coordinate, key in wanted.items()}
        yield LazyNetwork(chosen["run"], name, partial(load, chosen), values)


def _test_sets(
    raw: xr.Dataset, classes: Any, settings: Mapping[str, Any], folder: Path
) -> dict[str, Arrays]:
    """The inputs and labels of further test sets of a grid's data set, by name."""
    test_sets = {}
    for name, chosen in settings.get("test_sets", {}).items():
        if chosen["corrupted"]:
            corruptions = imported("data", "corruptions")
            test_sets[name] = corruptions.test_set(raw, chosen["corrupted"], classes, folder)
        elif f"{chosen['part']}_inputs" in raw:
            test_sets[name] = tuple(
                raw[f"{chosen['part']}_{kind}"].values for kind in ("inputs", "labels")
            )
        else:
            raise DataError(
                f"test_sets.{name}: {raw.attrs['title']} has no part {chosen['part']!r}"
            )
    return test_sets


def _labels(split: Split) -> Tensor:
    if split.labels is None:
        raise DataError("networks of a zoo are classifiers, but these data have no labels")
    return split.labels


def _accuracy(model: nn.Module, split: Split) -> float:
    return 100 * split.outputs(model).argmax(1).eq(_labels(split)).double().mean().item()


def _joined(
    rows: list[tuple[dict[str, np.ndarray], dict[str, Any]]], settings: Mapping[str, Any]
) -> xr.Dataset:
    """One row per network; NaN where a network has no value, such as for layers of others."""
    frame = pd.DataFrame([about for _, about in rows])
    frame["family"] = frame["network"].map(_timm.family_of)
    measured: dict[tuple[int, ...], Measured] = {
        (number,): Measured(values, about["coordinates"])
        for number, (values, about) in enumerate(rows)
    }
    quantities, networks = _quantities(settings), {"run": len(rows)}
    variables, named = stacked(measured, networks, quantities)
    described = {}
    for name, quantity in quantities.items():
        missing = ("run",), np.full(len(rows), np.nan)
        if variable := variables.get(name, None if quantity.dims else missing):
            about = {"long_name": quantity.long_name, "units": quantity.units}
            described[name] = (*variable, about)
    words = ("run", "network", "failure", "family")
    coordinates: dict[str, Any] = {n: ("run", store.as_strings(list(frame[n]))) for n in words}
    coordinates |= {n: ("run", frame[n].to_numpy(np.int64)) for n in ("parameters", "pixels")}
    for name in settings.get("hyperparameters", {}):
        values = [by_name[name] for by_name in frame["hyperparameters"]]
        if levels := settings["levels"].get(name):
            values = [levels.index(value) if value in levels else None for value in values]
        coordinates[name] = ("run", _column(values))
    return xr.Dataset(described, coords=coordinates | named)


def _quantities(settings: Mapping[str, Any]) -> dict[str, Quantity]:
    """All that may be in the table: quantities without the dimension `sample`, and accuracies."""
    families = [quantities_of(imported("metrics", name)) for name in settings["families"]]
    quantities = {name: quantity for family in families for name, quantity in family.items()}
    for name in ACCURACIES:
        quantities.setdefault(name, Quantity(name.replace("_", " "), "%", ""))
    return {name: each for name, each in quantities.items() if "sample" not in each.dims}


def _column(values: list[Any]) -> np.ndarray:
    """Numbers, with NaN for those that are unknown; or words."""
    if all(value is None or isinstance(value, int | float) for value in values):
        return np.array([np.nan if value is None else value for value in values], float)
    return store.as_strings(["" if value is None else str(value) for value in values])
