"""Measure the network in a file of weights."""

import argparse
import importlib
import resource
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import yaml

from flatlab.cli.show import print_dataset
from flatlab.core import store
from flatlab.core.run_records import files_matching, read_records
from flatlab.core.schema import convert, describe
from flatlab.inputs.arguments import Arguments, Measure
from flatlab.lab import plan
from flatlab.lab.kinds._sections import Scaling

DEFAULT = "(default: %(default)s)"
SAME = ("model", "data", "loss", "scaling", "resize", "device", "arguments")
"""Fields of `Measurement` that are options of this name."""
Add = Callable[..., Any]
FORMS = {"samples": "N|all", "parameters": "NAME", "output": "KEY|PLACE", "memory": "GB"}
FORMS |= {"dtype": "float64|float32"}
"""How arguments are written that are no whole numbers."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    network, data, what, how, output = _groups(parser)
    help_ = "a state dictionary (.safetensors, .pt or .pth)"
    parser.add_argument("weights", type=Path, nargs="?", help=help_)
    help_ = "a function that returns a torch module"
    network("--model", metavar="MODULE:FUNCTION", help=help_)
    network("--timm", metavar="NAME", help="network of timm; instead of --model, with --images")
    help_ = "weights for --timm (default: from timm's hub)"
    network("--weights", type=Path, metavar="FILE", dest="weights_of_timm", help=help_)
    help_ = "weights before training, for distances from them (capacity)"
    network("--initial", type=Path, metavar="FILE", help=help_)
    data("--data", metavar="FILE|FOLDER|NAME|MODULE:FUNCTION", help=_data_help())
    data("--images", type=Path, metavar="FOLDER", help="images by class, transformed as for --timm")
    help_ = f"part of the data set {DEFAULT}"
    data("--split", choices=["train", "test"], default="train", help=help_)
    help_ = f"seed that draws the samples {DEFAULT}"
    data("--sample-seed", type=int, metavar="N", default=0, help=help_)
    help_ = "measure families, or all (default: geometry; adaptive with --timm)"
    what("--family", nargs="+", metavar="NAME", help=help_)
    what("--loss", default="half-mse", help=f"loss of Hessians ({_known('losses')}) {DEFAULT}")
    _add_measuring(data, what, how)
    output("--out", type=Path, metavar="FILE.zarr.zip", help="file for the report")


def run(options: argparse.Namespace) -> int:
    store.check_ending(options.out, "a report")
    if bool(options.timm) != bool(options.images):
        raise plan.PlanError("--timm and --images go together")
    if options.timm and (options.model or options.data):
        raise plan.PlanError("give either --timm and --images, or --model and --data")
    if not options.timm and None in (options.weights, options.model, options.data):
        needed = "a file of weights, --model and --data"
        raise plan.PlanError(f"flatlab measure needs {needed}, or --timm and --images")
    _read(options)
    # Imported here because torch takes seconds and few commands need it.
    measurement = importlib.import_module("flatlab.api.report")
    start = time.monotonic()
    report = measurement.report(options)
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


def add_arguments_table(parser: argparse.ArgumentParser) -> None:
    network, data, what, how, output = _groups(parser)
    help_ = "state dictionaries, or patterns such as 'checkpoints/*.pt'"
    parser.add_argument("weights", nargs="+", metavar="FILE|PATTERN", help=help_)
    help_ = "a function that returns a torch module; it gets the hyper-parameters that it takes"
    network("--model", metavar="MODULE:FUNCTION", required=True, help=help_)
    help_ = "CSV or JSON: a row per network with its file, hyper-parameters, seed and outcomes"
    network("--runs", type=Path, metavar="FILE", help=help_)
    help_ = "columns of --runs that are outcomes, besides those that are called like one"
    network("--outcomes", nargs="+", default=[], metavar="NAME", help=help_)
    data("--data", required=True, metavar="FILE|FOLDER|NAME|MODULE:FUNCTION", help=_data_help())
    help_ = f"measure families, or all {DEFAULT}"
    what("--family", nargs="+", default=["geometry"], metavar="NAME", help=help_)
    help_ = "loss of the training (default: cross-entropy; half-mse where targets are numbers)"
    what("--loss", help=help_)
    _add_measuring(data, what, how)
    output("--out", type=Path, required=True, metavar="FILE.zarr.zip", help="file for the table")


def run_table(options: argparse.Namespace) -> int:
    """Measure networks that you trained elsewhere, and join them to a table.

    The table is like that of a grid: every template, correlation and claim works on it. Columns of
    --runs that are called like an outcome (test_error, val_loss, gap, ...) are outcomes, others are
    hyper-parameters. A command that was stopped goes on where it stopped.
    """
    store.check_ending(options.out, "a table")
    _read(options)
    files = files_matching(options.weights)
    records = read_records(files, options.runs, options.outcomes)
    own = importlib.import_module("flatlab.lab.kinds._user_networks")
    how = own.Measurement(
        families=tuple(options.family),
        options=tuple(options.options),
        **{name: getattr(options, name) for name in SAME},
    )
    key = options.out.name.removesuffix(".zarr.zip")
    unfinished = Path(f"{options.out}.unfinished")
    table = own.table_of(records, how, key, unfinished)
    store.save_dataset(options.out, table)
    shutil.rmtree(unfinished, ignore_errors=True)
    print(f"{options.out}: {table.attrs['extent']}")
    outcomes = ", ".join(table.attrs["outcomes"]) or "none given"
    print(f"hyper-parameters: {', '.join(table.attrs['hyperparameters']) or 'none'}")
    print(f"outcomes: {outcomes}; measured: {len(table.data_vars)} quantities")
    return 0


def _groups(parser: argparse.ArgumentParser) -> tuple[Add, ...]:
    """What adds an option to each group of the help."""
    titles = ("network", "data", "what is measured", "how it is computed", "output")
    return tuple(parser.add_argument_group(title).add_argument for title in titles)


def _add_measuring(data: Add, what: Add, how: Add) -> None:
    """Options of samples, outputs and parameters, and of the computation."""
    help_ = f"scaling of images; arrays are as your networks see them {DEFAULT}"
    data("--scaling", choices=get_args(Scaling), default="unit", help=help_)
    help_ = "pixels of the shorter side to which images of --data FOLDER are resized and cut"
    data("--resize", type=int, metavar="PIXELS", help=help_)
    help_ = "options of measure families and of the loss"
    what("--options", nargs="+", type=_option, default=[], metavar="KEY=VALUE", help=help_)
    groups = {**dict.fromkeys(("samples", "ignore_index"), data)}
    groups |= dict.fromkeys(("output", "parameters"), what)
    for name, _, meaning in describe(Measure):
        if name in Arguments.__struct_fields__:
            flag, form = f"--{name.replace('_', '-')}", FORMS.get(name, "N")
            given = {"nargs": "+", "type": str} if name == "parameters" else {"type": _value}
            help_ = meaning.replace("null: ", "by default ").replace("%", "%%")
            groups.get(name, how)(flag, metavar=form, help=help_, **given)
    how("--device", choices=["cpu", "cuda"], default="cpu", help=f"where to compute {DEFAULT}")


def _data_help() -> str:
    return (
        "where samples come from. A file .npz, .npy, .csv or .safetensors with inputs and targets, "
        "perhaps in parts x_train and x_test. Several inputs have the names of the network's "
        "arguments. A folder or archive of images, by class where targets are needed. A function "
        f"that returns arrays or loaders. Or a data set ({_known('data')})"
    )


def _known(folder: str) -> str:
    """The keys of a registry, for a help text."""
    return f"known: {', '.join(plan.keys_of(folder))}"


def _value(text: str) -> Any:
    """A value of YAML."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise argparse.ArgumentTypeError(f"{text!r} is no value") from None


def _option(text: str) -> tuple[str, Any]:
    """KEY=VALUE, with a value of YAML."""
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE, such as width=64")
    return key, _value(value)


def _read(options: argparse.Namespace) -> None:
    """Make a record of the arguments, as `measure:` in a file has them; bytes of gigabytes."""
    given = {name: getattr(options, name) for name in Arguments.__struct_fields__}
    given = {name: value for name, value in given.items() if value is not None}
    if isinstance(given.get("memory"), int | float):
        given["memory"] = int(1e9 * given["memory"])
    measure = convert({**given, "families": []}, Measure, lambda key: f"--{key.replace('_', '-')}")
    options.arguments = Arguments(**measure.arguments)
