"""Predict the number of jobs, hours and disk space of a run."""

import argparse

from flatlab import estimate
from flatlab.cli import add_device, add_scale, load_plan

GROUP = "Plan and run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_ = "figures, papers or experiments, or all; the papers that config.yaml names by default"
    parser.add_argument("name", nargs="*", help=help_)
    add_scale(parser)
    add_device(parser)


def run(options: argparse.Namespace) -> int:
    print(estimate.as_text(load_plan(options.scale, options.device), options.name))
    return 0
