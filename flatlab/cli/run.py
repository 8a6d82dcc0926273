"""Train and measure packs of an experiment without Snakemake."""

from __future__ import annotations

import argparse
import importlib

from flatlab import store
from flatlab.cli import add_device, add_scale, load_plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", help="key of an experiment")
    parser.add_argument("pack", nargs="*", help="packs to compute; by default all")
    parser.add_argument(
        "--family", nargs="+", default=[], help="families of quantities to measure; by default all"
    )
    add_scale(parser)
    add_device(parser)
    parser.add_argument("--force", action="store_true", help="recompute files that are up to date")


def run(options: argparse.Namespace) -> int:
    chosen = load_plan(options.scale, options.device, packs="all")
    chosen.experiment(options.experiment)  # refuses a wrong name before torch is imported
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
