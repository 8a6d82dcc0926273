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

from flatlab.cli._measuring import DEFAULT, add_measuring, data_help, read_measuring
from flatlab.core import store
from flatlab.lab import plan
from flatlab.lab.plan.run_records import read_records

GROUP = "Measure networks"
MODULES = (
    *("execution.own_networks", "execution.own_measurement"),
    *("derivatives.errors", "data._dataset"),
)
"""What is imported when the command runs: torch takes seconds."""
SAME = ("model", "data", "loss", "scaling", "resize", "device")
"""Fields of `Measurement` that are options of this name; so are those that it passes on."""


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
    add("--data", required=True, metavar="FILE|FOLDER|NAME|MODULE:FUNCTION", help=data_help())
    add("--family", nargs="+", default=["geometry"], metavar="NAME", help="families, or all")
    add(
        "--loss",
        help="of the training; cross-entropy by default, half-mse where targets are numbers",
    )
    add("--seed", type=int, default=0, help=f"of samples and random numbers {DEFAULT}")
    add_measuring(parser)
    add("--out", type=Path, required=True, metavar="FILE.zarr.zip", help="file for the table")


def run(options: argparse.Namespace) -> int:
    if not options.out.name.endswith(".zarr.zip"):
        raise store.StoreError(f"{options.out}: a table is a .zarr.zip file")
    from flatlab.core.resume_state import ResumeState

    read_measuring(options)
    files = files_of(options.weights)
    records = read_records(files, options.runs, options.outcomes)
    own, measurement, errors, data = (
        importlib.import_module(f"flatlab.{name}") for name in MODULES
    )
    how = measurement.Measurement(
        families=tuple(options.family),
        samples=None if options.samples == "all" else options.samples,
        options=tuple(options.options),
        **{name: getattr(options, name) for name in (*SAME, *measurement.PASSED_ON)},
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
