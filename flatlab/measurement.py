"""Measuring a network that lies in files: `flatlab measure`."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import nn

from flatlab import data, store
from flatlab.data import DataError
from flatlab.data._images import Images
from flatlab.metrics import MeasureError, measure
from flatlab.networks import _timm as networks
from flatlab.networks import build
from flatlab.plan.options import architecture
from flatlab.plan.registry import check_known, keys_of
from flatlab.splits import prepare


def measure_file(
    weights: Path,
    *,
    model: str,
    data_set: str,
    split: str = "train",
    samples: int | None = 100,
    sample_seed: int = 0,
    scaling: str = "unit",
    outputs: int | None = None,
    options: Mapping[str, Any] | None = None,
    run: str | None = None,
    checkpoint: int | None = None,
    device: str = "cpu",
    **settings: Any,
) -> xr.Dataset:
    """Measure the network whose weights lie in a `.safetensors` file.

    model: an architecture of this project, or `module:function`, called without arguments.
    options: those of the architecture, as in a grid; the activation is relu if not given.
    data_set: a data set of this project, or a folder or archive of images by class.
    samples: how many, drawn from `split` with `sample_seed`; None: all.  outputs: None: as many as
    there are classes.
    run, checkpoint: which of a pack; the only run and the last checkpoint need not be named.
    settings: as for `flatlab.metrics.measure`.
    Raises `MeasureError`, `DataError` or `StoreError` with the reason.
    """
    folder = Path(data_set)
    if folder.exists():
        raw = data.load("image-folder", str(folder))
    elif data_set in keys_of("data"):
        raw = data.load(data_set)
    else:
        known = ", ".join(keys_of("data"))
        raise DataError(f"{data_set!r} is neither a folder nor an archive; known data: {known}")
    splits = prepare(raw, {"classes": "all", "scaling": scaling}, outputs, torch.float32)
    chosen = splits.train if split == "train" else splits.test
    count = len(chosen) if samples is None else min(samples, len(chosen))
    chosen = chosen.subset(count, sample_seed)
    network = _network(model, tuple(chosen.inputs.shape[1:]), splits.outputs, options or {})
    state, about = _state(weights, run, checkpoint)
    try:
        network.load_state_dict({name: torch.from_numpy(a) for name, a in state.items()})
    except RuntimeError as error:
        raise MeasureError(f"{weights} does not fit {model}: {error}") from None
    network = network.to(device).eval()
    targets = chosen.targets if chosen.labels is None else chosen.labels
    report = measure(network, chosen.inputs, targets, **settings)
    return report.assign_attrs(
        title=f"{model} on {count} {split} samples of {raw.attrs['title']}",
        weights=weights.name,
        data=raw.attrs["title"],
        split=split,
        sample_seed=sample_seed,
        scaling=scaling,
        **about,
    )


def measure_pretrained(
    name: str,
    *,
    images: Path,
    weights: Path | None = None,
    samples: int | None = 100,
    sample_seed: int = 0,
    device: str = "cpu",
    targets: str = "labels",
    **settings: Any,
) -> xr.Dataset:
    """Measure a network of timm on images in folders by class, with the transform it was made for.

    name: as timm has it.  weights: a `.safetensors` file; None: those of timm's hub.
    samples, sample_seed: which images; None: all.  targets: labels, or own: the outputs themselves,
    for images of other classes.  settings: as for `flatlab.metrics.measure`.
    Raises `MeasureError` or `DataError` with the reason.
    """
    built = networks.build(name, pretrained=weights is None)
    model = networks.with_weights(built, weights) if weights else built
    chosen = Images(images, sys.maxsize if samples is None else samples, sample_seed)
    inputs = chosen.inputs(networks.configuration(model)).to(device)
    labels = None if targets == "own" else chosen.labels(networks.outputs_of(model)).to(device)
    report = measure(model.to(device), inputs, labels, adaptive={"targets": targets}, **settings)
    return report.assign_attrs(
        title=f"{name} on {len(inputs)} images of {images.name}",
        weights=weights.name if weights else "timm's hub",
        parameters=networks.parameters_of(model),
        sample_seed=sample_seed,
    )


def _network(
    name: str, shape: tuple[int, ...], outputs: int, options: Mapping[str, Any]
) -> nn.Module:
    if ":" not in name:
        check_known("networks", name, "--model")
        if "activation" in architecture(name).__struct_fields__:
            options = {"activation": "relu", **options}
        try:
            return build({"name": name, "options": options}, shape, outputs)
        except ValueError as error:
            raise MeasureError(f"--model {name}: {error}") from None
    if options:
        raise MeasureError(f"--options are those of a network of this project, {name} has none")
    module, _, function = name.partition(":")
    sys.path.insert(0, os.getcwd())  # as `python -m` does: users keep their models beside them
    try:
        made = getattr(importlib.import_module(module), function)()
    except (ImportError, AttributeError, TypeError) as error:
        raise MeasureError(f"--model {name}: {error}") from None
    finally:
        sys.path.pop(0)
    if not isinstance(made, nn.Module):
        raise MeasureError(f"--model {name} returned {type(made).__name__}, not a torch Module")
    return made


def _state(
    path: Path, run: str | None, checkpoint: int | None
) -> tuple[Mapping[str, np.ndarray], dict[str, Any]]:
    """The weights of one network, from a file of one or from a pack of this project."""
    if not _is_pack(path):
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        if run is not None or checkpoint is not None:
            raise MeasureError(f"{path} holds one network; leave out --run and --checkpoint")
        try:
            return load_file(path), {}
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise MeasureError(f"{path} cannot be read as .safetensors: {error}") from None
    arrays, about = store.load_weights(path)
    if "runs" not in about:
        raise MeasureError(f"{path} holds no trained networks; packs lie in results/<scale>/models")
    runs, iterations = about["runs"], about["iterations"]
    if run is None and len(runs) > 1:
        raise MeasureError(f"{path} holds a pack; choose one with --run: {', '.join(runs)}")
    run = runs[0] if run is None else run
    checkpoint = iterations[-1] if checkpoint is None else checkpoint
    if run not in runs:
        raise MeasureError(f"{path} has no run {run!r}; it has {', '.join(runs)}")
    if checkpoint not in iterations:
        there = ", ".join(map(str, iterations))
        raise MeasureError(f"{path} has no checkpoint {checkpoint}; it has {there}")
    place = runs.index(run), iterations.index(checkpoint)
    return {name: a[place] for name, a in arrays.items()}, {"run": run, "checkpoint": checkpoint}


def _is_pack(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = file.read(min(size, 2**26))
        return "flatlab" in json.loads(header).get("__metadata__", {})
    except FileNotFoundError:
        raise MeasureError(f"{path} does not exist") from None
    except (OSError, ValueError, AttributeError):
        return False
