"""What all figures call things: quantities, hyper-parameters, networks, data and numbers."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from flatlab.tables.selection import hyperparameters

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
    "train": "training samples",
    "test": "test samples",
    "misclassified": "misclassified test samples",
    "bound_a": "A, the MLS",
    "bound_b": "B, by the first layer's gradients",
    "bound_c": "C, by the first layer's sharpness",
    "bound_d": "D, by the network's sharpness",
}
"""Names in the legend of lines other than settings."""

TITLES = {
    "train_loss": "training loss (output²)",
    "test_loss": "test loss (output²)",
    "test_accuracy": "test accuracy (%)",
    "root_sharpness": r"sharpness $\sqrt{S}$ (output/parameter)",
    "log_volume": "log volumetric ratio (natural logarithm)",
    "mls": "MLS (output/input)",
    "bound_d": "MLS bound (output/input)",
    "nmls": "NMLS (sum over the layers)",
    "nmls_bound": "NMLS bound",
    "g": "G (output²/input²)",
    "local_dimension": "local dimensionality",
    "hessian_lambda_max": r"sharpness $\lambda_{\max}(H)$ (loss/parameter²)",
    "softmax_jacobian_norm": "Jacobian norm, softmaxed (1/input)",
}
"""Quantities with their units, for panels that show one quantity each."""

LABELS = {
    "local_dimension": "local\ndimension",
    "root_sharpness": r"sharpness $\sqrt{S}$",
    "log_volume": "log volume",
    "mls": "MLS",
    "nmls": "NMLS",
    "g": "G",
    "test_loss": "test loss",
    "generalization_gap": "gen. gap",
    "bound_c": "bound C",
    "bound_d": "MLS bound",
    "nmls_bound": "NMLS bound",
    "relative_flatness": "relative\n" + r"sharpness $\kappa$",
}
"""Short names of quantities, for small panels."""


def title_of(quantity: str) -> str:
    """A quantity with its unit; without an entry in `TITLES`, its key."""
    return TITLES.get(quantity, quantity.replace("_", " "))


def label_of(quantity: str) -> str:
    """The short name of a quantity, on up to two lines."""
    return LABELS.get(quantity, quantity.replace("_", "\n", 1).replace("_", " "))


def short_label_of(quantity: str) -> str:
    """The short name of a quantity, on one line."""
    return label_of(quantity).replace("\n", " ")


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


def networks_of(networks: str, architecture: str = "") -> str:
    """Architectures in words, without their options: "VGG and ResNet", "VGG on CIFAR-10".

    architecture: this one alone.
    """
    keys, on, data = re.sub(r" \(.*?\)", "", networks).partition(" on ")
    kept = [key for key in keys.split(" and ") if architecture in ("", key)]
    return in_words_of(" and ".join(kept) + on + data)


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
    keys = named or hyperparameters(table)
    names = [WORDS.get(key, key) for key in keys]
    rows = zip(*(table[key].values for key in keys), strict=True)
    return [", ".join(f"{n} {_short(v)}" for n, v in zip(names, row, strict=True)) for row in rows]


def _short(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def without_common(settings: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Settings without what they have in common: the title of their legend, and their names in it.

    The title is the hyper-parameter, if only one varies, and otherwise empty.
    """
    parts = [setting.split(", ") for setting in settings]
    alike = {part for part in parts[0] if all(part in other for other in parts)} if parts else set()
    if len(settings) < 2 or not alike:
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
