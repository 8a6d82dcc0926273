"""Copy built results to results/published/ and show them in README.md."""

import argparse

from flatlab import plan, publication
from flatlab.cli import add_scale, load_plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_ = "experiments, figures or papers; by default everything that is built"
    parser.add_argument("name", nargs="*", help=help_)
    add_scale(parser)


def run(options: argparse.Namespace) -> int:
    files = publication.publish(load_plan(options.scale), options.name)
    size = sum(path.stat().st_size for path in files)
    print(f"{len(files)} files, {size / 1e6:.1f} MB, in {plan.PUBLISHED}; README.md shows them")
    return 0
