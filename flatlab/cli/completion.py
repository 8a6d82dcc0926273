"""Print a script that completes commands, options and names in a shell.

For bash: `source <(flatlab completion bash)`, for zsh: `source <(flatlab completion zsh)`. It knows
the experiments of the folder in which it is printed.
"""

import argparse
import importlib
from pathlib import Path

from flatlab.cli._main import parser
from flatlab.lab import plan

GROUP = "Plan and run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "tcsh"])


def run(options: argparse.Namespace) -> int:
    shtab = importlib.import_module("shtab")  # optional: flatlab[completion]
    folders = {"family": "metrics", "loss": "losses", "model": "networks"}
    known = {"experiment": plan.experiment_keys()}
    known |= {option: [*plan.keys_of(folder)] for option, folder in folders.items()}
    top = parser(None)
    for sub in top.commands.values():
        for action in sub._actions:
            if action.dest in known:
                action.choices = known[action.dest]
            elif action.type is Path:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(top, options.shell))
    return 0
