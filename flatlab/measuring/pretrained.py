"""The networks of a zoo that were trained elsewhere, and the files that they are measured on."""

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.data._dataset import DataError
from flatlab.data._images import Images
from flatlab.data._sentences import Pairs
from flatlab.data._tensors import GroupedOutputs, Splits
from flatlab.measuring.zoo import LazyNetwork, LoadedNetwork
from flatlab.networks import _published, _timm

CLEAN = "test"
"""The name of the test set that is not shifted."""


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


def networks(settings: Mapping[str, Any], folder: Path, device: str) -> Iterator[LazyNetwork]:
    """This job's share of the networks in the settings.  folder: holds weights and test sets."""
    chosen = settings["pretrained"]
    layout, place = chosen["layout"], folder / chosen["folder"]
    share = slice(settings["part"], None, settings["jobs"])
    _check(settings, folder)
    if layout is None:
        for name in _timm.wanted(chosen["networks"], place)[share]:
            yield LazyNetwork(name, name, partial(_loaded, name, settings, folder, device))
        return
    described = _described(place, chosen["described"])
    for path in _published.published_files(place, chosen["networks"], layout)[share]:
        key = path.name.removesuffix(path.suffix) if path.is_file() else path.name
        values = _hyperparameters(key, settings.get("hyperparameters", {}), described)
        load = partial(_loaded, path, settings, folder, device)
        yield LazyNetwork(key, chosen["architecture"] or layout, load, values)


def _check(settings: Mapping[str, Any], folder: Path) -> None:
    """Raise `DataError` for files that no network can do without, before the first is loaded."""
    chosen = settings["pretrained"]
    pairs = partial(_pairs, names=tuple(chosen["labels"]))
    read: Callable[..., object] = pairs if chosen["layout"] == "bert" else _images
    read(folder / chosen["images"], settings["samples"], settings["seed"])
    for each in settings.get("test_sets", {}).values():
        read(folder / each["files"])


_images = functools.cache(Images)


@functools.cache
def _pairs(
    place: Path, *draw: int, names: tuple[str, ...], where: tuple[tuple[str, str], ...] = ()
) -> Pairs:
    return Pairs(place, names, dict(where), *draw)


def _loaded(
    which: str | Path, settings: Mapping[str, Any], folder: Path, device: str
) -> LoadedNetwork:
    """which: the name of a network of timm, or the file of one."""
    chosen = settings["pretrained"]
    layout, outputs = chosen["layout"], chosen["classes"]
    if isinstance(which, str):
        model = _timm.load(which, folder / chosen["folder"])
        configuration = _timm.configuration(model)
        pixels, number = configuration["input_size"][-1], getattr(model, "num_classes", 0)
        if number != outputs or pixels > chosen["size_at_most"]:
            raise MeasureError(f"left out: {number} outputs, inputs of {pixels} pixels")
    else:
        model, configuration = _published.opened(which, layout, chosen["architecture"])

    known: list[str] = []  # the classes of the training images

    def files(name: str, where: Mapping[str, str], *draw: int) -> LabelledFiles:
        if isinstance(which, Path) and layout == "bert":
            return _sentences(folder / name, which, chosen["labels"], where, *draw)
        images = _images(folder / name, *draw)
        if not known:
            known.extend(images.classes)
        labels = images.of_folders(), images.outputs_of(outputs, known)
        return LabelledFiles(partial(images.inputs, configuration), *labels)

    draw = settings["samples"], settings["seed"]
    if any(options.get("own_targets") for options in settings["families"].values()):
        return LoadedNetwork(model, _images(folder / chosen["images"], *draw).inputs(configuration))
    train = files(chosen["images"], {}, *draw)
    inputs = train.read(slice(None))
    with torch.no_grad():
        if (number_of_outputs := model(inputs[:1]).shape[1]) != outputs:
            raise MeasureError(f"left out: {number_of_outputs} outputs instead of {outputs}")
    splits = None
    if "accuracy" in settings["families"]:
        sets = {
            name: files(each["files"], each["where"]).split(device)
            for name, each in settings["test_sets"].items()
        }
        splits = Splits(train.split(device), sets.pop(CLEAN), sets)
    return LoadedNetwork(model, inputs, train.outputs, splits)


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


def _sentences(
    place: Path, network: Path, names: Sequence[str], where: Mapping[str, str], *draw: int
) -> LabelledFiles:
    pairs = _pairs(place, *draw, names=tuple(names), where=tuple(where.items()))

    def read(part: slice) -> Tensor:
        return _published.tokens(network, pairs.pairs[part])

    return LabelledFiles(read, torch.tensor(pairs.labels), pairs.classes)


def _described(folder: Path, name: str | None) -> dict[str, Any] | None:
    """The hyper-parameters of each network in a file of JSON."""
    if name is None:
        return None
    try:
        hyperparameters = json.loads((folder / name).read_text())
    except (OSError, ValueError):
        raise DataError(
            f"{folder / name} cannot be read; put the hyper-parameters of the networks there, as "
            '{"<network>": {"lr": 0.01}}'
        ) from None
    return hyperparameters


def _hyperparameters(
    network: str, wanted: Mapping[str, str], described: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The coordinates of a network, by a file or by its name; None for what they do not say."""
    if described is not None:
        return {name: described.get(network, {}).get(key) for name, key in wanted.items()}
    matches = {name: re.search(pattern, network) for name, pattern in wanted.items()}
    return {name: _value(match[1]) if match else None for name, match in matches.items()}


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
