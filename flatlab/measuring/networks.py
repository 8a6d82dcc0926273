"""Many networks, loaded and measured one after the other, as one dataset.

A network that fails is recorded and the job continues; an interrupted job keeps its results. The
checkpoints of a grid, which share one architecture and fail together, are those of `grid`.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from flatlab.core import store
from flatlab.core.errors import MeasureError, is_device_failure
from flatlab.core.progress import Progress
from flatlab.core.registry import imported, measures_samples
from flatlab.core.resume_state import ResumeState
from flatlab.core.user_code import called, function_of
from flatlab.data._dataset import Arrays, DataError
from flatlab.data._tensors import Split, prepare
from flatlab.derivatives.checks.isolation import preserving_state
from flatlab.derivatives.per_sample.memory import BUDGET
from flatlab.losses._base import loss_of
from flatlab.measuring.dataset import Row, stacked
from flatlab.measuring.preflight import measure_family
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, quantities_of, settings_of
from flatlab.networks import _timm
from flatlab.networks._build import build
from flatlab.networks._pretrained import LazyNetwork, LoadedNetwork, of_timm

ACCURACIES = ("train_accuracy", "test_accuracy")
"""In %; unknown for networks that were trained elsewhere."""
TRAINED_BY, SHARPNESS_OF = "cross-entropy", "half-mse"
"""Losses: of the training of a zoo's networks, which are classifiers; and of its quantities."""

Values = dict[str, np.ndarray]


def measure_each(
    names: Sequence[str],
    measure: Callable[[int, dict[str, Any]], Values],
    unfinished: ResumeState | None = None,
) -> list[Row]:
    """Measure networks one after the other; one that fails has no values, and a `failure`.

    names: of the networks.
    measure: given the number of a network, and what is known of it, to which it adds, returns its
        quantities.
    unfinished: the results of an interrupted job, which go on from there; None: there are none.
    """
    rows: list[Row] = []
    failed = lambda: f"{sum(bool(row.about['failure']) for row in rows)} failed"  # noqa: E731
    progress = Progress(len(names), "networks", failed)
    for number, name in enumerate(names):
        if unfinished and (left := unfinished.load(name)):
            rows.append(Row(*left))
        else:
            rows.append(_row(name, partial(measure, number)))
            if unfinished:
                unfinished.save(name, *rows[-1])
        progress.advance(lambda: len(rows))
    progress.close(len(rows))
    return rows


def _row(name: str, measure: Callable[[dict[str, Any]], Values]) -> Row:
    about: dict[str, Any] = {"failure": "", "coordinates": {}, "described": {}}
    try:
        return Row(measure(about), about)
    except (MeasureError, DataError, RuntimeError, ValueError, MemoryError) as error:
        if is_device_failure(error):  # so would all networks that follow
            raise
        failure = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        print(f"{name}: {failure}", file=sys.stderr)
        return Row({}, {**about, "failure": failure, "coordinates": {}, "described": {}})


def measure_networks(
    settings: Mapping[str, Any], files: Any, folder: Path, unfinished: ResumeState, device: str
) -> xr.Dataset:
    """Measure the networks of one pack of a zoo.

    settings: those of a job of `flatlab.lab.kinds.networks`.
    files: `weights` and `data` of a grid's networks.
    folder: holds images and the weights of networks from elsewhere.
    unfinished: the results of an interrupted job.
    device: where to measure.

    Returns a dataset with the dimension `run`; a network that failed has NaN, and the reason in
    `failure`.
    """
    if settings["from"] == "grid":
        networks = [*_of_grid(settings, files, folder, device)]
    elif settings["from"] == "timm":
        networks = [*of_timm(settings, folder, device)]
    else:
        name, study = settings["networks"], settings["study"]
        given = {"settings": settings, "folder": folder, "device": device}
        networks = [*called(function_of(name, "networks", study), "networks", name, study, given)]

    def of_network(number: int, about: dict[str, Any]) -> Values:
        network = networks[number]
        about |= {"run": network.key, "network": network.architecture}
        about |= {"parameters": 0, "pixels": 0, "hyperparameters": dict(network.hyperparameters)}
        loaded = network.load()
        loaded.model.to(device)
        about["parameters"] = sum(p.numel() for p in loaded.model.parameters())
        about["pixels"] = loaded.inputs.shape[-1]
        values: Values = {}
        for name in settings["families"]:
            result = _of_family(name, loaded, settings, device)
            values = result.values | values
            about["coordinates"] |= result.coordinates
        return values | {name: np.array(value) for name, value in loaded.known.items()}

    return _joined(measure_each([n.key for n in networks], of_network, unfinished), settings)


def _of_family(
    name: str, network: LoadedNetwork, settings: Mapping[str, Any], device: str
) -> Measured:
    """The quantities of a family."""
    options = settings["families"][name]
    if not measures_samples(name):
        how = settings_of(name, options, loss_of({"loss": TRAINED_BY}))
        result: Measured = imported("families", name).measure_splits(
            network.model, network.splits, how
        )
        return result
    labels = None if network.labels is None else network.labels.to(device)
    samples = SampleSet(network.inputs.to(device), None, labels)
    loss = loss_of({"loss": SHARPNESS_OF})
    how = settings_of(name, options, loss, seed=settings["seed"], budget=BUDGET)
    with preserving_state(network.model):
        return measure_family(name, network.model, samples, how)


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
            for name, split in zip(ACCURACIES, (splits.train, splits.test), strict=True):
                right = split.outputs(model).argmax(1) == _labels(split)
                known[name] = 100 * right.double().mean().item()
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


def _joined(rows: list[Row], settings: Mapping[str, Any]) -> xr.Dataset:
    """One row per network; NaN where a network has no value, such as for layers of others."""
    quantities, count = _quantities(settings), len(rows)
    dims = {name: quantity.dims for name, quantity in quantities.items()}
    variables, named = stacked([((n,), row) for n, row in enumerate(rows)], {"run": count}, dims)
    described = {}
    for name, quantity in quantities.items():
        missing = ("run",), np.full(count, np.nan)
        if variable := variables.get(name, None if quantity.dims else missing):
            about = {"long_name": quantity.long_name, "units": quantity.units}
            described[name] = (*variable, about)
    known = {name: [row.about[name] for row in rows] for name in ("run", "network", "failure")}
    known["family"] = [*map(_timm.family_of, known["network"])]
    coordinates: dict[str, Any] = {n: ("run", store.as_strings(each)) for n, each in known.items()}
    for name in ("parameters", "pixels"):
        coordinates[name] = "run", np.array([row.about[name] for row in rows], np.int64)
    for name in settings.get("hyperparameters", {}):
        values = [row.about["hyperparameters"][name] for row in rows]
        if levels := settings["levels"].get(name):
            values = [levels.index(value) if value in levels else None for value in values]
        coordinates[name] = ("run", _column(values))
    return xr.Dataset(described, coords=coordinates | named)


def _quantities(settings: Mapping[str, Any]) -> dict[str, Quantity]:
    """All that may be in the table: quantities without the dimension `sample`, and accuracies."""
    families = [quantities_of(imported("families", name)) for name in settings["families"]]
    quantities = {name: quantity for family in families for name, quantity in family.items()}
    for name in ACCURACIES:
        quantities.setdefault(name, Quantity(name.replace("_", " "), "%"))
    return {name: each for name, each in quantities.items() if "sample" not in each.dims}


def _column(values: list[Any]) -> np.ndarray:
    """Numbers, with NaN for those that are unknown; or words."""
    if all(value is None or isinstance(value, int | float) for value in values):
        return np.array([np.nan if value is None else value for value in values], float)
    return store.as_strings(["" if value is None else str(value) for value in values])
