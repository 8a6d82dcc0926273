"""The report of `flatlab measure` on a network that lies in files."""

import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import xarray as xr
from msgspec.structs import asdict, replace
from torch import Tensor, nn

from flatlab.api.measure import measure
from flatlab.core.errors import MeasureError
from flatlab.core.user_code import called, function_of
from flatlab.data._dataset import DataError
from flatlab.data._images import Images
from flatlab.inputs.adapted import Structure
from flatlab.inputs.files import parts_of_data
from flatlab.networks import _timm as timm
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
    made = called(function_of(options.model, "--model"), "--model", options.model)
    if not isinstance(made, nn.Module):
        what = type(made).__name__
        raise MeasureError(f"--model {options.model} returned {what}, not a torch Module")
    network = _fitted(made, load_state(options.weights), options.weights, options.model)
    data = Path(options.data).name
    about = {
        "title": f"{options.model} on {count} {options.split} samples of {data}",
        "weights": options.weights.name,
        "data": data,
        **{key: getattr(options, key) for key in ("split", "sample_seed")},
        **({"scaling": scaling} if scaling else {}),
    }
    return network.eval(), chosen.inputs, chosen.given, about


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
