"""Networks that were trained elsewhere, from files to a table as that of a grid."""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import nn

from flatlab.data._tensors import Split
from flatlab.derivatives.errors import MeasureError, is_device_failure
from flatlab.execution.own_code import called, function_of
from flatlab.execution.own_samples import splits_of
from flatlab.jobs.job import RunningJob
from flatlab.jobs.progress import Progress
from flatlab.jobs.resume_state import ResumeState
from flatlab.losses._base import Loss, loss_of
from flatlab.metrics._measure import measure
from flatlab.networks._files import load_state
from flatlab.plan.run_records import RunRecords
from flatlab.plan.schema import OWN
from flatlab.plan.studies import studies
from flatlab.tables.own_networks import Row, gather


@dataclass(frozen=True)
class Measurement:
    """How networks from elsewhere are measured.

    model: `module:function`, which builds a network from those hyper-parameters that it takes.
    data: a file of arrays, a folder of images, a data set's key, or `module:function`.
    families: of quantities, or ("all",).
    loss: of their training; None: cross-entropy for classes, half-mse for numbers.
    samples: how many training samples the families are measured on; None: all.
    seed: that draws the samples, and the numbers of families that draw some.
    scaling: of images as published; arrays are taken as they are.
    resize: pixels to which images of a folder are resized and cut; None: as they are.
    batch_size: samples at a time; None: what fits.
    dtype: of the arithmetic; None: that of the weights.
    device: "cpu" or "cuda".
    options: of families and of the loss.
    performance: whether losses and errors on whole training and test sets are measured.
    study: the key of the one whose modules are named; "": they are in the working folder.
    """

    model: str
    data: str
    families: Sequence[str] = ("geometry",)
    loss: str | None = None
    samples: int | None = 100
    seed: int = 0
    scaling: str = "unit"
    resize: int | None = None
    batch_size: int | None = None
    dtype: str | None = None
    device: str = "cpu"
    options: tuple[tuple[str, Any], ...] = ()
    performance: bool = True
    study: str = ""


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
    measurer = Measurer(how)
    pairs = [*zip(records.files, records.hyperparameters, strict=True)]
    for file, hyperparameters in pairs:
        measurer.network(file, hyperparameters)
    rows: list[Row] = []
    bar = Progress(len(pairs), "networks", lambda: f"{_failed(rows)} failed")
    for place, (file, hyperparameters) in enumerate(pairs):
        name = f"{place}-{file.stem}"
        if left := unfinished.load(name):
            rows.append(Row(*left))
        else:
            rows.append(measurer.row(file, hyperparameters))
            unfinished.save(name, *rows[-1])
        bar.advance(lambda: len(rows))
    bar.close(len(rows))
    about = {
        **{"experiment": key, "name": key, "scale": "own", "title": f"Networks of {how.model}"},
        **{"data": Path(how.data).name, "model": how.model, "sample_seed": how.seed},
        **{"families": list(how.families), "trained": "elsewhere", "evidence": OWN},
    }
    return gather([*enumerate(rows)], records, about)


def measured(job: RunningJob) -> xr.Dataset:
    """A metric file of the workflow: some families on one network of a study."""
    settings = dict(job.params.settings)
    hyperparameters = settings.pop("hyperparameters")
    settings.pop("content", None)  # of a folder, for Snakemake alone
    data = settings.pop("data")
    folder = studies()[settings["study"]]
    if "data" in job.input.keys():  # noqa: SIM118 - Snakemake's lists of names are no mappings
        data = job.input.data
    elif ":" not in data:
        data = str(folder / data)
    samples = None if settings["samples"] == "all" else settings["samples"]
    changed = {"data": data, "samples": samples, "device": job.device}
    options = tuple(settings.pop("options").items())
    how = Measurement(**{**settings, **changed, "options": options})
    return Measurer(how).row(Path(job.input.weights), hyperparameters).dataset


def _failed(rows: list[Row]) -> int:
    return sum(bool(row.about["failure"]) for row in rows)


class Measurer:
    """Measures networks one after the other on the same samples.

    Raises `MeasureError` or `DataError` for samples or a function that cannot be had.
    """

    def __init__(self, how: Measurement) -> None:
        if how.device == "cuda" and not torch.cuda.is_available():
            raise MeasureError("device is cuda: torch sees no GPU; measure on the CPU")
        self.how = how
        self.splits = splits_of(how.data, how.scaling, how.study, how.resize)
        self.build = function_of(how.model, "--model", how.study)

    def network(self, file: Path, hyperparameters: Mapping[str, Any]) -> nn.Module:
        """The network of a file, in evaluation mode; `MeasureError` if they do not fit."""
        how = self.how
        given = taken_by(self.build, how.model, file, hyperparameters)
        network = called(self.build, "--model", how.model, how.study, given)
        if not isinstance(network, nn.Module):
            what = type(network).__name__
            raise MeasureError(f"--model {how.model} returned {what}, not a torch Module")
        try:
            network.load_state_dict(load_state(file))
        except RuntimeError as error:
            reason = " ".join(str(error).split())[:300]
            raise MeasureError(f"{file} does not fit {how.model}: {reason}") from None
        return network.eval()

    def row(self, file: Path, hyperparameters: Mapping[str, Any]) -> Row:
        """The quantities of a network, and what is known of it."""
        network = self.network(file, hyperparameters)
        about: dict[str, Any] = {"failure": "", "coordinates": {}, "described": {}}
        about["parameters"] = sum(p.numel() for p in network.parameters())
        train = self.splits["train"]
        about["samples"] = min(self.how.samples or len(train), len(train))
        try:
            values = _report(network.to(self.how.device), self.splits, self.how, about)
        except (MeasureError, RuntimeError, ValueError, MemoryError) as error:
            if is_device_failure(error):  # so would all networks that follow
                raise
            about |= {"described": {}, "coordinates": {}}
            about["failure"] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            print(f"{file}: {about['failure']}", file=sys.stderr)
            return Row({}, about)
        return Row(values, about)


def taken_by(
    build: Callable[..., Any], model: str, file: Path, hyperparameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Those hyper-parameters that a function takes; `MeasureError` if it needs others."""
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
    return dict(hyperparameters)


def _report(
    network: nn.Module, splits: Mapping[str, Split], how: Measurement, about: dict[str, Any]
) -> dict[str, np.ndarray]:
    chosen = splits["train"].subset(about["samples"], how.seed)
    weight = next(network.parameters())
    targets = chosen.targets if chosen.labels is None else chosen.labels
    loss = about["loss"] = how.loss or ("half-mse" if chosen.labels is None else "cross-entropy")
    report = measure(
        network,
        _typed(chosen.inputs, weight),
        targets.to(how.device) if targets.numel() else None,
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
    if not how.performance or not targets.numel():
        return values
    return (
        _performance(network, splits, loss_of({**dict(how.options), "loss": loss}), about) | values
    )


def _typed(inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Inputs where a network is; real numbers in its precision, tokens as they are."""
    return inputs.to(weight.device, weight.dtype if inputs.is_floating_point() else inputs.dtype)


def _performance(
    network: nn.Module, splits: Mapping[str, Split], loss: Loss, about: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Losses and errors on whole training and test sets."""
    described: dict[str, Any] = about["described"]
    values: dict[str, float] = {}
    for name, split in splits.items():
        evaluated = _on_split(network, split, loss)
        values |= {f"{name}_{kind}": value for kind, value in evaluated.items()}
        for kind in evaluated:
            words = f"mean {about['loss']} of" if kind == "loss" else f"{kind} on"
            units = "" if kind == "loss" else "%"
            long_name = f"{words} all {name} samples"
            described[f"{name}_{kind}"] = {"long_name": long_name, "units": units}
    for kind, units in (("error", "%"), ("loss", "")):
        if f"test_{kind}" in values and f"train_{kind}" in values:
            values[f"{kind}_gap"] = values[f"test_{kind}"] - values[f"train_{kind}"]
            long_name = f"test {kind} - training {kind}"
            described[f"{kind}_gap"] = {"long_name": long_name, "units": units}
    for each in described.values():
        each.setdefault("dims", [])
    return {name: np.array(value) for name, value in values.items()}


def _on_split(network: nn.Module, split: Split, loss: Loss) -> dict[str, float]:
    """The loss of a network on all samples of a split; of classes also accuracy and error in %."""
    weight = next(network.parameters())
    labels, targets = split.labels, split.targets.to(weight.device)
    typed = Split(_typed(split.inputs, weight), labels, targets)
    outputs = typed.outputs(network)
    if labels is not None:  # a class without samples has an output, too
        labels = labels.to(weight.device)
        targets = nn.functional.one_hot(labels, max(outputs.shape[1], targets.shape[1]))
    if targets.shape != outputs.shape:
        shapes = f"{(*targets.shape,)} and outputs {(*outputs.shape,)}"
        raise MeasureError(f"targets {shapes} do not go together")
    values = {"loss": float(loss.values(outputs, targets.to(outputs)).mean())}
    if labels is not None:
        accuracy = 100 * float((outputs.argmax(1) == labels).double().mean())
        values |= {"accuracy": accuracy, "error": 100 - accuracy}
    return values
