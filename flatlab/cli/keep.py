"""Put metric files under version control, or restore them from there.

They are copied to results/published/ for you to commit. `--restore` copies missing ones back to
results/, from which `snakemake --config packs=measured` draws figures without training.
"""

import argparse

from flatlab.cli._main import add_scale, load_plan
from flatlab.lab.publish import keep

GROUP = "Publish"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", help="key of an experiment")
    parser.add_argument("pack", nargs="*", help="packs to copy; by default all that are measured")
    parser.add_argument("--restore", action="store_true", help="copy missing files back")
    add_scale(parser)


def run(options: argparse.Namespace) -> int:
    experiment = load_plan(options.scale, packs="all").experiment(options.experiment)
    act = keep.restore if options.restore else keep.keep
    print(act(experiment, options.pack))
    return 0
