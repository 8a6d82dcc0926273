"""Scaled inputs, labels and targets of the training and the test samples, as tensors."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn

from flatlab.data._dataset import Arrays, DataError

PARTS = ("train", "test")
EVALUATED = {"cpu": 256, "cuda": 4096}
"""Samples per forward pass when a whole split is evaluated, by type of device."""
MOMENTS = 2000
"""Samples that are in memory as floating-point numbers at once while moments are computed."""

REGRESSION = {"classes": "all", "scaling": "none", "scale": 1.0, "samples": "all", "pixels": "all"}
"""The `data` section of a grid with a regression."""


@dataclass(frozen=True)
class Split:
    """Samples as networks see them.

    inputs: (samples, channels, height, width) or (samples, features).
    labels: (samples); None for a regression.
    targets: (samples, outputs), one-hot; for a regression real numbers.
    black, white: the inputs that an image of zeros, and one of the largest value, becomes.
    """

    inputs: Tensor
    labels: Tensor | None
    targets: Tensor
    black: Tensor | None = None
    white: Tensor | None = None

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def device(self) -> torch.device:
        return self.inputs.device

    def to(self, device: str, dtype: torch.dtype) -> "Split":
        """The same samples on a device, with inputs and targets of a given type."""
        labels = None if self.labels is None else self.labels.to(device)
        ends = (None if end is None else end.to(device, dtype) for end in (self.black, self.white))
        return Split(self.inputs.to(device, dtype), labels, self.targets.to(device, dtype), *ends)

    @torch.no_grad()
    def outputs(self, model: nn.Module) -> Tensor:
        """The outputs (samples, outputs) of a network."""
        convolves = any(isinstance(part, nn.Conv2d) for part in model.modules())
        # In double precision a processor unfolds the images, and many at once leave its cache.
        size = 64 if convolves and self.device.type == "cpu" else EVALUATED[self.device.type]
        return torch.cat([model(inputs) for inputs in self.inputs.split(size)])

    def subset(self, size: int, seed: int) -> "Split":
        """A fixed random subset of `size` distinct samples."""
        if size > len(self):
            raise DataError(f"{size} samples requested, but there are only {len(self)}")
        return self._chosen(self._order(seed)[:size])

    def misclassified(self, model: nn.Module, size: int, seed: int) -> "Split":
        """At most `size` misclassified samples: the first ones in a fixed random order."""
        if self.labels is None:
            raise DataError("samples without labels cannot be misclassified; set only: all")
        order = self._order(seed)
        wrong = (self.outputs(model).argmax(1) != self.labels).cpu()
        return self._chosen(order[wrong[order]][:size])

    def _order(self, seed: int) -> Tensor:
        return torch.from_numpy(np.random.default_rng(seed).permutation(len(self)))

    def _chosen(self, index: Tensor) -> "Split":
        index = index.to(self.device)
        labels = None if self.labels is None else self.labels[index]
        return Split(self.inputs[index], labels, self.targets[index])


@dataclass(frozen=True)
class GroupedOutputs(Split):
    """Samples of classes that are not the outputs of a network one by one.

    groups: for each class, the outputs that mean it; the largest of them is that of the class.
    """

    groups: tuple[tuple[int, ...], ...] = ()

    def outputs(self, model: nn.Module) -> Tensor:
        outputs = super().outputs(model)
        return torch.stack([outputs[:, list(group)].amax(1) for group in self.groups], 1)


@dataclass(frozen=True)
class Splits:
    """The samples of a grid's networks.

    train: those that they are trained on.
    test: those that they are tested on.
    further: more test sets, by name.
    """

    train: Split
    test: Split
    further: Mapping[str, Split] = field(default_factory=dict)

    @property
    def outputs(self) -> int:
        return self.train.targets.shape[1]


def prepare(
    raw: xr.Dataset,
    settings: Mapping[str, Any],
    outputs: int | None = None,
    dtype: torch.dtype = torch.float64,
    device: str = "cpu",
    further: Mapping[str, Arrays] = MappingProxyType({}),
) -> Splits:
    """Inputs and targets from a data file.

    raw: a data file.
    settings: the `data` section of a grid.
    outputs: the number of the network's outputs; None: one per class or target.
    dtype: of inputs and targets.
    device: `cpu` or `cuda`.
    further: the inputs and labels of more test sets, as if they were in the file.

    Raises `DataError` if the data cannot satisfy the settings.
    """
    if device != "cpu" and not torch.cuda.is_available():
        raise DataError(f"device is {device}, but torch finds no GPU here; set device: cpu")
    form = "given" if "train_targets" in raw else "one-hot"
    if settings.get("targets", form) != form:
        raise DataError(f"data.targets must be {form} with {raw.attrs['title']}")
    if form == "given":
        splits = _regression(raw, settings, outputs)
    else:
        splits = _classification(raw, settings, outputs, further.values())
    train, test, *more = (split.to(device, dtype) for split in splits)
    return Splits(train, test, dict(zip(further, more, strict=True)))


def _regression(raw: xr.Dataset, settings: Mapping[str, Any], outputs: int | None) -> list[Split]:
    title, width = raw.attrs["title"], raw.sizes["target"]
    for key, value in REGRESSION.items():
        if settings.get(key, value) != value:
            raise DataError(f"data.{key} must be {value} with the numbers of {title}")
    if outputs not in (None, width):
        raise DataError(f"network.outputs is {outputs}, but {title} has targets of {width} numbers")

    tensors = {name: torch.from_numpy(values.values) for name, values in raw.items()}
    return [Split(tensors[f"{part}_inputs"], None, tensors[f"{part}_targets"]) for part in PARTS]


def _classification(
    raw: xr.Dataset, settings: Mapping[str, Any], outputs: int | None, further: Iterable[Arrays]
) -> list[Split]:
    if settings["scaling"] == "none":
        raise DataError("data.scaling: none is for regressions; set unit or standardized")
    count, selection = len(raw.attrs["classes"]), settings["classes"]
    classes = list(range(count)) if selection == "all" else list(selection)
    if unknown := sorted(set(classes) - set(range(count))):
        raise DataError(f"{raw.attrs['title']} has no class {unknown[0]}")
    if repeated := [label for label in classes if classes.count(label) > 1]:
        raise DataError(f"data.classes names class {repeated[0]} twice")
    width = len(classes) if outputs is None else outputs
    if width < len(classes):
        raise DataError(f"{width} outputs cannot represent {len(classes)} classes")
    published = [(raw[f"{part}_inputs"].values, raw[f"{part}_labels"].values) for part in PARTS]
    train, *tests = (_of_classes(*part, classes, count) for part in (*published, *further))
    shift, spread = _moments(train[0], settings["scaling"], float(raw.attrs["maximum"]))
    first = _first(train[1], settings.get("samples", "all"))

    def scaled(inputs: np.ndarray) -> Tensor:
        x = torch.from_numpy((inputs.astype(np.float64) - shift) / spread)
        x *= settings.get("scale", 1.0)
        x = x.unsqueeze(1) if x.ndim == 3 else x  # grey images have one channel
        return _resized(x, settings.get("pixels", "all"))

    def split(inputs: np.ndarray, labels: np.ndarray) -> Split:
        y = torch.from_numpy(labels)
        values = (0, raw.attrs["maximum"])
        ends = (scaled(np.full((1, *inputs.shape[1:]), value))[0] for value in values)
        return Split(scaled(inputs), y, nn.functional.one_hot(y, width), *ends)

    return [split(train[0][first], train[1][first]), *(split(*test) for test in tests)]


def _of_classes(inputs: np.ndarray, labels: np.ndarray, classes: list[int], count: int) -> Arrays:
    """The samples of some of `count` classes, their labels renumbered in the order of `classes`."""
    number = np.full(count, -1)
    number[classes] = np.arange(len(classes))
    mask = number[labels] >= 0
    return inputs[mask], number[labels[mask]]


def _moments(inputs: np.ndarray, scaling: str, maximum: float) -> tuple[Any, Any]:
    """What is subtracted from inputs, and what they are then divided by.

    Both come from all training inputs of the chosen classes. The divisor of a component or channel
    that never varies is infinite, so that it becomes 0.
    """
    if scaling == "unit":
        return 0.0, maximum
    if scaling == "components":
        axes: tuple[int, ...] | None = (0,)
    elif scaling == "standardized" or inputs.ndim == 3:  # grey: only one channel
        axes = None
    elif inputs.ndim == 4:
        axes = (0, 2, 3)
    else:
        raise DataError("data.scaling is channels, but these data are not images")

    def mean(function: Callable[[np.ndarray], np.ndarray]) -> Any:
        chunks = (
            inputs[i : i + MOMENTS].astype(np.float64) for i in range(0, len(inputs), MOMENTS)
        )
        total = sum(function(chunk).sum(axis=axes, keepdims=True) for chunk in chunks)
        return total / (inputs.size // total.size)

    shift = mean(lambda chunk: chunk)
    spread = np.sqrt(mean(lambda chunk: (chunk - shift) ** 2))
    return shift, np.where(spread > 0, spread, np.inf)


def _first(labels: np.ndarray, samples: str | int) -> np.ndarray | slice:
    """The indices of the first training samples.

    If the data are sorted by class, as a folder of images is, these would all be of one class; then
    they are the first in a fixed random order.
    """
    if samples == "all":
        return slice(None)
    if int(samples) > len(labels):
        raise DataError(f"data.samples is {samples}, but there are {len(labels)} training samples")
    if np.count_nonzero(np.diff(labels)) < len(np.unique(labels)):
        return np.random.default_rng(0).permutation(len(labels))[: int(samples)]
    return slice(int(samples))


def _resized(images: Tensor, pixels: str | int) -> Tensor:
    """Images (samples, channels, height, width) with `pixels` in height and in width.

    An enlarged image repeats the nearest pixel; a reduced one averages over areas.
    """
    if pixels == "all" or images.shape[2:] == (pixels, pixels):
        return images
    if images.ndim != 4:
        raise DataError(f"data.pixels is {pixels}, but these data are not images; leave it out")
    mode = "nearest" if int(pixels) >= max(images.shape[2:]) else "area"
    return nn.functional.interpolate(images, size=(int(pixels), int(pixels)), mode=mode)
