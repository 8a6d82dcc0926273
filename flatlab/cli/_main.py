"""The commands of `flatlab` and what they share. Only the one that is called is imported."""

import argparse
import ast
import importlib
import re
import signal
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from flatlab import __version__
from flatlab.core import text
from flatlab.core.registry import syntax
from flatlab.lab import plan

GROUPS = {
    "Start here": ("build", "doctor", "measure", "summary"),
    "Measure networks": ("table",),
    "Plan and run": ("check", "estimate", "experiments", "new", "run"),
    "Look at results": ("compare", "correlate", "export", "figures", "plot", "show"),
    "Maintain this repository": ("keep", "publish"),
}
"""The headings of `flatlab --help`, in order, with their commands; others follow."""
EXAMPLES = {
    "build": "flatlab build petzka2021 -n",
    "check": "flatlab check",
    "compare": "flatlab compare results/demo",
    "correlate": "flatlab correlate table.zarr.zip test_error --within lr,batch_size",
    "doctor": "flatlab doctor",
    "estimate": "flatlab estimate chen2026_figH8 --scale short",
    "experiments": "flatlab experiments mlp-grid --keys",
    "export": "flatlab export table.zarr.zip --csv table.csv",
    "figures": "flatlab figures",
    "keep": "flatlab keep mlp-grid --scale short",
    "measure": "flatlab measure weights.pt --model mine:build --data images/",
    "new": "flatlab new my-study",
    "plot": "flatlab plot table.zarr.zip pairs sharpness:test_error",
    "publish": "flatlab publish mlp-grid chen2026_figH8",
    "run": "flatlab run mlp-grid lr0.1-b20-s0-4 --scale demo",
    "show": "flatlab show results/demo/tables/mlp-grid.zarr.zip",
    "summary": "flatlab summary chen2026_figH8",
    "table": "flatlab table 'checkpoints/*.pt' --model mine:build --data x.npz --out t.zarr.zip",
}
WIDTH = 80


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = sys.argv[1:] if arguments is None else [*arguments]
    try:
        chosen = next((word for word in words if not word.startswith("-")), "")
        options = parser(chosen)[0].parse_args(words)
        return options.run_command(options)
    except ModuleNotFoundError as error:
        if (error.name or "flatlab").startswith("flatlab"):
            raise
        remedy = "install it; flatlab doctor says what else is missing"
        print(f"flatlab: the package {error.name} is missing; {remedy}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "\nflatlab: stopped; finished files are kept, and the same command continues",
            file=sys.stderr,
        )
        return 128 + signal.SIGINT
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        sys.stderr.close()
        return 0
    except Exception as error:
        if not type(error).__module__.startswith("flatlab"):
            raise
        print(f"flatlab: {error}", file=sys.stderr)  # our own errors are sentences
        return 1


Parsers = Mapping[str, argparse.ArgumentParser]


def parser(chosen: str | None) -> tuple[argparse.ArgumentParser, Parsers]:
    """All commands, and the arguments of the one that is chosen; None: those of all.

    Returns the parser of the whole, whose help lists the commands in groups, and that of each.
    """
    raw, hidden = argparse.RawDescriptionHelpFormatter, argparse.SUPPRESS
    usage = "flatlab [-h] [--version] COMMAND ..."
    top = argparse.ArgumentParser("flatlab", usage, formatter_class=raw, add_help=False)
    top.add_argument("-h", "--help", action="help", help=hidden)
    version = f"flatlab {__version__}"
    top.add_argument("--version", action="version", version=version, help=hidden)
    commands = top.add_subparsers(required=True, metavar="COMMAND", prog="flatlab", help=hidden)
    groups: dict[str, dict[str, str]] = {title: {} for title in GROUPS}
    for name, (path, suffix, described) in sorted(_commands().items()):
        first, _, rest = described.partition("\n")
        group = next((title for title, names in GROUPS.items() if name in names), "Others")
        groups.setdefault(group, {})[name] = first
        of_examples = rest.strip().startswith("flatlab")  # of `plot`, a line each
        more = rest if of_examples else textwrap.fill(rest.strip(), WIDTH)
        example = f"example: {EXAMPLES[name]}" if name in EXAMPLES else ""
        sub = commands.add_parser(name, help=first, description=first, formatter_class=raw)
        sub.epilog = "\n\n".join(filter(None, [more, example]))
        if chosen in (None, name):
            module = importlib.import_module(f"flatlab.cli.{path.stem}")
            sub.set_defaults(run_command=getattr(module, f"run{suffix}"))
            getattr(module, f"add_arguments{suffix}", lambda _: None)(sub)
    lists = (
        f"{title}:\n{text.table('<<', *listed.items(), width=WIDTH)}"
        for title, listed in groups.items()
        if listed
    )
    more = "flatlab COMMAND --help describes a command, flatlab --version names this version."
    top.epilog = "\n\n".join([*lists, more])
    return top, commands.choices


def _commands() -> dict[str, tuple[Path, str, str]]:
    """The file, the suffix of its functions and the description of each command, by name.

    They are read from the syntax of the files: importing all of them would take a second.
    """
    found = {}
    folders = importlib.import_module("flatlab.cli").__path__
    for path in (path for folder in folders for path in Path(folder).glob("[a-z]*.py")):
        tree = syntax(path)
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        for node in (each for each in functions if re.fullmatch("run(_[a-z]+)?", each.name)):
            suffix = node.name.removeprefix("run")
            name = (suffix.removeprefix("_") or path.stem).replace("_", "-")
            found[name] = path, suffix, ast.get_docstring(node) or ast.get_docstring(tree) or ""
    return found


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
        raise plan.PlanError(
            "there is no config.yaml here, and this command needs the experiments and results of a "
            "checkout; run flatlab in the project's folder"
        )
    try:
        config = yaml.safe_load(path.read_bytes()) or {}
    except yaml.YAMLError:
        raise plan.PlanError(f"{path}: not valid YAML") from None
    if isinstance(config, dict):
        overrides = {"scale": scale, "device": device, "packs": packs}
        config |= {key: value for key, value in overrides.items() if value}
    return plan.Plan(config)
