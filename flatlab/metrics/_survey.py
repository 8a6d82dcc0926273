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

from flatlab import store
from flatlab.data._dataset import Arrays, DataError
from flatlab.data._tensors import Split, Splits, prepare
from flatlab.derivatives.guard import is_of_device
from flatlab.jobs import Unfinished
from flatlab.jobs.progress import Progress
from flatlab.losses._base import loss_of
from flatlab.metrics import MeasureError, Quantity, measure, settings_of
from flatlab.networks import _timm
from flatlab.networks._build import build
from flatlab.plan.registry import imported, measures_samples

ACCURACIES = ("train_accuracy", "test_accuracy")
"""In %; unknown for networks that were trained elsewhere."""

LOSS = "cross-entropy"
"""Networks of a zoo are classifiers."""


class Subject(NamedTuple):
    """A network and what it is measured on.

    labels: of the inputs (samples); None if the outputs are the targets.  splits: for families that
    compare test sets, from the name of one of them.  known: what is known without measuring.
    """

    model: nn.Module
    inputs: Tensor
    labels: Tensor | None = None
    splits: Splits | None = None
    known: Mapping[str, float] = {}


class Candidate(NamedTuple):
    """A network by its key in the zoo, its architecture, and what builds it, which may raise."""

    key: str
    network: str
    make: Callable[[], Subject]
    hyperparameters: Mapping[str, Any] = {}


def survey(
    settings: Mapping[str, Any], files: Any, folder: Path, unfinished: Unfinished, device: str
) -> xr.Dataset:
    """Measure the networks of one pack.

    settings: those of `flatlab.experiments.zoo`.  files: `weights` and `data` of a grid's networks.
    folder: holds images and the weights of networks from elsewhere.  unfinished: the results of an
    interrupted job.  device: where to measure.
    Returns a dataset with the dimension `run`; a network that failed has NaN, and the reason in
    `failure`.
    """
    if "networks" in settings:
        candidates = list(_of_grid(settings, files, folder, device))
    else:
        from flatlab.metrics import _elsewhere

        candidates = list(_elsewhere.candidates(settings, folder, device))
    rows: list[tuple[dict[str, np.ndarray], dict[str, Any]]] = []
    progress = Progress(
        len(candidates),
        "networks",
        lambda: f"{sum(bool(row['failure']) for _, row in rows)} failed",
    )
    for candidate in candidates:
        if left := unfinished.load(candidate.key):
            rows.append(left)
        else:
            rows.append(_measured(candidate, settings, device))
            unfinished.save(candidate.key, *rows[-1])
        progress.advance(lambda: len(rows))
    progress.close(len(rows))
    return _joined(rows, settings)


def _measured(
    candidate: Candidate, settings: Mapping[str, Any], device: str
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The quantities of a network, and what is known of it, which JSON has."""
    about: dict[str, Any] = {"parameters": 0, "pixels": 0, "failure": "", "coordinates": {}}
    about |= {"run": candidate.key, "network": candidate.network}
    about["hyperparameters"] = dict(candidate.hyperparameters)
    found: dict[str, np.ndarray] = {}
    try:
        subject = candidate.make()
        subject.model.to(device)
        about["parameters"] = sum(p.numel() for p in subject.model.parameters())
        about["pixels"] = subject.inputs.shape[-1]
        for name in settings["families"]:
            values, coordinates = _of_family(name, subject, settings, device)
            found |= values
            about["coordinates"] |= coordinates
        found |= {name: np.array(value) for name, value in subject.known.items()}
    except (MeasureError, DataError, RuntimeError, ValueError, MemoryError) as error:
        if is_of_device(error):  # so would all networks that follow
            raise
        found = {}
        about["failure"] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        print(f"{candidate.key}: {about['failure']}", file=sys.stderr)
    return found, about


def _of_family(
    name: str, subject: Subject, settings: Mapping[str, Any], device: str
) -> tuple[dict[str, np.ndarray], dict[str, list[str]]]:
    """The quantities of a family that have no dimension `sample`, and the names along others."""
    options, quantities = settings["families"][name], imported("metrics", name).QUANTITIES
    if not measures_samples(name):
        how = settings_of(name, options, loss_of({"loss": LOSS}))
        splits = subject.splits
        measured = imported("metrics", name).measure_splits(subject.model, splits, how)
        return measured.values, measured.coordinates
    labels = None if subject.labels is None else subject.labels.to(device)
    report = measure(
        subject.model,
        subject.inputs.to(device),
        labels,
        families=[name],
        seed=settings["seed"],
        **options,
    )
    kept = [n for n in quantities if n in report and "sample" not in report[n].dims]
    dims = {str(dim) for n in kept for dim in report[n].dims}
    coordinates = {dim: report[dim].values.tolist() for dim in dims}
    return {n: report[n].values for n in kept}, coordinates


def _of_grid(
    settings: Mapping[str, Any], files: Any, folder: Path, device: str
) -> Iterator[Candidate]:
    raw = {Path(path).name: store.load_dataset(path) for path in files.data}
    packs = [store.TrainedPack.load(path) for path in files.weights]
    further: dict[str, dict[str, Arrays]] = {}

    def make(chosen: Mapping[str, Any]) -> Subject:
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
            found = [_accuracy(model, split) for split in (splits.train, splits.test)]
            known = dict(zip(ACCURACIES, found, strict=True))
        subset = splits.train.subset(settings["samples"], settings["seed"])
        return Subject(model, subset.inputs, _labels(subset), splits, known)

    for chosen in settings["networks"]:
        network, pack = chosen["network"], packs[chosen["file"]]
        name = network["options"].get("model", network["name"])
        known = dict(chosen["hyperparameters"])
        if "lr" in pack.about:  # drawn by each run
            known["lr"] = pack.about["lr"][pack.runs.index(chosen["run"])]
        wanted = settings.get("hyperparameters", {})
        values = {coordinate: known.get(key) for coordinate, key in wanted.items()}
        yield Candidate(chosen["run"], name, partial(make, chosen), values)


def _test_sets(
    raw: xr.Dataset, classes: Any, settings: Mapping[str, Any], folder: Path
) -> dict[str, Arrays]:
    """The inputs and labels of further test sets of a grid's data set, by name."""
    found = {}
    for name, chosen in settings.get("test_sets", {}).items():
        if chosen["corrupted"]:
            corruptions = imported("data", "corruptions")
            found[name] = corruptions.test_set(raw, chosen["corrupted"], classes, folder)
        elif f"{chosen['part']}_inputs" in raw:
            found[name] = tuple(
                raw[f"{chosen['part']}_{kind}"].values for kind in ("inputs", "labels")
            )
        else:
            raise DataError(
                f"test_sets.{name}: {raw.attrs['title']} has no part {chosen['part']!r}"
            )
    return found


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
    named: dict[str, list[str]] = {}
    for of_network in frame["coordinates"]:
        for dim, names in of_network.items():
            named[dim] = list(dict.fromkeys([*named.get(dim, []), *names]))
    variables = {}
    for name, quantity in _quantities(settings).items():
        there = [n for n, (arrays, _) in enumerate(rows) if name in arrays]
        if quantity.dims and not there:
            continue
        values = np.full((len(rows), *(len(named[dim]) for dim in quantity.dims)), np.nan)
        for number in there:
            arrays, row = rows[number]
            own = [[named[d].index(n) for n in row["coordinates"][d]] for d in quantity.dims]
            place: tuple[Any, ...] = (number, *np.ix_(*own))
            values[place] = arrays[name]
        about = {"long_name": quantity.long_name, "units": quantity.units}
        variables[name] = (("run", *quantity.dims), values, about)
    words = ("run", "network", "failure", "family")
    coordinates: dict[str, Any] = {n: ("run", store.as_strings(list(frame[n]))) for n in words}
    coordinates |= {n: ("run", frame[n].to_numpy(np.int64)) for n in ("parameters", "pixels")}
    for name in settings.get("hyperparameters", {}):
        given = [each[name] for each in frame["hyperparameters"]]
        if levels := settings["levels"].get(name):
            given = [levels.index(value) if value in levels else None for value in given]
        coordinates[name] = ("run", _column(given))
    coordinates |= {dim: store.as_strings(names) for dim, names in named.items()}
    return xr.Dataset(variables, coords=coordinates)


def _quantities(settings: Mapping[str, Any]) -> dict[str, Quantity]:
    """All that may be in the table: quantities without the dimension `sample`, and accuracies."""
    families = [imported("metrics", name).QUANTITIES for name in settings["families"]]
    found = {name: each for family in families for name, each in family.items()}
    for name in ACCURACIES:
        found.setdefault(name, Quantity(name.replace("_", " "), "%", ""))
    return {name: each for name, each in found.items() if "sample" not in each.dims}


def _column(values: list[Any]) -> np.ndarray:
    """Numbers, with NaN for those that are unknown; or words."""
    if all(value is None or isinstance(value, int | float) for value in values):
        return np.array([np.nan if value is None else value for value in values], float)
    return store.as_strings(["" if value is None else str(value) for value in values])
