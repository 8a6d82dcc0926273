"""One pack of a zoo: its networks are built and measured one after the other.

A network that fails is recorded and the job continues; an interrupted job keeps its results.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
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
from flatlab.splits import EVALUATED, Split, prepare

KEPT = [name for name, quantity in QUANTITIES.items() if "sample" not in quantity.dims]
ACCURACIES = ("train_accuracy", "test_accuracy")
"""In %; unknown for networks that were trained elsewhere."""


@dataclass(frozen=True)
class Subject:
    """A network and its samples.

    labels: None if the targets are its own outputs.  known: further quantities of the network.
    """

    model: nn.Module
    inputs: Tensor
    labels: Tensor | None
    known: Mapping[str, float]


@dataclass(frozen=True)
class Candidate:
    """A network that `make` builds when its turn comes; `make` may raise.

    key: unique in the zoo.  name: its architecture.
    """

    key: str
    name: str
    make: Callable[[], Subject]


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
        candidates = list(_of_grid(settings, files))
    else:
        candidates = list(_from_elsewhere(settings, folder))
    rows: list[dict[str, Any]] = []
    progress = Progress(len(candidates), "networks", lambda: f"{_failed(rows)} failed")
    for number, candidate in enumerate(candidates):
        left = unfinished.load(candidate.key)
        if left is None:
            row = _row(candidate, settings, device)
            unfinished.save(candidate.key, row.pop("values"), row)
            left = unfinished.load(candidate.key)
        assert left is not None
        values, about = left
        rows.append({**about, "values": values})
        progress.advance(lambda done=number + 1: done)  # type: ignore[misc]
    progress.close(len(candidates))
    return _joined(rows)


def _row(candidate: Candidate, settings: Mapping[str, Any], device: str) -> dict[str, Any]:
    """The results of one network, or the reason why there are none."""
    about = {"run": candidate.key, "network": candidate.name, "parameters": 0, "pixels": 0}
    numbers = dict.fromkeys([*KEPT, *ACCURACIES], float("nan"))
    failure = ""
    try:
        subject = candidate.make()
        model, inputs, labels = subject.model, subject.inputs, subject.labels
        about |= {"parameters": _timm.parameters_of(model), "pixels": inputs.shape[-1]}
        report = measure(
            model.to(device),
            inputs.to(device),
            None if labels is None else labels.to(device),
            families=["adaptive"],
            seed=settings["seed"],
            **settings["adaptive"],
        )
        numbers |= {name: float(report[name]) for name in KEPT if name in report}
        numbers |= subject.known
    except (MeasureError, DataError, RuntimeError, ValueError, MemoryError) as error:
        failure = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        print(f"{candidate.key}: {failure}", file=sys.stderr)
    values = {name: np.array(number) for name, number in numbers.items()}
    return {**about, "failure": failure, "values": values}


def _of_grid(settings: Mapping[str, Any], files: Any) -> Iterator[Candidate]:
    """The networks of a grid at the end of training."""
    raw = {Path(path).name: store.load_dataset(path) for path in files.data}
    weights = [store.load_weights(path) for path in files.weights]

    def make(chosen: Mapping[str, Any]) -> Subject:
        data, network = chosen["data"], chosen["network"]
        file = raw[f"{data['set']}.zarr.zip"]
        splits = prepare(file, data, chosen["outputs"], torch.float32)
        shape = tuple(splits.train.inputs.shape[1:])
        model = build(network, shape, splits.outputs)
        arrays, about = weights[chosen["file"]]
        run = about["runs"].index(chosen["run"])
        state = {name: torch.tensor(array[run, -1]) for name, array in arrays.items()}
        model.load_state_dict(state)
        model.eval()
        known = {
            name: accuracy(model, split)
            for name, split in zip(ACCURACIES, (splits.train, splits.test), strict=True)
        }
        subset = splits.train.subset(settings["samples"], settings["seed"])
        return Subject(model, subset.inputs, labels_of(subset), known)

    for chosen in settings["networks"]:
        network = chosen["network"]
        name = network["options"].get("model", network["name"])
        yield Candidate(chosen["run"], name, lambda c=chosen: make(c))  # type: ignore[misc]


def labels_of(split: Split) -> Tensor:
    """The labels of a split; `DataError` if it has none."""
    if split.labels is None:
        raise DataError("networks of a zoo are classifiers, but these data have no labels")
    return split.labels


@torch.no_grad()
def accuracy(model: nn.Module, split: Split) -> float:
    """The accuracy on all samples, in %."""
    outputs = torch.cat([model(inputs) for inputs in split.inputs.split(EVALUATED)])
    return 100 * outputs.argmax(1).eq(labels_of(split)).double().mean().item()


def _from_elsewhere(settings: Mapping[str, Any], folder: Path) -> Iterator[Candidate]:
    """Pretrained networks of timm: this job's share of those in the settings."""
    chosen = settings["pretrained"]
    weights = folder / "timm"
    images = Images(folder / chosen["images"], settings["samples"], settings["seed"])
    own = settings["adaptive"].get("own_targets")

    def make(name: str) -> Subject:
        model = _timm.load(name, weights)
        configuration = _timm.configuration(model)
        outputs, pixels = _timm.outputs_of(model), configuration["input_size"][-1]
        if outputs != chosen["classes"] or pixels > chosen["size_at_most"]:
            raise MeasureError(f"left out: {outputs} outputs, inputs of {pixels} pixels")
        labels = None if own else images.labels(outputs)
        return Subject(model, images.inputs(configuration), labels, {})

    for name in _timm.wanted(chosen["networks"], weights)[settings["part"] :: settings["jobs"]]:
        yield Candidate(name, name, lambda n=name: make(n))  # type: ignore[misc]


def _failed(rows: list[dict[str, Any]]) -> int:
    return sum(bool(row["failure"]) for row in rows)


def _joined(rows: list[dict[str, Any]]) -> xr.Dataset:
    variables: dict[str, Any] = {
        name: (
            "run",
            np.array([float(row["values"][name]) for row in rows]),
            {"long_name": QUANTITIES[name].long_name, "units": QUANTITIES[name].units}
            if name in QUANTITIES
            else {"long_name": name.replace("_", " "), "units": "%"},
        )
        for name in [*KEPT, *ACCURACIES]
    }
    words = {
        key: store.as_strings([row[key] for row in rows]) for key in ("run", "network", "failure")
    }
    families = store.as_strings([_timm.family_of(row["network"]) for row in rows])
    coordinates: dict[str, Any] = {
        **{key: ("run", values) for key, values in words.items()},
        "family": ("run", families),
        "parameters": ("run", np.array([row["parameters"] for row in rows], dtype=np.int64)),
        "pixels": ("run", np.array([row["pixels"] for row in rows], dtype=np.int64)),
    }
    return xr.Dataset(variables, coords=coordinates)
