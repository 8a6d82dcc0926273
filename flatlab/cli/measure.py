"""Measure the network in a .safetensors file."""

from __future__ import annotations

import argparse
import importlib
import resource
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from flatlab import plan, store
from flatlab.cli._dataset import print_dataset

OF_FILES = ("model", "data_set", "split", "scaling", "outputs", "options", "run", "checkpoint")
"""What must be known of networks that are not timm's."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    _add_network(parser)
    _add_samples(parser)
    _add_settings(parser)


def _add_network(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("weights", type=Path, nargs="?", help="a state dictionary, or a pack of this project")
    add("--model", metavar="NAME|MODULE:FUNCTION", help=_known("networks"))
    add("--timm", metavar="NAME", help="instead of --model, with --images: a network of timm")
    help_ = "of --timm; those of timm's hub if not given"
    add("--weights", type=Path, metavar="FILE", dest="weights_of_timm", help=help_)
    add("--outputs", type=int, help="of the network; as many as classes if not given")
    help_ = "of --model NAME, such as width=64 activation=tanh; relu if no activation is given"
    add("--options", nargs="+", type=_option, default=[], metavar="KEY=VALUE", help=help_)
    add("--run", help="of a pack: which network")
    add("--checkpoint", type=int, help="of a pack: which iteration; the last if not given")


def _add_samples(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", metavar="NAME|FOLDER", help=f"{_known('data')}; images by class")
    add("--images", type=Path, metavar="FOLDER", help="instead of --data: images by class, as is")
    help_ = "of --timm; own: the outputs themselves, for images of other classes or of none"
    add("--targets", choices=["labels", "own"], default="labels", help=help_)
    add("--split", choices=["train", "test"], default="train", help="where the samples come from")
    add("--samples", type=_count, default=100, help="how many, or `all`")
    add("--sample-seed", type=int, default=0, help="of the draw of samples")
    add("--scaling", choices=["unit", "standardized", "none"], default="unit", help="of the inputs")


def _add_settings(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help_ = "what to measure: geometry, or adaptive for --timm, if not given"
    add("--family", nargs="+", metavar="NAME", help=help_)
    help_ = "mse, mean-mse, sum-of-squares or cross-entropy, where a quantity has a Hessian"
    add("--loss", default="mse", help=help_)
    add("--label-smoothing", type=float, default=0.0, help="of --loss cross-entropy")
    add("--dtype", help="float64 or float32; that of the weights if not given")
    add("--singular-values", type=_count, default="all", help="of the log volume: k, or `all`")
    add("--conventions", default="flatlab", help="flatlab, or chen-code: those of its authors")
    costly = ["elementwise-adaptive-trace"]
    help_ = "elementwise-adaptive-trace, operator-norm, corrected-bound"
    add("--costly", nargs="*", default=costly, metavar="NAME", help=help_)
    both = ["hessian", "gauss-newton"]
    help_ = "of hessian: whose largest eigenvalue, hessian, gauss-newton or both"
    add("--curvature", nargs="+", default=both, metavar="NAME", help=help_)
    help_ = "of hessian: eval, or train for the statistics of these samples"
    add("--batch-norm", choices=["eval", "train"], default="eval", help=help_)
    add("--batch-size", type=int, help="samples at a time; what fits in memory if not given")
    add("--seed", type=int, default=0, help="of families that draw at random")
    add("--device", choices=["cpu", "cuda"], default="cpu", help="where to compute")
    add("--out", type=Path, metavar="FILE.zarr.zip", help="where to write the report")


def _known(folder: str) -> str:
    return f"known here: {', '.join(plan.keys_of(folder))}"


def _count(text: str) -> int | str:
    if text == "all":
        return text
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is neither `all` nor a positive number")
    return int(text)


def _option(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    try:
        if equals:
            return key, yaml.safe_load(value)
    except yaml.YAMLError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE, such as width=64")


def run(options: argparse.Namespace) -> int:
    if options.out and not options.out.name.endswith(".zarr.zip"):
        raise store.StoreError(f"{options.out}: a report is a .zarr.zip file")
    # Not imported above: torch takes seconds, and few commands need it.
    measurement = importlib.import_module("flatlab.measurement")
    start = time.monotonic()
    try:
        report = _measured(measurement, _settings(options))
    except (measurement.MeasureError, measurement.DataError) as error:
        raise store.StoreError(str(error)) from None
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        store.save_dataset(options.out, report)
    print_dataset(report)
    # Not in the report: they are of this machine and this time.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory = peak * (1 if sys.platform == "darwin" else 1024)
    print(f"\n{time.monotonic() - start:.1f} s, {memory / 1e9:.2f} GB of memory at most")
    if options.out:
        print(f"\nwritten to {options.out}; print it again with: flatlab show {options.out}")
    return 0


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """The options under the names that `flatlab.measurement` has for them."""
    settings = {k: v for k, v in vars(options).items() if k not in ("run_command", "out")}
    settings |= {"data_set": settings.pop("data"), "families": settings.pop("family")}
    settings["options"] = dict(options.options)
    settings["samples"] = None if options.samples == "all" else options.samples
    settings["progress"] = sys.stderr.isatty()
    return settings


def _measured(measurement: Any, settings: dict[str, Any]) -> Any:
    """The report on a network of timm, or on one of this project or of one's own."""
    name, images, weights = (settings.pop(k) for k in ("timm", "images", "weights_of_timm"))
    if bool(name) != bool(images):
        raise plan.PlanError("--timm and --images go together")
    default = ["adaptive"] if name else ["geometry"]
    settings["families"] = settings["families"] or default
    if name:
        if settings["model"] or settings["data_set"]:
            raise plan.PlanError("give either --timm and --images, or --model and --data")
        kept = {key: value for key, value in settings.items() if key not in OF_FILES}
        kept["weights"] = weights or settings["weights"]
        return measurement.measure_pretrained(name, images=images, **kept)
    del settings["targets"]
    for key, option in (("weights", "weights"), ("model", "--model"), ("data_set", "--data")):
        if settings[key] is None:
            raise plan.PlanError(f"flatlab measure needs {option}, or --timm and --images")
    return measurement.measure_file(**settings)
