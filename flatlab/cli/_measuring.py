"""Options that commands which measure networks have in common."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import yaml

from flatlab.core.options import options_of
from flatlab.lab import plan
from flatlab.lab.kinds.grids.sections import Scaling

DEFAULT = "(default: %(default)s)"


def add_measuring(parser: argparse.ArgumentParser) -> None:
    """Options of samples, outputs and parameters, and of the computation."""
    add = parser.add_argument
    help_ = f"number of training samples, or `all` {DEFAULT}"
    add("--samples", type=count_of, default=100, help=help_)
    help_ = f"scaling of images; arrays are as your networks see them {DEFAULT}"
    add("--scaling", choices=get_args(Scaling), default="unit", help=help_)
    help_ = "pixels of the shorter side to which images of --data FOLDER are resized and cut"
    add("--resize", type=int, metavar="PIXELS", help=help_)
    help_ = "the output that is meant, by its key or place; the only one, or `logits`, by default"
    add("--output", help=help_)
    help_ = "names of parameters or modules, or patterns: theta; all by default"
    add("--parameters", nargs="+", metavar="NAME", help=help_)
    help_ = f"the class of samples, or of positions, that are left out {DEFAULT}"
    add("--ignore-index", type=int, default=-100, help=help_)
    help_ = (
        "of --loss cross-entropy, one number for each class, or a file with them (.npy, or text): "
        "the mean over samples is weighted"
    )
    add("--class-weights", nargs="+", metavar="NUMBER|FILE", help=help_)
    help_ = f"options of families and of the loss: {'; '.join(_options())}"
    add("--options", nargs="+", type=option_of, default=[], metavar="KEY=VALUE", help=help_)
    add("--dtype", help="float64 or float32; that of the weights by default")
    add("--batch-size", type=int, help="samples at a time; what fits in memory by default")
    add("--memory", type=float, metavar="GB", help="for derivatives; by default a quarter of it")
    add("--device", choices=["cpu", "cuda"], default="cpu", help=f"where to compute {DEFAULT}")


def data_help() -> str:
    """What the option --data takes."""
    return (
        "a file .npz, .npy, .csv or .safetensors with inputs (several under the names of the "
        "network's arguments) and targets, perhaps in parts x_train and x_test; a folder or "
        "archive of images, by class where targets are needed; a function that returns arrays or "
        f"loaders; or a data set ({known_keys('data')})"
    )


def read_measuring(options: argparse.Namespace) -> None:
    """Make values of what was given as text: the output, class weights, memory in bytes.

    Raises `PlanError` for weights that are none.
    """
    if (options.output or "").isdigit():
        options.output = int(options.output)
    if options.class_weights:
        options.class_weights = _class_weights(options.class_weights)
    if options.memory:
        options.memory = int(1e9 * options.memory)


def known_keys(folder: str) -> str:
    """The keys of a registry, for a help text."""
    return f"known: {', '.join(plan.keys_of(folder))}"


def _options() -> Iterator[str]:
    for folder in ("metrics", "losses"):
        for key in plan.keys_of(folder):
            if fields := options_of(folder, key).__struct_fields__:
                yield f"{', '.join(fields)} ({key})"


def count_of(text: str) -> int | str:
    """A positive number, or `all`."""
    if text == "all":
        return text
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is neither `all` nor a positive number")
    return int(text)


def option_of(text: str) -> tuple[str, Any]:
    """KEY=VALUE, with a value of YAML."""
    key, equals, value = text.partition("=")
    try:
        if equals:
            return key, yaml.safe_load(value)
    except yaml.YAMLError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE, such as width=64")


def _class_weights(given: Sequence[str]) -> list[float]:
    """Numbers, or those in a file."""
    try:
        if len(given) > 1 or not Path(given[0]).exists():
            return [float(each) for each in given]
        if given[0].endswith(".npy"):
            return [float(each) for each in np.load(given[0], allow_pickle=False)]
        return [float(each) for each in Path(given[0]).read_text().replace(",", " ").split()]
    except (TypeError, ValueError, OSError) as error:
        raise plan.PlanError(f"--class-weights {given[0]}: {error}") from None
