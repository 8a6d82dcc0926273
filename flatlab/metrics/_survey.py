"""One pack of a zoo: its networks are built and measured one after the other.

A network that fails is recorded and the job continues; an interrupted job keeps its results.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr
from torch import Tensor, nn

from flatlab import store
from flatlab.data import DataError
from flatlab.data._images import Images
from flatlab.jobs import Unfinished
from flatlab.jobs.progress import Progress
from flatlab.metrics import MeasureError, measure
from flatlab.metrics.adaptive import QUANTITIES
from flatlab.networks import _timm, build
from flatlab.splits import Split, prepare

KEPT = [name for name, quantity in QUANTITIES.items() if "sample" not in quantity.dims]
ACCURACIES = ("train_accuracy", "test_accuracy")
"""In %; unknown for networks that were trained elsewhere."""

Subject = tuple[nn.Module, Tensor, Tensor | None, dict[str, float]]
"""A network, its inputs, its labels (None if its outputs are the targets) and its accuracies."""

Candidate = tuple[str, str, Callable[[], Subject]]
"""A network by its key in the zoo, its architecture, and what builds it, which may raise."""


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
    of_grid = "networks" in settings
    candidates = list(_of_grid(settings, files) if of_grid else _from_elsewhere(settings, folder))
    rows: list[dict[str, Any]] = []
    progress = Progress(
        len(candidates), "networks", lambda: f"{sum(bool(row['failure']) for row in rows)} failed"
    )
    for key, name, make in candidates:
        if left := unfinished.load(key):
            rows.append(left[1])
        else:
            rows.append({"run": key, "network": name, **_measured(key, make, settings, device)})
            unfinished.save(key, {}, rows[-1])
        progress.advance(lambda: len(rows))
    progress.close(len(rows))
    return _joined(rows)


def _measured(
    key: str, make: Callable[[], Subject], settings: Mapping[str, Any], device: str
) -> dict[str, Any]:
    row = {"parameters": 0, "pixels": 0, "failure": ""}
    row |= dict.fromkeys([*KEPT, *ACCURACIES], float("nan"))
    try:
        model, inputs, labels, accuracies = make()
        row |= {"parameters": sum(p.numel() for p in model.parameters())}
        row["pixels"] = inputs.shape[-1]
        report = measure(
            model.to(device),
            inputs.to(device),
            None if labels is None else labels.to(device),
            families=["adaptive"],
            seed=settings["seed"],
            **settings["adaptive"],
        )
        row |= {name: float(report[name]) for name in KEPT if name in report} | accuracies
    except (MeasureError, DataError, RuntimeError, ValueError, MemoryError) as error:
        row["failure"] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        print(f"{key}: {row['failure']}", file=sys.stderr)
    return row


def _of_grid(settings: Mapping[str, Any], files: Any) -> Iterator[Candidate]:
    raw = {Path(path).name: store.load_dataset(path) for path in files.data}
    weights = [store.load_weights(path) for path in files.weights]

    def make(chosen: Mapping[str, Any]) -> Subject:
        file = raw[f"{chosen['data']['set']}.zarr.zip"]
        splits = prepare(file, chosen["data"], chosen["outputs"], torch.float32)
        model = build(chosen["network"], tuple(splits.train.inputs.shape[1:]), splits.outputs)
        arrays, about = weights[chosen["file"]]
        run = about["runs"].index(chosen["run"])
        model.load_state_dict(
            {name: torch.tensor(array[run, -1]) for name, array in arrays.items()}
        )
        model.eval()
        found = [_accuracy(model, split) for split in (splits.train, splits.test)]
        subset = splits.train.subset(settings["samples"], settings["seed"])
        accuracies = dict(zip(ACCURACIES, found, strict=True))
        return model, subset.inputs, _labels(subset), accuracies

    for chosen in settings["networks"]:
        network = chosen["network"]
        name = network["options"].get("model", network["name"])
        yield chosen["run"], name, partial(make, chosen)


def _labels(split: Split) -> Tensor:
    if split.labels is None:
        raise DataError("networks of a zoo are classifiers, but these data have no labels")
    return split.labels


def _accuracy(model: nn.Module, split: Split) -> float:
    return 100 * split.outputs(model).argmax(1).eq(_labels(split)).double().mean().item()


def _from_elsewhere(settings: Mapping[str, Any], folder: Path) -> Iterator[Candidate]:
    """Pretrained networks of timm: this job's share of those in the settings."""
    chosen = settings["pretrained"]
    weights = folder / "timm"
    images = Images(folder / chosen["images"], settings["samples"], settings["seed"])
    own = settings["adaptive"].get("own_targets")

    def make(name: str) -> Subject:
        model = _timm.load(name, weights)
        configuration = _timm.configuration(model)
        outputs, pixels = getattr(model, "num_classes", 0), configuration["input_size"][-1]
        if outputs != chosen["classes"] or pixels > chosen["size_at_most"]:
            raise MeasureError(f"left out: {outputs} outputs, inputs of {pixels} pixels")
        return model, images.inputs(configuration), None if own else images.labels(outputs), {}

    for name in _timm.wanted(chosen["networks"], weights)[settings["part"] :: settings["jobs"]]:
        yield name, name, partial(make, name)


def _joined(rows: list[dict[str, Any]]) -> xr.Dataset:
    about = {name: (QUANTITIES[name].long_name, QUANTITIES[name].units) for name in KEPT}
    about |= {name: (name.replace("_", " "), "%") for name in ACCURACIES}
    frame = pd.DataFrame(rows)
    frame["family"] = frame["network"].map(_timm.family_of)
    variables = {
        name: ("run", frame[name].to_numpy(float), {"long_name": long_name, "units": units})
        for name, (long_name, units) in about.items()
    }
    words = ("run", "network", "failure", "family")
    coordinates: dict[str, Any] = {n: ("run", store.as_strings(list(frame[n]))) for n in words}
    coordinates |= {n: ("run", frame[n].to_numpy(np.int64)) for n in ("parameters", "pixels")}
    return xr.Dataset(variables, coords=coordinates)
