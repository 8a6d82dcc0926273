"""The report of `flatlab measure` on a network that lies in files."""

import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import xarray as xr
from msgspec.structs import asdict, replace
from torch import Tensor, nn

from flatlab.api.measure import measure
from flatlab.core import store
from flatlab.core.errors import MeasureError
from flatlab.core.options import options_of
from flatlab.core.registry import check_known
from flatlab.core.user_code import called, function_of
from flatlab.data._dataset import DataError
from flatlab.data._images import Images
from flatlab.inputs.adapted import Structure
from flatlab.inputs.files import parts_of_data
from flatlab.measuring.quantity import SampleSet
from flatlab.networks import _timm as timm
from flatlab.networks._build import build
from flatlab.networks._weights import load_into, load_state

Found = tuple[nn.Module, Structure, Tensor | None, dict[str, Any]]
"""A network, its inputs, its targets, and the attributes that the report has about them."""


def report(options: Namespace) -> xr.Dataset:
    """Measure the network that the options of `flatlab measure` describe.

    Raises `MeasureError`, `DataError` or `StoreError` with the reason.
    """
    if options.device == "cuda" and not torch.cuda.is_available():
        raise MeasureError("--device cuda: torch sees no GPU; leave it out to measure on the CPU")
    network, inputs, targets, about = (_from_timm if options.timm else _from_data)(options)
    return measure(
        network.to(options.device),
        inputs,
        targets,
        families=options.family or ["adaptive" if options.timm else "geometry"],
        loss=options.loss,
        progress=sys.stderr.isatty(),
        initial=load_state(options.initial) if options.initial else None,
        **asdict(replace(options.arguments, samples=None)),
        **dict(options.options),
    ).assign_attrs(about)


def _from_data(options: Namespace) -> Found:
    """A network, and some of the samples that `--data` names."""
    parts, scaling = parts_of_data(options.data, options.scaling, resize=options.resize)
    if options.split not in parts:
        raise DataError(f"--data {options.data} has no samples of {options.split}")
    part = parts[options.split]
    count = min(options.arguments.samples or len(part), len(part))
    chosen = part.subset(count, options.sample_seed)
    outputs = options.outputs or _outputs(parts)
    network = _network(options.model, chosen.inputs, outputs, dict(options.network))
    state, place = _state(options.weights, options.run, options.checkpoint)
    network = _fitted(network, state, options.weights, options.model).eval()
    data = Path(options.data).name
    about = {
        "title": f"{options.model} on {count} {options.split} samples of {data}",
        "weights": options.weights.name,
        "data": data,
        **{key: getattr(options, key) for key in ("split", "sample_seed")},
        **({"scaling": scaling} if scaling else {}),
        **place,
    }
    return network, chosen.inputs, chosen.given, about


def _outputs(parts: Mapping[str, SampleSet]) -> int:
    """The number of classes, or of numbers in a target; 1 where there are no targets."""
    known = [part.given for part in parts.values() if part.given is not None]
    if known and (known[0].is_floating_point() or known[0][0].numel() > 1):
        return known[0][0].numel()
    return 1 + max((int(targets.max()) for targets in known), default=0)


def _fitted(network: nn.Module, state: Mapping[str, Tensor], weights: Path, name: str) -> nn.Module:
    try:
        return load_into(network, state)
    except RuntimeError as error:
        raise MeasureError(f"{weights} does not fit {name}: {error}") from None


def _from_timm(options: Namespace) -> Found:
    images = Images(options.images, options.arguments.samples or sys.maxsize, options.sample_seed)
    weights = options.weights_of_timm or options.weights
    network = timm.build(options.timm, pretrained=weights is None)
    if weights:
        network = _fitted(network, load_state(weights), weights, options.timm)
    inputs = images.inputs(timm.configuration(network))
    labels = images.labels(getattr(network, "num_classes", 0)).to(options.device)
    about = {
        "title": f"{options.timm} on {len(inputs)} images of {options.images.name}",
        "weights": weights.name if weights else "timm's hub",
        "parameters": sum(p.numel() for p in network.parameters()),
        "sample_seed": options.sample_seed,
    }
    return network, inputs, labels, about


def _network(name: str, inputs: Structure, outputs: int, options: Mapping[str, Any]) -> nn.Module:
    """An untrained network: an architecture of this project, or what `module:function` returns."""
    if ":" not in name:
        check_known("networks", name, "--model")
        if not isinstance(inputs, Tensor):
            raise MeasureError(f"--model {name} takes one input, and --data has {len(inputs)}")
        if "activation" in options_of("networks", name).__struct_fields__:
            options = {"activation": "relu", **options}
        try:
            return build({"name": name, "options": options}, tuple(inputs.shape[1:]), outputs)
        except ValueError as error:
            raise MeasureError(f"--model {name}: {error}") from None
    if options:
        raise MeasureError(f"--network belongs to --model NAME; {name} has no options")
    made = called(function_of(name, "--model"), "--model", name)
    if not isinstance(made, nn.Module):
        raise MeasureError(f"--model {name} returned {type(made).__name__}, not a torch Module")
    return made


def _state(
    path: Path, run: str | None, checkpoint: int | None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights of one network, from its own file or from a pack of this project.

    run, checkpoint: which network of a pack; by default its only run and its last checkpoint.
    """
    state = load_state(path)
    if not store.hash_of(path):  # it is none of this project's
        if (run, checkpoint) != (None, None):
            raise MeasureError(f"{path} holds one network; leave out --run and --checkpoint")
        return state, {}
    pack = store.TrainedPack.load(path)
    if run is None and len(pack.runs) > 1:
        raise MeasureError(f"{path} holds a pack; choose one with --run: {', '.join(pack.runs)}")
    run = pack.runs[0] if run is None else run
    _check_has(path, "run", run, pack.runs)
    steps = pack.steps(run)
    checkpoint = pack.about["iterations"][-1] if checkpoint is None else checkpoint
    _check_has(path, "checkpoint", checkpoint, steps)
    arrays = pack.state(run, checkpoint)
    state = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    return state, {"run": run, "checkpoint": checkpoint}


def _check_has(path: Path, kind: str, chosen: Any, known: Sequence[Any]) -> None:
    if chosen not in known:
        names = ", ".join(map(str, known))
        raise MeasureError(f"{path} has no {kind} {chosen!r}; it has {names}")
