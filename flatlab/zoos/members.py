"""The members of a zoo that are trained here: from designs to weights, which are kept.

One network after the other; what was trained before an interruption stays. A design that cannot be
built or trained is recorded, with the reason, and the job goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import nn

from flatlab.data import DataError
from flatlab.jobs import Unfinished
from flatlab.jobs.progress import Progress
from flatlab.jobs.unfinished import Content
from flatlab.splits import Split, Splits, prepare
from flatlab.zoos import networks, training

ACCURACIES = ("train_accuracy", "test_accuracy")
WIDTHS = ("embed_dim", "dims", "embed_dims", "channels", "growth_rate")
"""What timm's architectures call their width, which tells apart those of one name."""


def key_of(design: Mapping[str, Any]) -> str:
    """Of the network of a design with one seed: resnet10t-w32-s0."""
    options, (seed,) = design["options"], design["seeds"]
    width = next((options[key] for key in WIDTHS if key in options), "default")
    return f"{design['name']}-w{width[-1] if isinstance(width, list) else width}-s{seed}"


def splits_of(raw: xr.Dataset, settings: Mapping[str, Any]) -> Splits:
    """What the members learn.  settings: `scaling`, of the inputs."""
    data = {"classes": "all", "scaling": settings["scaling"]}
    return prepare(raw, data, None, torch.float32)


def seen_by(design: Mapping[str, Any], split: Split) -> Split:
    """The same samples with as many pixels as a network wants."""
    return replace(split, inputs=training.resized(split.inputs, design["size"]))


def build(design: Mapping[str, Any], splits: Splits) -> nn.Module:
    """The network of a design with the weights that timm gives it by its seed."""
    options, (seed,) = design["options"], design["seeds"]
    size = {"img_size": design["size"]} if "patch_size" in options else {}
    channels = splits.train.inputs.shape[1]
    classes = splits.outputs
    return networks.seeded(
        design["name"], seed, num_classes=classes, in_chans=channels, **size, **options
    )


def train_members(
    settings: Mapping[str, Any], raw: xr.Dataset, unfinished: Unfinished
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Train the networks of one job.

    settings: of `flatlab.plan.zoos.members_settings`.  raw: the data file.  unfinished: what an
    interrupted job has left. Returns the weights and buffers of all, `<key>/<name>` each, and by
    key the `ACCURACIES` in % and `failure`, empty where there was none.
    """
    splits = splits_of(raw, settings)
    weights: dict[str, np.ndarray] = {}
    about: dict[str, Any] = {}
    designs = settings["networks"]

    def note() -> str:
        return f"{sum(bool(facts['failure']) for facts in about.values())} failed"

    progress = Progress(len(designs), "networks", note)
    for design in designs:
        key = key_of(design)
        found = unfinished.load(key)
        if found is None:
            found = _trained(design, splits, settings)
            unfinished.save(key, *found)
        weights |= {f"{key}/{name}": array for name, array in found[0].items()}
        about[key] = found[1]
        progress.advance(lambda: len(about))
    progress.close(len(about))
    return weights, about


def _trained(design: Mapping[str, Any], splits: Splits, settings: Mapping[str, Any]) -> Content:
    facts: dict[str, Any] = {"failure": "", **dict.fromkeys(ACCURACIES)}
    try:
        model = build(design, splits)
        if settings["initialization"] == "xavier":
            training.spread_weights(model, design["seeds"][0])
        parts = [seen_by(design, part) for part in (splits.train, splits.test)]
        training.train(model, parts[0], settings, design["seeds"][0])
        facts |= {n: training.accuracy(model, p) for n, p in zip(ACCURACIES, parts, strict=True)}
    except (DataError, RuntimeError, ValueError, MemoryError) as error:
        failure = networks.first_line(error)
        print(f"{key_of(design)}: {failure}", file=sys.stderr)
        return {}, {**facts, "failure": failure}
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}, facts


def trained(
    design: Mapping[str, Any], splits: Splits, weights: Mapping[str, np.ndarray]
) -> nn.Module:
    """The network of a design with its weights out of those of a job."""
    model, head = build(design, splits), f"{key_of(design)}/"
    own = {
        name.removeprefix(head): torch.from_numpy(array.copy())
        for name, array in weights.items()
        if name.startswith(head)
    }
    model.load_state_dict(own)
    return model
