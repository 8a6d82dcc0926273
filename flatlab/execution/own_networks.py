"""Networks that were trained elsewhere, from files to a table as that of a grid."""

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import nn

from flatlab.data._dataset import DataError, load
from flatlab.data._npz import load_npz
from flatlab.data._tensors import Split, prepare
from flatlab.derivatives.errors import MeasureError, is_device_failure
from flatlab.execution.own_code import called, function_of
from flatlab.jobs.progress import Progress
from flatlab.jobs.resume_state import ResumeState
from flatlab.losses._base import loss_of
from flatlab.metrics._measure import measure
from flatlab.networks._files import load_state
from flatlab.plan.registry import keys_of
from flatlab.tables.own_networks import Row, gather
from flatlab.tables.run_records import RunRecords

SPLITS = "accuracy"
"""The family that compares training with test samples."""


@dataclass(frozen=True)
class Measurement:
    """How networks from elsewhere are measured.

    model: `module:function`, which builds a network from those hyper-parameters that it takes.
    data: a .npz file, a folder of images by class, or a data set's key.
    families: of quantities, or ["all"].
    loss: of their training; None: cross-entropy for classes, half-mse for numbers.
    samples: how many training samples the families are measured on; None: all.
    seed: that draws the samples, and the numbers of families that draw some.
    scaling: of images; arrays in a .npz are taken as they are.
    batch_size: samples at a time; None: what fits.
    dtype: of the arithmetic; None: that of the weights.
    device: "cpu" or "cuda".
    options: of families and of the loss.
    """

    model: str
    data: str
    families: tuple[str, ...] = ("geometry",)
    loss: str | None = None
    samples: int | None = 100
    seed: int = 0
    scaling: str = "unit"
    batch_size: int | None = None
    dtype: str | None = None
    device: str = "cpu"
    options: tuple[tuple[str, Any], ...] = ()


def table_of(
    records: RunRecords, how: Measurement, key: str, unfinished: ResumeState
) -> xr.Dataset:
    """Measure every network, and join the results to a table.

    records: the files, with hyper-parameters and outcomes.
    how: they are measured.
    key: what the table is called.
    unfinished: the results of an interrupted attempt.

    Every file is read and fitted into its network before the first is measured, so that a wrong one
    is told at once. A network that a family refuses is in the table without values, and `failure`
    says why. Raises `MeasureError` or `DataError`.
    """
    if how.device == "cuda" and not torch.cuda.is_available():
        raise MeasureError("--device cuda: torch sees no GPU; leave it out to measure on the CPU")
    splits = _splits(how)
    build = function_of(how.model, "--model")
    for place, file in enumerate(records.files):
        _network(build, how.model, file, records.hyperparameters[place])
    rows: list[Row] = []
    bar = Progress(len(records.files), "networks", lambda: f"{_failed(rows)} failed")
    for place, file in enumerate(records.files):
        name = f"{place}-{file.stem}"
        if left := unfinished.load(name):
            rows.append(Row(*left))
        else:
            network = _network(build, how.model, file, records.hyperparameters[place])
            rows.append(_measured(network, file, splits, how))
            unfinished.save(name, *rows[-1])
        bar.advance(lambda: len(rows))
    bar.close(len(rows))
    return gather(rows, records, _about(how, key, splits, rows))


def _failed(rows: list[Row]) -> int:
    return sum(bool(row.about["failure"]) for row in rows)


def _splits(how: Measurement) -> dict[str, Split]:
    """The training samples, and the test samples where there are some."""
    path = Path(how.data)
    if path.suffix == ".npz":
        return load_npz(path)
    if path.exists():
        raw = load("image-folder", how.data)
    elif how.data in keys_of("data"):
        raw = load(how.data)
    else:
        known = ", ".join(keys_of("data"))
        raise DataError(f"--data {how.data}: no .npz file and no folder; known data: {known}")
    splits = prepare(raw, {"classes": "all", "scaling": how.scaling}, None, torch.float32)
    return {"train": splits.train, "test": splits.test}


def _network(build: Any, model: str, file: Path, hyperparameters: Mapping[str, Any]) -> nn.Module:
    """The network of a file, in evaluation mode."""
    taken = inspect.signature(build).parameters.values()
    names = {parameter.name for parameter in taken}
    if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in taken):
        hyperparameters = {k: v for k, v in hyperparameters.items() if k in names}
    lacking = [
        parameter.name
        for parameter in taken
        if parameter.default is inspect.Parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.name not in hyperparameters
    ]
    if lacking:
        raise MeasureError(
            f"--model {model} needs {lacking[0]}, which is no hyper-parameter of "
            f"{file.name}; give it a default, or a column in --runs"
        )
    network = called(build, "--model", model, **hyperparameters)
    if not isinstance(network, nn.Module):
        raise MeasureError(f"--model {model} returned {type(network).__name__}, not a torch Module")
    try:
        network.load_state_dict(load_state(file))
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise MeasureError(f"{file} does not fit {model}: {reason}") from None
    return network.eval()


def _measured(network: nn.Module, file: Path, splits: Mapping[str, Split], how: Measurement) -> Row:
    """The quantities of a network, and what is known of it."""
    about: dict[str, Any] = {"failure": "", "coordinates": {}, "described": {}}
    about["parameters"] = sum(p.numel() for p in network.parameters())
    try:
        values = _report(network.to(how.device), splits, how, about)
    except (MeasureError, RuntimeError, ValueError, MemoryError) as error:
        if is_device_failure(error):  # so would all networks that follow
            raise
        about["failure"] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        print(f"{file}: {about['failure']}", file=sys.stderr)
        return Row({}, about)
    return Row(values, about)


def _report(
    network: nn.Module, splits: Mapping[str, Split], how: Measurement, about: dict[str, Any]
) -> dict[str, np.ndarray]:
    train = splits["train"]
    count = len(train) if how.samples is None else min(how.samples, len(train))
    chosen = train.subset(count, how.seed)
    weight = next(network.parameters())
    loss = _loss(how, train)
    report = measure(
        network,
        chosen.inputs.to(how.device, weight.dtype),
        (chosen.targets if chosen.labels is None else chosen.labels).to(how.device),
        families=list(how.families),
        loss=loss,
        batch_size=how.batch_size,
        dtype=how.dtype,
        seed=how.seed,
        **dict(how.options),
    )
    kept = [name for name in report.data_vars if "sample" not in report[name].dims]
    values = {str(name): report[name].values.astype(float) for name in kept}
    about["described"] = {str(n): {**report[n].attrs, "dims": [*report[n].dims]} for n in kept}
    dims = {str(dim) for name in kept for dim in report[name].dims}
    about["coordinates"] = {dim: report[dim].values.tolist() for dim in dims}
    return _performance(network, splits, loss, how, about) | values


def _loss(how: Measurement, train: Split) -> str:
    return how.loss or ("half-mse" if train.labels is None else "cross-entropy")


def _performance(
    network: nn.Module,
    splits: Mapping[str, Split],
    loss: str,
    how: Measurement,
    about: dict[str, Any],
) -> dict[str, np.ndarray]:
    """Losses and errors on whole training and test sets."""
    weight = next(network.parameters())
    whole = {name: split.to(how.device, weight.dtype) for name, split in splits.items()}
    described, values = about["described"], {}
    for name, split in whole.items():
        outputs = split.outputs(network)
        function = loss_of({**dict(how.options), "loss": loss})
        values[f"{name}_loss"] = float(function.values(outputs, split.targets.to(outputs)).mean())
        described[f"{name}_loss"] = {"long_name": f"mean {loss} of all {name} samples", "units": ""}
        if split.labels is not None:
            accuracy = 100 * float((outputs.argmax(1) == split.labels).double().mean())
            values |= {f"{name}_accuracy": accuracy, f"{name}_error": 100 - accuracy}
            for kind in ("accuracy", "error"):
                long_name = f"{kind} on all {name} samples"
                described[f"{name}_{kind}"] = {"long_name": long_name, "units": "%"}
    if "test" in whole and whole["train"].labels is not None:
        values["error_gap"] = values["test_error"] - values["train_error"]
        described["error_gap"] = {"long_name": "test error - training error", "units": "%"}
    if "test" in whole:
        values["loss_gap"] = values["test_loss"] - values["train_loss"]
        described["loss_gap"] = {"long_name": "test loss - training loss", "units": ""}
    for each in described.values():
        each.setdefault("dims", [])
    return {name: np.array(value) for name, value in values.items()}


def _about(
    how: Measurement, key: str, splits: Mapping[str, Split], rows: list[Row]
) -> dict[str, Any]:
    data = Path(how.data).name
    train = splits["train"]
    count = len(train) if how.samples is None else min(how.samples, len(train))
    return {
        "experiment": key,
        "name": key,
        "scale": "own",
        "title": f"Networks of {how.model}",
        "data": data,
        "model": how.model,
        "loss": _loss(how, train),
        "families": list(how.families),
        "samples": count,
        "sample_seed": how.seed,
        "extent": f"{len(rows)} networks of {how.model} on {count} samples of {data}, "
        f"trained elsewhere",
    }
