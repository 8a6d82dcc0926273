"""Put metric files of finished packs under version control, or back from there.

They are copied to results/published/; commit them there. `--restore` copies those that are missing
back into results/, from where `snakemake --config packs=measured` draws without training.
"""

from __future__ import annotations

import argparse

from flatlab.cli import add_scale, load_plan
from flatlab.publication import keeping


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", help="a file of experiments/")
    parser.add_argument("pack", nargs="*", help="which packs; all finished ones if none is named")
    parser.add_argument("--restore", action="store_true", help="copy back what is missing")
    add_scale(parser)


def run(options: argparse.Namespace) -> int:
    experiment = load_plan(options.scale, packs="all").experiment(options.experiment)
    act = keeping.restore if options.restore else keeping.keep
    print(act(experiment, options.pack))
    return 0
