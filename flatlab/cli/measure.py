"""Measure the network in a file of weights."""

import argparse
import importlib
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import yaml

from flatlab import plan, store
from flatlab.cli.show import print_dataset
from flatlab.experiments.grids.sections import Scaling
from flatlab.plan.options import options_of

GROUP = "Measure networks"
DEFAULT = "(default: %(default)s)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help_ = ".safetensors, .pt or .pth: a state dictionary, or a pack that flatlab trained"
    add("weights", type=Path, nargs="?", help=help_)
    help_ = f"an architecture ({known_keys('networks')}), or a function that returns a torch module"
    add("--model", metavar="NAME|MODULE:FUNCTION", help=help_)
    add("--timm", metavar="NAME", help="instead of --model, with --images: a network of timm")
    help_ = "weights for --timm; those of timm's hub by default"
    add("--weights", type=Path, metavar="FILE", dest="weights_of_timm", help=help_)
    add("--outputs", type=int, help="outputs of the network; the number of classes by default")
    help_ = "options of --model NAME, such as width=64 activation=tanh; relu is the default"
    add("--network", nargs="+", type=option_of, default=[], metavar="KEY=VALUE", help=help_)
    add("--run", help="network to measure, for a pack")
    help_ = "its weights before training, for distances from them (capacity)"
    add("--initial", type=Path, metavar="FILE", help=help_)
    add("--checkpoint", type=int, help="iteration to measure, for a pack; the last by default")
    help_ = (
        f"a data set ({known_keys('data')}), a folder or archive of images, by class where targets "
        "are needed, or a file .npz, .npy, .csv or .safetensors with inputs and targets"
    )
    add("--data", metavar="NAME|FOLDER|FILE", help=help_)
    help_ = "pixels of the shorter side to which images of --data FOLDER are resized and cut"
    add("--resize", type=int, metavar="PIXELS", help=help_)
    help_ = "the output that is meant, by its key or place; the only one, or `logits`, by default"
    add("--output", help=help_)
    help_ = "names of parameters or modules, or patterns: theta; all by default"
    add("--parameters", nargs="+", metavar="NAME", help=help_)
    help_ = f"the class of samples that are left out {DEFAULT}"
    add("--ignore-index", type=int, default=-100, help=help_)
    add("--images", type=Path, metavar="FOLDER", help="images by class, transformed as for --timm")
    help_ = f"part of the data set {DEFAULT}"
    add("--split", choices=["train", "test"], default="train", help=help_)
    add("--samples", type=count_of, default=100, help=f"number of samples, or `all` {DEFAULT}")
    add("--sample-seed", type=int, default=0, help=f"seed that draws the samples {DEFAULT}")
    help_ = f"scaling of inputs {DEFAULT}"
    add("--scaling", choices=get_args(Scaling), default="unit", help=help_)
    help_ = "families of quantities, or all; geometry by default, adaptive with --timm"
    add("--family", nargs="+", metavar="NAME", help=help_)
    add("--loss", default="half-mse", help=f"loss of Hessians ({known_keys('losses')}) {DEFAULT}")
    help_ = (
        "of --loss cross-entropy, one number for each class, or a file with them (.npy, or text): "
        "the mean over samples is weighted"
    )
    add("--class-weights", nargs="+", metavar="NUMBER|FILE", help=help_)
    add("--dtype", help="float64 or float32; that of the weights by default")
    help_ = f"options of families and of the loss: {'; '.join(_options())}"
    add("--options", nargs="+", type=option_of, default=[], metavar="KEY=VALUE", help=help_)
    add("--batch-size", type=int, help="samples at a time; what fits in memory by default")
    add("--memory", type=float, metavar="GB", help="for derivatives; by default a quarter of it")
    help_ = f"seed of families that draw random numbers {DEFAULT}"
    add("--seed", type=int, default=0, help=help_)
    help_ = f"where to compute {DEFAULT}"
    add("--device", choices=["cpu", "cuda"], default="cpu", help=help_)
    add("--out", type=Path, metavar="FILE.zarr.zip", help="file for the report")


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


def run(options: argparse.Namespace) -> int:
    _check(options)
    # Imported here because torch takes seconds and few commands need it.
    measurement = importlib.import_module("flatlab.execution.model_report")
    start = time.monotonic()
    try:
        report = measurement.report(options)
    except (measurement.MeasureError, measurement.DataError) as error:
        raise store.StoreError(str(error)) from None
    if options.out:
        store.save_dataset(options.out, report)
    print_dataset(report)
    # Printed only: the report itself does not depend on the machine or the time.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory = peak * (1 if sys.platform == "darwin" else 1024)
    print(f"\n{time.monotonic() - start:.1f} s, at most {memory / 1e9:.2f} GB of memory")
    if options.out:
        print(f"\nwritten to {options.out}; print it again with: flatlab show {options.out}")
    return 0


def _check(options: argparse.Namespace) -> None:
    if options.out and not options.out.name.endswith(".zarr.zip"):
        raise store.StoreError(f"{options.out}: a report is a .zarr.zip file")
    if bool(options.timm) != bool(options.images):
        raise plan.PlanError("--timm and --images go together")
    if options.timm and (options.model or options.data):
        raise plan.PlanError("give either --timm and --images, or --model and --data")
    if not options.timm and None in (options.weights, options.model, options.data):
        needed = "a file of weights, --model and --data"
        raise plan.PlanError(f"flatlab measure needs {needed}, or --timm and --images")
