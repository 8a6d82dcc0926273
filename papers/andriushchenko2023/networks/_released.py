"""Networks that others released, from the files in which they published them: what zoos measure.

An experiment of kind `networks` names the function `networks`, and its `arguments`: `networks`
(patterns of names of files), `layout` (of the files, see `_published`), `architecture` (in timm,
of files of JAX, which do not say what they are), `described` (a file of JSON in their folder with
hyper-parameters by network) and, of sentences, `labels` (what the outputs stand for, in order).
"""

import functools
import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flatlab.data._dataset import DataError
from flatlab.data._sentences import Pairs
from flatlab.networks import _published
from flatlab.networks._pretrained import (
    LabelledFiles,
    LazyNetwork,
    LoadedNetwork,
    Reader,
    check_images,
    with_samples,
)


def networks(settings: Mapping[str, Any], folder: Path, device: str) -> Iterator[LazyNetwork]:
    """This job's share of the networks in the settings.  folder: holds weights and test sets."""
    chosen, place = settings["arguments"], folder / settings["folder"]
    layout = chosen["layout"]
    if layout == "bert":
        for each in ({"files": settings["images"]}, *settings.get("test_sets", {}).values()):
            _pairs(folder / each["files"], names=tuple(chosen["labels"]))
    else:
        check_images(settings, folder)
    described = _described(place, chosen.get("described"))
    paths = _published.published_files(place, chosen["networks"], layout)
    for path in paths[settings["part"] :: settings["jobs"]]:
        key = path.name.removesuffix(path.suffix) if path.is_file() else path.name
        values = hyperparameters(key, settings.get("hyperparameters", {}), described)
        load = partial(_loaded, path, settings, folder, device)
        yield LazyNetwork(key, chosen.get("architecture") or layout, load, values)


def _loaded(path: Path, settings: Mapping[str, Any], folder: Path, device: str) -> LoadedNetwork:
    chosen = settings["arguments"]
    layout = chosen["layout"]
    model, configuration = _published.opened(path, layout, chosen.get("architecture"))
    read: Any = Reader(folder, configuration, settings["classes"])
    if layout == "bert":
        read = partial(_sentences, folder, path, tuple(chosen["labels"]))
    return with_samples(model, read, settings, device)


@functools.cache
def _pairs(
    place: Path, *draw: int, names: tuple[str, ...], where: tuple[tuple[str, str], ...] = ()
) -> Pairs:
    return Pairs(place, names, dict(where), *draw)


def _sentences(
    folder: Path, network: Path, names: tuple[str, ...], chosen: Mapping[str, Any], *draw: int
) -> LabelledFiles:
    where = tuple(chosen["where"].items())
    pairs = _pairs(folder / chosen["files"], *draw, names=names, where=where)

    def read(part: slice) -> Tensor:
        return _published.tokens(network, pairs.pairs[part])

    return LabelledFiles(read, torch.tensor(pairs.labels), pairs.classes)


def _described(folder: Path, name: str | None) -> dict[str, Any] | None:
    """The hyper-parameters of each network in a file of JSON."""
    if name is None:
        return None
    try:
        found: dict[str, Any] = json.loads((folder / name).read_text())
    except (OSError, ValueError):
        raise DataError(
            f"{folder / name} cannot be read; put the hyper-parameters of the networks there, as "
            '{"<network>": {"lr": 0.01}}'
        ) from None
    return found


def hyperparameters(
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
