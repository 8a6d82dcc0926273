"""One job of a zoo: its networks one after the other, each measured as it comes.

What fails is recorded and the job goes on; what was measured before an interruption stays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from flatlab.data import DataError
from flatlab.jobs import Unfinished
from flatlab.jobs.progress import Progress
from flatlab.jobs.unfinished import Content
from flatlab.metrics import MeasureError, measure
from flatlab.metrics.adaptive import QUANTITIES
from flatlab.store import as_strings
from flatlab.zoos import networks, training
from flatlab.zoos.images import Images
from flatlab.zoos.members import ACCURACIES, key_of, seen_by, splits_of, trained

KEPT = [name for name, quantity in QUANTITIES.items() if "sample" not in quantity.dims]


class Candidate:
    """A network that is yet to be had.

    key: unique in the zoo.  name: of its architecture.  make: returns the network, inputs, labels
    or None, and what is known of it (`ACCURACIES`); it may raise.
    """

    def __init__(self, key: str, name: str, make: Callable[[], Any]) -> None:
        self.key, self.name, self.make = key, name, make


def survey(
    settings: Mapping[str, Any],
    folder: Path,
    unfinished: Unfinished,
    raw: xr.Dataset | None = None,
    members: Content | None = None,
    device: str = "cpu",
) -> xr.Dataset:
    """Measure the networks of one job.

    settings: of `flatlab.plan.zoos.survey_settings`.  folder: where images and weights of networks
    from elsewhere lie.  unfinished: what an interrupted job has left.  raw, members: of networks
    that were trained here, the data file, and what `train_members` has made.  device: where to
    measure. Returns a dataset with
    the dimension `run`; a network that failed has the reason in `failure`, and NaN.
    """
    if raw is not None and members is not None:
        candidates = list(_trained(settings, raw, members))
    else:
        candidates = list(_elsewhere(settings, folder))
    rows: list[dict[str, Any]] = []
    progress = Progress(len(candidates), "networks", lambda: f"{_failed(rows)} failed")
    for number, candidate in enumerate(candidates):
        left = unfinished.load(candidate.key)
        if left is None:
            row = _row(candidate, settings, device)
            unfinished.save(candidate.key, row.pop("values"), row)
            left = unfinished.load(candidate.key)
        assert left is not None  # it was written a moment ago
        values, about = left
        rows.append({**about, "values": values})
        progress.advance(lambda done=number + 1: done)  # type: ignore[misc]
    progress.close(len(candidates))
    return _joined(rows)


def _row(candidate: Candidate, settings: Mapping[str, Any], device: str) -> dict[str, Any]:
    """What is found of one network: its numbers, and in words why there are none."""
    about = {"run": candidate.key, "network": candidate.name, "parameters": 0, "pixels": 0}
    numbers = dict.fromkeys([*KEPT, *ACCURACIES], float("nan"))
    failure = ""
    try:
        model, inputs, labels, known = candidate.make()
        about |= {"parameters": networks.parameters_of(model), "pixels": inputs.shape[-1]}
        report = measure(
            model.to(device),
            inputs.to(device),
            None if labels is None else labels.to(device),
            families=["adaptive"],
            adaptive=settings["adaptive"],
            seed=settings["seed"],
        )
        numbers |= {name: float(report[name]) for name in KEPT if name in report} | known
    except (MeasureError, DataError, RuntimeError, ValueError, MemoryError) as error:
        failure = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        print(f"{candidate.key}: {failure}", file=sys.stderr)
    values = {name: np.array(number) for name, number in numbers.items()}
    return {**about, "failure": failure, "values": values}


def _trained(settings: Mapping[str, Any], raw: xr.Dataset, members: Content) -> Iterator[Candidate]:
    chosen, (weights, about) = settings["trained"], members
    splits = splits_of(raw, chosen)

    def make(design: Mapping[str, Any], facts: Mapping[str, Any]) -> Any:
        if facts["failure"]:
            raise MeasureError(facts["failure"])
        subset = seen_by(design, splits.train.subset(settings["samples"], settings["seed"]))
        model = trained(design, splits, weights)
        return model, subset.inputs, training.labels_of(subset), {n: facts[n] for n in ACCURACIES}

    for design in chosen["networks"]:
        key = key_of(design)
        yield Candidate(key, design["name"], lambda d=design, k=key: make(d, about[k]))  # type: ignore[misc]


def _elsewhere(settings: Mapping[str, Any], folder: Path) -> Iterator[Candidate]:
    chosen = settings["pretrained"]
    weights = folder / "timm"
    images = Images(folder / chosen["images"], settings["samples"], settings["seed"])

    own = settings["adaptive"].get("targets") == "own"

    def make(name: str) -> Any:
        model = networks.load(name, weights)
        configuration = networks.configuration(model)
        outputs, pixels = networks.outputs_of(model), configuration["input_size"][-1]
        if outputs != chosen["classes"] or pixels > chosen["size_at_most"]:
            raise MeasureError(f"left out: {outputs} outputs, inputs of {pixels} pixels")
        labels = None if own else images.labels(outputs)
        return model, images.inputs(configuration), labels, {}

    for name in networks.wanted(chosen["networks"], weights)[settings["part"] :: settings["jobs"]]:
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
    words = {key: as_strings([row[key] for row in rows]) for key in ("run", "network", "failure")}
    families = as_strings([networks.family_of(row["network"]) for row in rows])
    coordinates: dict[str, Any] = {
        **{key: ("run", values) for key, values in words.items()},
        "family": ("run", families),
        "parameters": ("run", np.array([row["parameters"] for row in rows], dtype=np.int64)),
        "pixels": ("run", np.array([row["pixels"] for row in rows], dtype=np.int64)),
    }
    return xr.Dataset(variables, coords=coordinates)
