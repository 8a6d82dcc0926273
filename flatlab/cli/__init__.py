"""The command `flatlab`: what is built, what result files hold, and computing without Snakemake.

Each command is a file of this folder with the command's name. It has `add_arguments(parser)`,
`run(options)`, which returns the exit status, and a docstring whose first line is its help.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from flatlab import __version__, plan, store
from flatlab.plan.registry import imported


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return options.run_command(options)
    except (plan.PlanError, store.StoreError) as error:
        print(f"flatlab: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="flatlab", description=about)
    parser.add_argument("--version", action="version", version=f"flatlab {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name in plan.keys_of("cli"):
        module = imported("cli", name)
        first, _, rest = (module.__doc__ or "").partition("\n")
        sub = commands.add_parser(name, help=first, description=first, epilog=rest.strip() or None)
        sub.set_defaults(run_command=module.run)
        module.add_arguments(sub)
    return parser


def add_scale(parser: argparse.ArgumentParser) -> None:
    """Add the option of every command that reads config.yaml."""
    parser.add_argument("--scale", choices=plan.SCALES, help="use this scale, not config.yaml's")


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add the option of commands that compute, or predict how long computing takes."""
    help_ = "use this device, not config.yaml's"
    parser.add_argument("--device", choices=["cpu", "cuda"], help=help_)


def load_plan(
    scale: str | None = None, device: str | None = None, packs: str | None = None
) -> plan.Plan:
    """The plan of config.yaml, with some of its keys replaced."""
    path = Path("config.yaml")
    if not path.is_file():
        raise plan.PlanError("there is no config.yaml here; run flatlab in the project's folder")
    try:
        config = yaml.safe_load(path.read_bytes()) or {}
    except yaml.YAMLError:
        raise plan.PlanError(f"{path}: not valid YAML") from None
    if isinstance(config, dict):
        given = {"scale": scale, "device": device, "packs": packs}
        config |= {key: value for key, value in given.items() if value}
    return plan.Plan(config, Path("experiments"))
