"""What the networks of a grid see of a data set: inputs, labels and targets as tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn

from flatlab.data import DataError

EVALUATED = 256
"""Samples at a time where all of a split are evaluated."""

AS_IT_IS = {"classes": "all", "scaling": "none", "scale": 1.0, "samples": "all", "pixels": "all"}
"""What the `data` section of a regression says."""


@dataclass(frozen=True)
class Split:
    """inputs: (samples, channels, height, width).  labels: (samples).  targets: (samples, outputs).

    Targets are one-hot; data that are no images have inputs (samples, features). Samples of a
    regression have no labels, but targets of their own.
    """

    inputs: Tensor
    labels: Tensor | None
    targets: Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def device(self) -> torch.device:
        return self.inputs.device

    def subset(self, size: int, seed: int) -> Split:
        """A fixed random subset: `size` samples without repetition."""
        if size > len(self):
            raise DataError(f"{size} samples asked for, there are {len(self)}")
        return self._chosen(self._order(seed)[:size])

    def misclassified(self, model: nn.Module, size: int, seed: int) -> Split:
        """Samples that a network gets wrong: the first in a fixed random order, at most `size`."""
        if self.labels is None:
            raise DataError("samples without labels cannot be misclassified; set only: all")
        order = self._order(seed)
        with torch.no_grad():
            outputs = torch.cat([model(inputs) for inputs in self.inputs.split(EVALUATED)])
        wrong = (outputs.argmax(1) != self.labels).cpu()
        return self._chosen(order[wrong[order]][:size])

    def _order(self, seed: int) -> Tensor:
        return torch.from_numpy(np.random.default_rng(seed).permutation(len(self)))

    def _chosen(self, index: Tensor) -> Split:
        index = index.to(self.device)
        labels = None if self.labels is None else self.labels[index]
        return Split(self.inputs[index], labels, self.targets[index])


@dataclass(frozen=True)
class Splits:
    """What the networks of a grid are trained and tested on."""

    train: Split
    test: Split

    @property
    def outputs(self) -> int:
        return self.train.targets.shape[1]


def prepare(
    raw: xr.Dataset,
    settings: Mapping[str, Any],
    outputs: int | None = None,
    dtype: torch.dtype = torch.float64,
    device: str = "cpu",
) -> Splits:
    """Inputs and targets from a data file.

    settings: the `data` section of a grid.  outputs: how many, or None for one per class.
    Raises `DataError` where the settings cannot be had.
    """
    if device != "cpu" and not torch.cuda.is_available():
        raise DataError(f"device is {device}, but torch finds no GPU here; set device: cpu")
    form = "given" if "train_targets" in raw else "one-hot"
    if settings.get("targets", form) != form:
        raise DataError(f"data.targets must be {form} with {raw.attrs['title']}")
    if form == "given":
        return _given(raw, settings, outputs, dtype, device)
    if settings["scaling"] == "none":
        raise DataError("data.scaling: none is for regressions; set unit or standardized")
    kept = settings["classes"]
    labels = list(range(len(raw.attrs["classes"]))) if kept == "all" else list(kept)
    if unknown := sorted(set(labels) - set(range(len(raw.attrs["classes"])))):
        raise DataError(f"{raw.attrs['title']} has no class {unknown[0]}")
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise DataError(f"data.classes names class {twice[0]} twice")
    width = len(labels) if outputs is None else outputs
    if width < len(labels):
        raise DataError(f"{width} outputs cannot stand for {len(labels)} classes")
    (inputs, label), test = (_keep(raw, name, labels) for name in ("train", "test"))
    shift, spread = _moments(inputs, settings["scaling"], float(raw.attrs["maximum"]))
    first = _first(label, settings.get("samples", "all"))
    inputs, label = inputs[first], label[first]
    factor = settings.get("scale", 1.0)

    def split(inputs: np.ndarray, label: np.ndarray) -> Split:
        x = torch.from_numpy((inputs.astype(np.float64) - shift) / spread)
        x = x if factor == 1 else x * factor
        x = x.unsqueeze(1) if x.ndim == 3 else x  # grey images have one channel
        x = _resized(x, settings.get("pixels", "all"))
        y = torch.from_numpy(label)
        targets = torch.nn.functional.one_hot(y, width)
        return Split(x.to(device, dtype), y.to(device), targets.to(device, dtype))

    return Splits(split(inputs, label), split(*test))


def _resized(images: Tensor, pixels: str | int) -> Tensor:
    """Images (samples, channels, height, width) with `pixels` in height and in width.

    Each is the nearest there was; where there were more, the mean of those in its area.
    """
    if pixels == "all" or images.shape[2:] == (pixels, pixels):
        return images
    if images.ndim != 4:
        raise DataError(f"data.pixels is {pixels}, but these data are no images; leave it out")
    mode = "nearest" if int(pixels) >= max(images.shape[2:]) else "area"
    return nn.functional.interpolate(images, size=(int(pixels), int(pixels)), mode=mode)


def _first(label: np.ndarray, samples: str | int) -> np.ndarray | slice:
    """Which training samples are the first so many.

    Where the data lie class by class, as in a folder of images, these would be of one class: there
    it is the first of a fixed random order.
    """
    if samples == "all":
        return slice(None)
    if int(samples) > len(label):
        raise DataError(f"data.samples is {samples}, there are {len(label)} training samples")
    by_class = np.count_nonzero(np.diff(label)) < len(np.unique(label))
    order = np.random.default_rng(0).permutation(len(label)) if by_class else np.arange(len(label))
    return order[: int(samples)]


def _moments(inputs: np.ndarray, scaling: str, maximum: float) -> tuple[Any, Any]:
    """What is subtracted from inputs, and what they are then divided by.

    Both are those of all training inputs of the classes that are kept. A component that never
    varies has an infinite divisor, and becomes 0.
    """
    if scaling == "unit":
        return 0.0, maximum
    numbers = inputs.astype(np.float64)
    if scaling == "standardized":
        return numbers.mean(), numbers.std()
    spread = numbers.std(axis=0)
    return numbers.mean(axis=0), np.where(spread > 0, spread, np.inf)


def _given(
    raw: xr.Dataset,
    settings: Mapping[str, Any],
    outputs: int | None,
    dtype: torch.dtype,
    device: str,
) -> Splits:
    """Samples of a regression: their inputs and targets as they are."""
    title, width = raw.attrs["title"], raw.sizes["target"]
    for key, value in AS_IT_IS.items():
        if settings.get(key, value) != value:
            raise DataError(f"data.{key} must be {value} with the numbers of {title}")
    if outputs not in (None, width):
        raise DataError(f"network.outputs is {outputs}, but {title} has targets of {width} numbers")

    def split(name: str) -> Split:
        arrays = (raw[f"{name}_{part}"].values for part in ("inputs", "targets"))
        x, y = (torch.from_numpy(array).to(device, dtype) for array in arrays)
        return Split(x, None, y)

    return Splits(split("train"), split("test"))


def _keep(raw: xr.Dataset, split: str, labels: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """The samples of some classes, in their order; labels renumbered in the order given."""
    inputs, label = raw[f"{split}_inputs"].values, raw[f"{split}_labels"].values
    number = np.full(max(labels) + 1, -1)
    number[labels] = np.arange(len(labels))
    new = np.where(label < len(number), number[np.minimum(label, len(number) - 1)], -1)
    return inputs[new >= 0], new[new >= 0]
