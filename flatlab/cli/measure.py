"""Measure the network in a .safetensors file."""

from __future__ import annotations

import argparse
import importlib
import resource
import sys
import time
from pathlib import Path

from flatlab import plan, store
from flatlab.cli.show import print_dataset


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Help that shows the defaults of options that have one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default is None else super()._get_help_string(action)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = _Help
    _add_network(parser)
    _add_samples(parser)
    _add_settings(parser)


def _add_network(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("weights", type=Path, nargs="?", help="a state dictionary, or a pack that flatlab trained")
    help_ = f"an architecture ({_known('networks')}), or a function that returns a torch module"
    add("--model", metavar="NAME|MODULE:FUNCTION", help=help_)
    add("--timm", metavar="NAME", help="instead of --model, with --images: a network of timm")
    help_ = "weights for --timm; those of timm's hub by default"
    add("--weights", type=Path, metavar="FILE", dest="weights_of_timm", help=help_)
    add("--outputs", type=int, help="outputs of the network; the number of classes by default")
    activations = ["relu", "tanh", "gaussian"]
    add("--activation", choices=activations, default="relu", help="activation for --model NAME")
    add("--run", help="network to measure, for a pack")
    add("--checkpoint", type=int, help="iteration to measure, for a pack; the last by default")


def _add_samples(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help_ = f"a data set ({_known('data')}), or a folder or archive of images by class"
    add("--data", metavar="NAME|FOLDER", help=help_)
    add("--images", type=Path, metavar="FOLDER", help="images by class, transformed as for --timm")
    help_ = "targets for --timm; own: the network's own outputs, for images without its classes"
    add("--targets", choices=["labels", "own"], default="labels", help=help_)
    add("--split", choices=["train", "test"], default="train", help="part of the data set")
    add("--samples", type=_count, default=100, help="number of samples, or `all`")
    add("--sample-seed", type=int, default=0, help="seed that draws the samples")
    add(
        "--scaling",
        choices=["unit", "standardized", "none"],
        default="unit",
        help="scaling of inputs",
    )


def _add_settings(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help_ = "families of quantities; geometry by default, adaptive with --timm"
    add("--family", nargs="+", metavar="NAME", help=help_)
    help_ = "loss of Hessians: mse, mean-mse, sum-of-squares or cross-entropy"
    add("--loss", default="mse", help=help_)
    add("--label-smoothing", type=float, default=0.0, help="label smoothing of cross-entropy")
    add("--dtype", help="float64 or float32; that of the weights by default")
    help_ = "singular values in the log volume: the k largest, or `all`"
    add("--singular-values", type=_count, default="all", help=help_)
    help_ = "flatlab, or chen-code: as in the code of chen2024 and chen2026"
    add("--conventions", default="flatlab", help=help_)
    costly = ["elementwise-adaptive-trace"]
    help_ = "costly quantities: elementwise-adaptive-trace, operator-norm, corrected-bound"
    add("--costly", nargs="*", default=costly, metavar="NAME", help=help_)
    both = ["hessian", "gauss-newton"]
    help_ = "for family hessian: matrices whose largest eigenvalue to compute"
    add("--curvature", nargs="+", default=both, metavar="NAME", help=help_)
    help_ = "for family hessian: train normalizes with the statistics of these samples"
    add("--batch-norm", choices=["eval", "train"], default="eval", help=help_)
    add("--batch-size", type=int, help="samples at a time; what fits in memory by default")
    add("--seed", type=int, default=0, help="seed of families that draw random numbers")
    add("--device", choices=["cpu", "cuda"], default="cpu", help="where to compute")
    add("--out", type=Path, metavar="FILE.zarr.zip", help="file for the report")


def _known(folder: str) -> str:
    return f"known: {', '.join(plan.keys_of(folder))}"


def _count(text: str) -> int | str:
    if text == "all":
        return text
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is neither `all` nor a positive number")
    return int(text)


def run(options: argparse.Namespace) -> int:
    _check(options)
    # Imported here because torch takes seconds and few commands need it.
    measurement = importlib.import_module("flatlab.measurement")
    start = time.monotonic()
    try:
        report = measurement.report(options)
    except (measurement.MeasureError, measurement.DataError) as error:
        raise store.StoreError(str(error)) from None
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
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
    """Refuse options that do not go together."""
    if options.out and not options.out.name.endswith(".zarr.zip"):
        raise store.StoreError(f"{options.out}: a report is a .zarr.zip file")
    if bool(options.timm) != bool(options.images):
        raise plan.PlanError("--timm and --images go together")
    if options.timm and (options.model or options.data):
        raise plan.PlanError("give either --timm and --images, or --model and --data")
    for key, option in (("weights", "weights"), ("model", "--model"), ("data", "--data")):
        if not options.timm and getattr(options, key) is None:
            raise plan.PlanError(f"flatlab measure needs {option}, or --timm and --images")
