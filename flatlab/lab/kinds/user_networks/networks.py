"""Networks that were trained elsewhere, from files to a table as that of a grid."""

import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from msgspec.structs import asdict
from torch import nn

from flatlab.api.measure import measure
from flatlab.core.errors import MeasureError, is_device_failure
from flatlab.core.progress import Progress
from flatlab.core.resume_state import ResumeState
from flatlab.core.schema import OWN
from flatlab.core.studies import studies
from flatlab.data._dataset import DataError
from flatlab.derivatives.per_sample.memory import BUDGET
from flatlab.inputs.arguments import Arguments
from flatlab.lab.jobs.job import RunningJob
from flatlab.lab.kinds.user_networks.code import called, function_of
from flatlab.lab.kinds.user_networks.measurement import Measurement, performance
from flatlab.lab.kinds.user_networks.samples import Part, parts_of_data
from flatlab.lab.plan.run_records import RunRecords
from flatlab.lab.tables.own_networks import Row, gather
from flatlab.networks._files import load_state


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
        **{"data": Path(how.data).name, "model": how.model, "sample_seed": how.arguments.seed},
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
    arguments = settings.pop("arguments")
    arguments = Arguments(**{**arguments, "memory": arguments["memory"] or BUDGET})
    options = tuple(settings.pop("options").items())
    changed = {"data": data, "arguments": arguments, "device": job.device, "options": options}
    how = Measurement(**{**settings, **changed})
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
        self.parts = parts_of_data(how.data, how.scaling, how.study, how.resize)
        for name, part in self.parts.items():
            _check_classes(part, how, name)
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
        train = self.parts["train"]
        about["samples"] = min(self.how.arguments.samples or len(train), len(train))
        try:
            values = _report(network.to(self.how.device), self.parts, self.how, about)
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


def _check_classes(part: Part, how: Measurement, name: str) -> None:
    if part.targets is None or part.targets.is_floating_point():
        return
    classes = part.targets[part.targets != how.arguments.ignore_index]
    if classes.numel() and int(classes.min()) < 0:
        raise DataError(
            f"{how.data}: {name} has the target {int(classes.min())}; they must be classes from 0 "
            f"on, or {how.arguments.ignore_index}, which does not count"
        )


def _report(
    network: nn.Module, parts: Mapping[str, Part], how: Measurement, about: dict[str, Any]
) -> dict[str, np.ndarray]:
    chosen = parts["train"].subset(about["samples"], how.arguments.seed)
    classes = chosen.targets is not None and not chosen.targets.is_floating_point()
    loss = about["loss"] = how.loss or ("cross-entropy" if classes else "half-mse")
    report = measure(
        network,
        chosen.inputs,
        chosen.targets,
        families=list(how.families),
        loss=loss,
        **asdict(how.arguments),
        **dict(how.options),
    )
    kept = [name for name in report.data_vars if "sample" not in report[name].dims]
    values = {str(name): report[name].values.astype(float) for name in kept}
    about["described"] = {str(n): {**report[n].attrs, "dims": [*report[n].dims]} for n in kept}
    dims = {str(dim) for name in kept for dim in report[name].dims}
    about["coordinates"] = {dim: report[dim].values.tolist() for dim in dims}
    if not how.performance or chosen.targets is None:
        return values
    return performance(network, parts, how, about) | values
