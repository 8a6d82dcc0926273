"""The report of `flatlab measure` on a network that lies in files."""

import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from safetensors import safe_open
from torch import Tensor, nn

from flatlab import store
from flatlab.data._arrays import RESIZED, arrays, is_arrays, pictures
from flatlab.data._dataset import DataError, load
from flatlab.data._folders import folders, images
from flatlab.data._images import Images
from flatlab.data._tensors import prepare
from flatlab.derivatives.errors import MeasureError
from flatlab.execution.own_code import called, function_of
from flatlab.metrics._measure import measure
from flatlab.networks import _timm as timm
from flatlab.networks._build import build
from flatlab.networks._files import load_state
from flatlab.plan.options import options_of
from flatlab.plan.registry import check_known, keys_of

Found = tuple[nn.Module, Tensor, Tensor | None, dict[str, Any]]
"""A network, its inputs, its targets, and the attributes that the report has about them."""


def report(options: Namespace) -> xr.Dataset:
    """Measure the network that the options of `flatlab measure` describe.

    Raises `MeasureError`, `DataError` or `StoreError` with the reason.
    """
    if options.device == "cuda" and not torch.cuda.is_available():
        raise MeasureError("--device cuda: torch sees no GPU; leave it out to measure on the CPU")
    of = _from_timm if options.timm else _from_arrays if _is_plain(options) else _from_file
    network, inputs, targets, about = of(options)
    return measure(
        network.to(options.device),
        inputs,
        targets,
        families=options.family or ["adaptive" if options.timm else "geometry"],
        **{key: getattr(options, key) for key in ("loss", "batch_size", "dtype", "seed")},
        progress=sys.stderr.isatty(),
        memory=int(1e9 * options.memory) if options.memory else None,
        output=int(options.output) if (options.output or "").isdigit() else options.output,
        parameters=options.parameters,
        ignore_index=options.ignore_index,
        class_weights=_class_weights(options.class_weights),
        initial=load_state(options.initial) if options.initial else None,
        **dict(options.options),
    ).assign_attrs(about)


def _class_weights(given: Sequence[str] | None) -> np.ndarray | None:
    """Numbers, or those in a file."""
    if not given:
        return None
    try:
        if len(given) > 1 or not Path(given[0]).exists():
            return np.array([float(each) for each in given])
        if given[0].endswith(".npy"):
            return np.load(given[0], allow_pickle=False)
        text = Path(given[0]).read_text().replace(",", " ")
        return np.array([float(each) for each in text.split()])
    except (ValueError, OSError) as error:
        raise MeasureError(f"--class-weights {given[0]}: {error}") from None


def _is_plain(options: Namespace) -> bool:
    """Whether data are a file of arrays, or images that must be resized or have no classes."""
    place = Path(options.data)
    alone = place.is_dir() and not folders(place) and bool(images(place))
    return is_arrays(place) or options.resize is not None or alone


def _from_arrays(options: Namespace) -> Found:
    """Samples as they lie in a file; bytes are divided by 255."""
    place = Path(options.data)
    if (readable := is_arrays(place)) and options.resize:
        raise DataError(f"--data {place}: {RESIZED}")
    arrays_of = arrays(place, options.split) if readable else pictures(place, options.resize)
    inputs, targets = (None if part is None else torch.from_numpy(part) for part in arrays_of)
    assert inputs is not None
    inputs = inputs / 255 if inputs.dtype == torch.uint8 else inputs
    whole = len(inputs)
    count = whole if options.samples == "all" else min(options.samples, whole)
    generator = torch.Generator().manual_seed(options.sample_seed)
    order = torch.randperm(whole, generator=generator)[:count]
    outputs = options.outputs
    if outputs is None and targets is not None:
        labels = targets.ndim == 1 and not targets.is_floating_point()
        outputs = int(targets.max()) + 1 if labels else targets[0].numel()
    network, place_of = _loaded(options, tuple(inputs.shape[1:]), outputs or 1)
    about = {
        "title": f"{options.model} on {count} samples of {place.name}",
        "weights": options.weights.name,
        "data": place.name,
        "sample_seed": options.sample_seed,
        **place_of,
    }
    return network, inputs[order], None if targets is None else targets[order], about


def _from_file(options: Namespace) -> Found:
    raw = _data(options.data)
    settings = {"classes": "all", "scaling": options.scaling}
    splits = prepare(raw, settings, options.outputs, torch.float32)
    split = getattr(splits, options.split)
    count = len(split) if options.samples == "all" else min(options.samples, len(split))
    chosen = split.subset(count, options.sample_seed)
    network, place = _loaded(options, tuple(chosen.inputs.shape[1:]), splits.outputs)
    about = {
        "title": f"{options.model} on {count} {options.split} samples of {raw.attrs['title']}",
        "weights": options.weights.name,
        "data": raw.attrs["title"],
        **{key: getattr(options, key) for key in ("split", "sample_seed", "scaling")},
        **place,
    }
    targets = chosen.targets if chosen.labels is None else chosen.labels
    return network, chosen.inputs, targets, about


def _loaded(
    options: Namespace, shape: tuple[int, ...], outputs: int
) -> tuple[nn.Module, dict[str, Any]]:
    """The network with the weights of its file, and which one of a pack it is."""
    network = _network(options.model, shape, outputs, dict(options.network))
    state, place = _state(options.weights, options.run, options.checkpoint)
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        raise MeasureError(f"{options.weights} does not fit {options.model}: {error}") from None
    return network.eval(), place


def _from_timm(options: Namespace) -> Found:
    count = sys.maxsize if options.samples == "all" else options.samples
    images = Images(options.images, count, options.sample_seed)
    weights = options.weights_of_timm or options.weights
    network = timm.build(options.timm, pretrained=weights is None)
    if weights:
        network = timm.with_weights(network, weights)
    inputs = images.inputs(timm.configuration(network))
    labels = None
    if not dict(options.options).get("own_targets"):
        labels = images.labels(getattr(network, "num_classes", 0)).to(options.device)
    about = {
        "title": f"{options.timm} on {len(inputs)} images of {options.images.name}",
        "weights": weights.name if weights else "timm's hub",
        "parameters": sum(p.numel() for p in network.parameters()),
        "sample_seed": options.sample_seed,
    }
    return network, inputs, labels, about


def _data(name: str) -> xr.Dataset:
    if Path(name).exists():
        return load("image-folder", name)
    if name not in keys_of("data"):
        known = ", ".join(keys_of("data"))
        raise DataError(f"{name!r} is neither a folder nor an archive; known data: {known}")
    return load(name)


def _network(
    name: str, shape: tuple[int, ...], outputs: int, options: Mapping[str, Any]
) -> nn.Module:
    """An untrained network: an architecture of this project, or what `module:function` returns."""
    if ":" not in name:
        check_known("networks", name, "--model")
        if "activation" in options_of("networks", name).__struct_fields__:
            options = {"activation": "relu", **options}
        try:
            return build({"name": name, "options": options}, shape, outputs)
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
    if not _is_pack(path):
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


def _is_pack(path: Path) -> bool:
    if path.suffix != ".safetensors":
        return False
    with safe_open(path, "pt") as file:
        return "flatlab" in (file.metadata() or {})
