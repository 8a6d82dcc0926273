"""Measure networks that you trained elsewhere, and join them to a table.

The table is like that of a grid: every template, correlation and claim works on it. Columns of
--runs that are called like an outcome (test_error, val_loss, gap, ...) are outcomes, others are
hyper-parameters. A command that was stopped goes on where it stopped.
"""

import argparse
import glob
import importlib
import shutil
from pathlib import Path
from typing import get_args

from flatlab import plan, store
from flatlab.cli.measure import DEFAULT, count_of, known_keys, option_of
from flatlab.experiments.grids.sections import Scaling
from flatlab.plan.run_records import read_records

GROUP = "Measure networks"
MODULES = ("execution.own_networks", "derivatives.errors", "data._dataset")
"""What is imported when the command runs: torch takes seconds."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help_ = "files of state dictionaries, or patterns such as 'checkpoints/*.pt'"
    add("weights", nargs="+", metavar="FILE|PATTERN", help=help_)
    help_ = (
        "a function that returns a torch module; it is given those hyper-parameters that it takes"
    )
    add("--model", metavar="MODULE:FUNCTION", required=True, help=help_)
    help_ = "CSV or JSON: a row per network with its file, hyper-parameters, seed and outcomes"
    add("--runs", type=Path, metavar="FILE", help=help_)
    help_ = "columns of --runs that are outcomes, besides those that are called like one"
    add("--outcomes", nargs="+", default=[], metavar="NAME", help=help_)
    help_ = (
        "a file .npz, .npy, .csv or .safetensors with x_train and y_train, a folder of images, a "
        f"function that returns arrays or loaders, or a data set ({known_keys('data')})"
    )
    add("--data", required=True, metavar="FILE|FOLDER|NAME|MODULE:FUNCTION", help=help_)
    help_ = f"scaling of images; arrays are as your networks see them {DEFAULT}"
    add("--scaling", choices=get_args(Scaling), default="unit", help=help_)
    help_ = "pixels of the shorter side to which images of --data FOLDER are resized and cut"
    add("--resize", type=int, metavar="PIXELS", help=help_)
    add("--family", nargs="+", default=["geometry"], metavar="NAME", help="families, or all")
    add(
        "--loss",
        help="of the training; cross-entropy by default, half-mse where targets are numbers",
    )
    help_ = f"training samples that the families are measured on, or `all` {DEFAULT}"
    add("--samples", type=count_of, default=100, help=help_)
    add("--seed", type=int, default=0, help=f"of samples and random numbers {DEFAULT}")
    add("--batch-size", type=int, help="samples at a time; what fits in memory by default")
    add("--dtype", help="float64 or float32; that of the weights by default")
    add("--options", nargs="+", type=option_of, default=[], metavar="KEY=VALUE", help="of families")
    add("--device", choices=["cpu", "cuda"], default="cpu", help=f"where to compute {DEFAULT}")
    add("--out", type=Path, required=True, metavar="FILE.zarr.zip", help="file for the table")


def run(options: argparse.Namespace) -> int:
    if not options.out.name.endswith(".zarr.zip"):
        raise store.StoreError(f"{options.out}: a table is a .zarr.zip file")
    from flatlab.jobs.resume_state import ResumeState

    files = files_of(options.weights)
    records = read_records(files, options.runs, options.outcomes)
    own, errors, data = (importlib.import_module(f"flatlab.{name}") for name in MODULES)
    how = own.Measurement(
        families=tuple(options.family),
        samples=None if options.samples == "all" else options.samples,
        options=tuple(options.options),
        **{name: getattr(options, name) for name in ("model", "data", "loss", "seed", "scaling")},
        **{name: getattr(options, name) for name in ("batch_size", "dtype", "device", "resize")},
    )
    key = options.out.name.removesuffix(".zarr.zip")
    identity = {"how": str(how), "files": [(str(f), f.stat().st_mtime_ns) for f in files]}
    identity["hyperparameters"] = str(records.hyperparameters)
    unfinished = ResumeState(f"{options.out}.unfinished", identity)
    try:
        table = own.table_of(records, how, key, unfinished)
    except (errors.MeasureError, data.DataError) as error:
        raise store.StoreError(str(error)) from None
    store.save_dataset(options.out, table)
    shutil.rmtree(unfinished.folder, ignore_errors=True)
    print(f"{options.out}: {table.attrs['extent']}")
    outcomes = ", ".join(table.attrs["outcomes"]) or "none given"
    print(f"hyper-parameters: {', '.join(table.attrs['hyperparameters']) or 'none'}")
    print(f"outcomes: {outcomes}; measured: {len(table.data_vars)} quantities")
    return 0


def files_of(patterns: list[str]) -> list[Path]:
    """The files of several patterns, sorted, each once; `PlanError` for one without a file."""
    found: set[str] = set()
    for pattern in patterns:
        if not (files := glob.glob(pattern, recursive=True)):
            raise plan.PlanError(f"no file is called like {pattern}")
        found |= {*files}
    return [Path(name) for name in sorted(found)]
