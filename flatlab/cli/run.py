"""Train and measure packs of an experiment in this process, no workflow."""

from __future__ import annotations

import argparse
import importlib

from flatlab import store
from flatlab.cli import add_device, add_scale, load_plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", help="a file of experiments/")
    parser.add_argument("pack", nargs="*", help="which packs; all if none is named")
    parser.add_argument("--family", nargs="+", default=[], help="what to measure; all if not given")
    add_scale(parser)
    add_device(parser)
    parser.add_argument("--force", action="store_true", help="make again what is there already")


def run(options: argparse.Namespace) -> int:
    chosen = load_plan(options.scale, options.device, packs="all")
    chosen.experiment(options.experiment)  # a wrong name is told before torch is imported
    standalone = importlib.import_module("flatlab.standalone")
    errors = (standalone.train.TrainError, standalone.train.Interrupted, standalone.data.DataError)
    try:
        files = standalone.run(
            chosen, options.experiment, options.pack, options.family, options.force
        )
    except errors as error:
        raise store.StoreError(str(error)) from error
    print("\n".join(map(str, files)))
    return 0
