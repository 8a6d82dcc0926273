"""Networks that users built, from files to a table as that of a grid."""

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from msgspec.structs import asdict, replace
from torch import nn

from flatlab.api.measure import measure
from flatlab.core.contents import content_of
from flatlab.core.errors import MeasureError
from flatlab.core.resume_state import ResumeState
from flatlab.core.run_records import RunRecords
from flatlab.core.schema import OWN
from flatlab.core.store import load_weights
from flatlab.core.studies import studies
from flatlab.core.user_code import called, function_of, modules_here
from flatlab.data._dataset import DataError
from flatlab.data._tensors import EVALUATED
from flatlab.derivatives.checks.isolation import preserving_state
from flatlab.derivatives.per_sample.memory import BUDGET
from flatlab.inputs.arguments import Arguments
from flatlab.inputs.batches import of_samples, tensors_of
from flatlab.inputs.files import parts_of_data
from flatlab.inputs.losses import with_options
from flatlab.inputs.prepare import made_ready
from flatlab.lab.kinds import RunningJob
from flatlab.lab.tables.runs import of_networks
from flatlab.losses._base import loss_of
from flatlab.measuring.evaluate import evaluate
from flatlab.measuring.networks import Values, measure_each
from flatlab.measuring.quantity import SampleSet
from flatlab.networks._weights import load_into, load_state
from flatlab.version import __version__


@dataclass(frozen=True)
class Measurement:
    """How networks from elsewhere are measured.

    model: `module:function`, which builds a network from those hyper-parameters that it takes.
    data: a file of arrays, a folder of images, a data set's key, or `module:function`.
    arguments: those of `flatlab.measure`; so many training samples are drawn, by the seed.
    families: of quantities, or ("all",).
    loss: of their training; None: cross-entropy for classes, half-mse for numbers.
    scaling: of images as published; arrays are taken as they are.
    resize: pixels to which images of a folder are resized and cut; None: as they are.
    device: "cpu" or "cuda".
    options: of families and of the loss.
    performance: whether losses and errors on whole training and test sets are measured.
    study: the key of the one whose modules are named; "": they are in the working folder.
    """

    model: str
    data: str
    arguments: Arguments
    families: Sequence[str] = ("geometry",)
    loss: str | None = None
    scaling: str = "unit"
    resize: int | None = None
    device: str = "cpu"
    options: tuple[tuple[str, Any], ...] = ()
    performance: bool = True
    study: str = ""


def table_of(records: RunRecords, how: Measurement, key: str, unfinished: Path) -> xr.Dataset:
    """Measure every network, and join the results to a table.

    records: the files, with hyper-parameters and outcomes.
    how: they are measured.
    key: what the table is called.
    unfinished: a folder for the results of an interrupted attempt, which count if nothing that the
        table is made of has changed: weights, samples, modules of the working folder.

    Every file is read and fitted into its network before the first is measured, so that a wrong one
    is told at once. A network that a family refuses is in the table without values, and `failure`
    says why. Raises `MeasureError` or `DataError`.
    """
    measurer = Measurer(how)
    pairs = [*zip(records.files, records.hyperparameters, strict=True)]
    for file, hyperparameters in pairs:
        measurer.network(file, hyperparameters)

    def of_pair(number: int, about: dict[str, Any]) -> Values:
        return measurer.values(measurer.network(*pairs[number]), about)

    identity = {
        **{"how": how, "pairs": pairs, "version": __version__, "modules": modules_here()},
        **{"weights": [content_of(file) for file in records.files]},
        **{"samples": {name: _content(part) for name, part in measurer.parts.items()}},
    }
    names = [f"{number}-{file.stem}" for number, (file, _) in enumerate(pairs)]
    rows = measure_each(names, of_pair, ResumeState(unfinished, identity))
    about = {
        **{"experiment": key, "name": key, "scale": "own", "title": f"Networks of {how.model}"},
        **{"data": Path(how.data).name, "model": how.model, "sample_seed": how.arguments.seed},
        **{"families": list(how.families), "trained": "elsewhere", "evidence": OWN},
    }
    return of_networks([*enumerate(rows)], records, about)


def _content(part: SampleSet) -> str:
    """A hash of samples, wherever they come from."""
    digest = hashlib.sha256()
    for tensor in (*tensors_of(part.inputs), *([] if part.given is None else [part.given])):
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def measure_job(job: RunningJob) -> xr.Dataset:
    """Some families on one network of a study, and what is known of it: a metric file."""
    how = dict(job.params.settings)
    hyperparameters, data = how.pop("hyperparameters"), how.pop("data")
    how.pop("content", None)  # for Snakemake alone
    trained_here = how.pop("outcomes", False)
    if "data" in job.input.keys():  # noqa: SIM118 - Snakemake's lists of names are no mappings
        data = job.input.data
    elif ":" not in data:
        data = str(studies()[how["study"]] / data)
    given, options = how.pop("arguments"), tuple(how.pop("options").items())
    arguments = Arguments(**{**given, "memory": given["memory"] or BUDGET})
    changed = {"data": data, "arguments": arguments, "device": job.device, "options": options}
    measurer, weights = Measurer(Measurement(**{**how, **changed})), job.input.weights
    network = measurer.network(Path(weights), hyperparameters)
    (row,) = measure_each([weights], lambda _, about: measurer.values(network, about))
    if trained_here:  # its training has told some
        row.about["outcomes"] = load_weights(weights)[1]["outcomes"]
    return row.dataset


def train_job(job: RunningJob) -> None:
    """Train one run; `MeasureError` if the function returns no state dictionary of it."""
    settings = job.params.settings
    name, study = settings["function"], settings["study"]
    function = function_of(name, "train", study)
    result = called(function, "train", name, study, settings["arguments"])
    state, outcomes = result if isinstance(result, tuple) and len(result) == 2 else (result, {})
    tensors = state.values() if isinstance(state, Mapping) else ()
    if not tensors or not all(isinstance(each, torch.Tensor) for each in tensors):
        what = type(state).__name__
        raise MeasureError(f"train {name} returned {what}; it must return model.state_dict()")
    try:
        numbers = {str(key): float(value) for key, value in dict(outcomes).items()}
    except (TypeError, ValueError):
        raise MeasureError(
            f"train {name} returned outcomes {outcomes!r}; they must be numbers by name"
        ) from None
    narrow = torch.bfloat16  # which numpy lacks
    arrays = {
        str(key): (each.float() if each.dtype == narrow else each).numpy(force=True).copy()
        for key, each in state.items()
    }
    job.save(weights=(arrays, {"outcomes": numbers}))


class Measurer:
    """Measures networks one after the other on the same samples.

    Raises `MeasureError` or `DataError` for samples or a function that cannot be had.
    """

    def __init__(self, how: Measurement) -> None:
        if how.device == "cuda" and not torch.cuda.is_available():
            raise MeasureError("device is cuda: torch sees no GPU; measure on the CPU")
        self.how = how
        self.parts, _ = parts_of_data(how.data, how.scaling, how.study, how.resize)
        for name, part in self.parts.items():
            _check_classes(part, how, name)
        self.build = function_of(how.model, "--model", how.study)

    def network(self, file: Path, hyperparameters: Mapping[str, Any]) -> nn.Module:
        """The network of a file, in evaluation mode; `MeasureError` if they do not fit."""
        how = self.how
        given = accepted_arguments(self.build, how.model, file, hyperparameters)
        network = called(self.build, "--model", how.model, how.study, given)
        if not isinstance(network, nn.Module):
            what = type(network).__name__
            raise MeasureError(f"--model {how.model} returned {what}, not a torch Module")
        try:
            load_into(network, load_state(file))
        except RuntimeError as error:
            reason = " ".join(str(error).split())[:300]
            raise MeasureError(f"{file} does not fit {how.model}: {reason}") from None
        return network.eval()

    def values(self, network: nn.Module, about: dict[str, Any]) -> Values:
        """The quantities of a network.  about: to which what is known of it is added."""
        how, train = self.how, self.parts["train"]
        about["parameters"] = sum(p.numel() for p in network.parameters())
        about["samples"] = min(how.arguments.samples or len(train), len(train))
        chosen = train.subset(about["samples"], how.arguments.seed)
        loss = about["loss"] = how.loss or _default_loss(network, chosen, how.arguments)
        report = measure(
            network.to(how.device),
            chosen.inputs,
            chosen.given,
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
        if not how.performance or chosen.given is None:
            return values
        return performance(network, self.parts, how, about) | values


def _default_loss(network: nn.Module, samples: SampleSet, arguments: Arguments) -> str:
    """Cross-entropy for classes; half-mse for numbers, as the integers of one output are."""
    if samples.given is None or samples.given.is_floating_point():
        return "half-mse"
    few = of_samples(samples.inputs, slice(2))
    outputs = made_ready(network, few, None, loss_of({"loss": "half-mse"}), arguments).outputs
    several = (outputs.classes or torch.Size(outputs.shape).numel()) > 1
    return "cross-entropy" if several else "half-mse"


def accepted_arguments(
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
            f"--model {model} needs {lacking[0]}, which is not a hyper-parameter of "
            f"{file.name}; give it a default, or a column in --runs"
        )
    return dict(hyperparameters)


def _check_classes(part: SampleSet, how: Measurement, name: str) -> None:
    named = how.loss in (None, "cross-entropy")
    if part.given is None or part.given.is_floating_point() or not named:
        return
    classes = part.given[part.given != how.arguments.ignore_index]
    if classes.numel() and int(classes.min()) < 0:
        raise DataError(
            f"{how.data}: {name} has the target {int(classes.min())}; they must be classes from 0 "
            f"on, or {how.arguments.ignore_index}, which does not count"
        )


def performance(
    network: nn.Module, parts: Mapping[str, SampleSet], how: Measurement, about: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Losses and errors on whole training and test sets, of positions where there are some."""
    described: dict[str, Any] = about["described"]
    loss = with_options(about["loss"], dict(how.options))
    values: dict[str, float] = {}
    for name, part in parts.items():
        if part.given is None:
            continue
        arguments = replace(how.arguments, samples=None)
        with preserving_state(network):
            ready = made_ready(network, part.inputs, part.given, loss, arguments)
            of_part = evaluate(ready, EVALUATED[ready.samples.inputs.device.type], ready.model)
        if "accuracy" in of_part:
            of_part["accuracy"] *= 100
            of_part["error"] = 100 - of_part["accuracy"]
        values |= {f"{name}_{kind}": value for kind, value in of_part.items()}
        for kind in of_part:
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
