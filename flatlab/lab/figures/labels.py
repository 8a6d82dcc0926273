"""What all figures call things: quantities, hyper-parameters, networks, data and numbers."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr

    from flatlab.lab.figures.render import Settings

IN_WORDS = {
    "vgg": "VGG",
    "mlp": "perceptron",
    "lenet5": "LeNet-5",
    "resnet": "ResNet",
    "simple-vit": "SimpleViT",
    "diagonal-linear": "diagonal linear",
    "sgd": "SGD",
    "adam": "Adam",
    "rmsprop": "RMSProp",
    "cifar10": "CIFAR-10",
    "cifar10-jpeg": "CIFAR-10 (JPEG)",
    "cifar100": "CIFAR-100",
    "fashion-mnist": "Fashion-MNIST",
    "digits": "images of digits",
    "sparse-regression": "a sparse regression",
    "gaussian-pair": "two Gaussian classes",
    "eight-points": "eight points",
    "vit-in1k": "ImageNet-1k ViTs",
    "vit-in21k": "ImageNet-21k ViTs",
    "clip": "fine-tuned CLIP",
    "timm-zoo": "networks of timm",
    "bert-mnli": "BERT on MNLI",
}
"""Architectures, optimizers and data sets in titles, captions and legends; others by their keys."""

WORDS = {
    "lr": "learning rate",
    "batch_size": "batch size",
    "scale": "input scale",
    "label_smoothing": "label smoothing",
}
NAMES = {
    "": "whole network",
    "train": "training samples",
    "test": "test samples",
    "misclassified": "misclassified test samples",
}
"""Sample sets, and what is of no single layer, in legends."""

UNITS = dict.fromkeys(("", "%", "coefficient", "points, or loss, as declared"), "")
UNITS |= {"1": "no unit", "mixed": "mixed units", "ln": "nats"}
"""Units in words; empty where they say nothing beside the name of a quantity."""


def label_of(figure: Mapping[str, Any], column: str) -> str:
    """What a figure calls a column: its `labels`, or else the words of the column's key."""
    label: str = figure["labels"].get(column) or WORDS.get(column, column.replace("_", " "))
    return label


def title_of(figure: Mapping[str, Any], column: str) -> str:
    """The label of a column with its units, if they say more: "MLS (output/input)"."""
    return with_units(label_of(figure, column), figure.get("units", {}).get(column, ""))


def with_units(name: str, units: str) -> str:
    """A name with its units, if they say more; these alone, if there is no name."""
    no_unit = units == "loss" and "loss" in name  # of which other numbers are multiples
    words = UNITS["1"] if no_unit else UNITS.get(units, units).replace("^2", "²")
    return f"{name} ({words})" if name and words else name or words


def in_lines(label: str, width: int = 11) -> str:
    """A label on several lines where it is wider; mathematics counts as one letter."""
    formulas = re.findall(r"\$.*?\$", label)
    text = re.sub(r"\$.*?\$", "\0", label)
    lines = textwrap.fill(text, width, break_on_hyphens=False, break_long_words=False)
    return re.sub("\0", lambda _: formulas.pop(0), lines)


def headings(tables: Mapping[str, xr.Dataset]) -> dict[str, str]:
    """The titles of panels by experiment: architectures without their options, and data.

    Experiments that would have the same title are named, too.
    """
    titles = {}
    for key, table in tables.items():
        about = table.attrs
        what = networks_of(about["network"]) if "network" in about else about["name"]
        titles[key] = f"{what} on {in_words_of(about['data'])}"
    shared = {title for title in titles.values() if [*titles.values()].count(title) > 1}
    return {key: f"{title} ({key})" if title in shared else title for key, title in titles.items()}


def extent_of(about: Mapping[str, Any]) -> str:
    """What a table with these attributes holds, its networks and data in words."""
    extent: str = about["extent"]
    if "network" in about:
        words = networks_of(about["network"], about.get("stands_in_for", ""))
        extent = extent.replace(f" {about['network']} networks", f" {words} networks", 1)
    data = about.get("data", "")
    return extent.replace(f" {data}, ", f" {in_words_of(data)}, ", 1) if data else extent


def networks_of(networks: str, paper: str = "") -> str:
    """Architectures in words, without their options: "narrow VGG and ResNet", "VGG on CIFAR-10".

    networks: as in the attributes of a table, "vgg (widths 4-pool, hidden 16) and resnet".
    paper: the networks that they stand in for; narrow is what has fewer units than these.
    """
    theirs = {key: units for key, units in _architectures(paper)}
    names = [
        ("narrow " if units != theirs.get(key, units) else "") + IN_WORDS.get(key, key)
        for key, units in _architectures(networks)
    ]
    _, on, data = networks.partition(" on ")
    return " and ".join(dict.fromkeys(names)) + on + in_words_of(data)


def of_architecture(networks: str, architecture: str) -> str:
    """Those of several networks that have an architecture."""
    names, on, data = networks.partition(" on ")
    kept = [name for name in names.split(" and ") if name.partition(" ")[0] == architecture]
    return " and ".join(kept) + on + data


def _architectures(networks: str) -> list[tuple[str, tuple[str, ...]]]:
    """The key of each architecture, and those of its options that are numbers of units."""
    matches = re.findall(r"([^ ()]+)(?: \(([^)]*)\))?(?: and |$)", networks.partition(" on ")[0])
    return [
        (key, tuple(part for part in options.split(", ") if part.startswith(("width", "hidden"))))
        for key, options in matches
    ]


def in_words_of(keys: str) -> str:
    """Architectures, optimizers or data sets in words, joined by "and" or "on": VGG on CIFAR-10."""
    return " on ".join(
        " and ".join(dict.fromkeys(IN_WORDS.get(word, word) for word in part.split(" and ")))
        for part in keys.split(" on ")
    )


def in_words(table: xr.Dataset, named: Sequence[str] = ()) -> list[str]:
    """The setting of each run in words: "learning rate 0.1, batch size 20".

    named: these hyper-parameters alone, where the others are the same for all runs.
    """
    keys = named or table.attrs["hyperparameters"]
    if not keys:  # of networks from elsewhere of which nothing more is known
        return ["all"] * table.sizes["run"]
    names = [WORDS.get(key, key) for key in keys]
    rows = zip(*(table[key].values for key in keys), strict=True)
    short = ([v if isinstance(v, str) else f"{v:g}" for v in row] for row in rows)
    return [", ".join(map(" ".join, zip(names, row, strict=True))) for row in short]


def without_common(settings: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Settings without what they have in common: the title of their legend, and their names in it.

    The title is the hyper-parameter, if only one varies, and otherwise empty.
    """
    parts = [setting.split(", ") for setting in settings]
    alike = {part for part in parts[0] if all(part in other for other in parts)} if parts else set()
    if len(settings) < 2:
        return "", {setting: setting for setting in settings}
    rest = [[part for part in each if part not in alike] for each in parts]
    factors = {each[0].rpartition(" ")[0] for each in rest if len(each) == 1}
    if len(factors) == 1 and all(len(each) == 1 for each in rest):
        values = [each[0].rpartition(" ")[2] for each in rest]
        return factors.pop(), dict(zip(settings, values, strict=True))
    return "", dict(zip(settings, map(", ".join, rest), strict=True))


def two_digits(number: float) -> str:
    """0.91, −0.20; no −0.00."""
    return f"{round(number, 2) + 0.0:.2f}".replace("-", "−")


def values_in_words(figure: Settings, values: Mapping[str, Any]) -> str:
    """Values of hyper-parameters by their printed names."""
    words = []
    for name, value in values.items():
        text = value if isinstance(value, str) else f"{value:g}"
        word = WORDS.get(name, name.replace("_", " "))
        default = IN_WORDS.get(text, f"{word} {text}")
        words.append(figure["values"].get(name, {}).get(text, default))
    return ", ".join(words)
