"""Networks that exist, loaded one by one with the samples that each is measured on.

A zoo names them: those of timm by name, whose weights lie in files or at timm's hub, are `of_timm`.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.data._images import Images
from flatlab.data._tensors import GroupedOutputs, Splits
from flatlab.networks import _timm

CLEAN = "test"
"""The name of the test set that is not shifted."""


class LoadedNetwork(NamedTuple):
    """A network and what it is measured on.

    model: the network, in evaluation mode.
    inputs: (samples, ...).
    labels: classes of the inputs, (samples,); None if the outputs are the targets.
    splits: for families that compare test sets.
    known: values of quantities that are known without measuring.
    """

    model: nn.Module
    inputs: Tensor
    labels: Tensor | None = None
    splits: Splits | None = None
    known: Mapping[str, float] = {}


class LazyNetwork(NamedTuple):
    """An entry of a zoo; `load()` loads the network and may raise.

    key: its row in the table.
    architecture: its name.
    load: makes the network and its samples.
    hyperparameters: coordinates of the table.
    """

    key: str
    architecture: str
    load: Callable[[], LoadedNetwork]
    hyperparameters: Mapping[str, Any] = {}


class LazyInputs:
    """Inputs that are loaded from disk batch by batch, as a tensor of all would not fit.

    read: loads the inputs of a part of the samples.
    count: number of samples.
    device: where the inputs are needed.
    """

    def __init__(self, read: Callable[[slice], Tensor], count: int, device: str) -> None:
        self.read, self.count, self.device = read, count, torch.device(device)

    def __len__(self) -> int:
        return self.count

    def split(self, size: int) -> Iterator[Tensor]:
        """The inputs of `size` samples at a time."""
        for start in range(0, self.count, size):
            yield self.read(slice(start, start + size)).to(self.device)


class LabelledFiles(NamedTuple):
    """Samples that lie in files.

    read: loads the inputs of a part of the samples.
    labels: the class of each, (samples,).
    classes: the outputs that mean each class.
    """

    read: Callable[[slice], Tensor]
    labels: Tensor
    classes: list[list[int]]

    @property
    def outputs(self) -> Tensor:
        """The first output (samples) that means the class of each."""
        return torch.tensor([each[0] for each in self.classes])[self.labels]

    def split(self, device: str) -> GroupedOutputs:
        inputs: Any = LazyInputs(self.read, len(self.labels), device)
        labels = self.labels.to(device)
        targets = nn.functional.one_hot(labels, len(self.classes)).float()
        return GroupedOutputs(inputs, labels, targets, groups=tuple(map(tuple, self.classes)))


images = functools.cache(Images)


class Reader:
    """Reads images for one network: those of a folder of the data folder, as it expects them.

    configuration: how its inputs are prepared, as timm says it.
    outputs: of the network.
    """

    def __init__(self, folder: Path, configuration: Mapping[str, Any], outputs: int) -> None:
        self.folder, self.configuration, self.outputs = folder, configuration, outputs
        self.known: Sequence[str] = ()  # the classes of the training images, which are read first

    def __call__(self, chosen: Mapping[str, Any], *draw: int) -> LabelledFiles:
        found = images(self.folder / chosen["files"], *draw)
        self.known = self.known or found.classes
        labels = found.of_folders(), found.outputs_of(self.outputs, self.known)
        return LabelledFiles(partial(found.inputs, self.configuration), *labels)


def with_samples(
    model: nn.Module, read: Callable[..., LabelledFiles], settings: Mapping[str, Any], device: str
) -> LoadedNetwork:
    """A network with the samples and the test sets that the settings of a zoo name.

    read: the samples of a test set, or a draw of them: a number and a seed.
    """
    train = read({"files": settings["images"], "where": {}}, settings["samples"], settings["seed"])
    inputs, wanted = train.read(slice(None)), settings["classes"]
    with torch.no_grad():
        if (outputs := model(inputs[:1]).shape[1]) != wanted:
            raise MeasureError(f"left out: {outputs} outputs instead of {wanted}")
    splits = None
    if "accuracy" in settings["families"]:
        sets = {name: read(each).split(device) for name, each in settings["test_sets"].items()}
        splits = Splits(train.split(device), sets.pop(CLEAN), sets)
    return LoadedNetwork(model, inputs, train.outputs, splits)


def check_images(settings: Mapping[str, Any], folder: Path) -> None:
    """Raise `DataError` for files that no network can do without, before the first is loaded."""
    images(folder / settings["images"], settings["samples"], settings["seed"])
    for each in settings.get("test_sets", {}).values():
        images(folder / each["files"])


def of_timm(settings: Mapping[str, Any], folder: Path, device: str) -> Iterator[LazyNetwork]:
    """This job's share of the networks in the settings.  folder: holds weights and images."""
    check_images(settings, folder)
    names = _timm.wanted(settings["networks"], folder / settings["folder"])
    for name in names[settings["part"] :: settings["jobs"]]:
        yield LazyNetwork(name, name, partial(_loaded, name, settings, folder, device))


def _loaded(name: str, settings: Mapping[str, Any], folder: Path, device: str) -> LoadedNetwork:
    model = _timm.load(name, folder / settings["folder"])
    configuration = _timm.configuration(model)
    pixels, outputs = configuration["input_size"][-1], getattr(model, "num_classes", 0)
    if outputs != settings["classes"] or pixels > settings["size_at_most"]:
        raise MeasureError(f"left out: {outputs} outputs, inputs of {pixels} pixels")
    return with_samples(model, Reader(folder, configuration, outputs), settings, device)
