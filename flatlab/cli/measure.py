"""Measure the network in a file of weights."""

import argparse
import importlib
import resource
import sys
import time
from pathlib import Path

from flatlab.cli._measuring import (
    DEFAULT,
    add_measuring,
    data_help,
    known_keys,
    option_of,
    read_measuring,
)
from flatlab.cli.show import print_dataset
from flatlab.core import store
from flatlab.lab import plan

GROUP = "Measure networks"


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
    add("--data", metavar="FILE|FOLDER|NAME|MODULE:FUNCTION", help=data_help())
    add("--images", type=Path, metavar="FOLDER", help="images by class, transformed as for --timm")
    help_ = f"part of the data set {DEFAULT}"
    add("--split", choices=["train", "test"], default="train", help=help_)
    add("--sample-seed", type=int, default=0, help=f"seed that draws the samples {DEFAULT}")
    help_ = "families of quantities, or all; geometry by default, adaptive with --timm"
    add("--family", nargs="+", metavar="NAME", help=help_)
    add("--loss", default="half-mse", help=f"loss of Hessians ({known_keys('losses')}) {DEFAULT}")
    help_ = f"seed of families that draw random numbers {DEFAULT}"
    add("--seed", type=int, default=0, help=help_)
    add_measuring(parser)
    add("--out", type=Path, metavar="FILE.zarr.zip", help="file for the report")


def run(options: argparse.Namespace) -> int:
    _check(options)
    read_measuring(options)
    # Imported here because torch takes seconds and few commands need it.
    measurement = importlib.import_module("flatlab.lab.execution.model_report")
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
