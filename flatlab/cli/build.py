"""Build the figures of the study, or of the project, in this folder: what `snakemake` does there.

Everything behind `build` is given to Snakemake: targets, -n, --config scale=paper,
--workflow-profile profiles/slurm, ...
"""

import argparse
import importlib.util
import subprocess
import sys
from pathlib import Path

from flatlab.core.schema import PlanError

GROUP = "Plan and run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.prefix_chars = "\0"  # all options but --help are Snakemake's
    help_ = "targets and options of Snakemake"
    parser.add_argument("arguments", nargs="*", metavar="TARGET|OPTION", help=help_)
    parser.set_defaults(describe=parser.print_help)


def run(options: argparse.Namespace) -> int:
    if options.arguments in (["-h"], ["--help"]):
        options.describe()
        raise SystemExit(0)  # as argparse does
    if not Path("Snakefile").is_file():
        raise PlanError("there is no Snakefile here; `flatlab new FOLDER` makes a study")
    if importlib.util.find_spec("snakemake") is None:
        raise PlanError("Snakemake is missing; install it with: pip install 'flatlab[workflow]'")
    return subprocess.run([sys.executable, "-m", "snakemake", *options.arguments]).returncode
