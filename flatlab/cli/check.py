"""Check the configuration, the experiments and the hashes of all result files."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flatlab.cli._main import load_plan
from flatlab.core import store
from flatlab.lab import plan

GROUP = "Look at results"
LOADERS: dict[str, Callable[[Path], Any]] = {
    ".zarr.zip": store.load_dataset,
    ".safetensors": store.load_weights,
    ".json": store.load_json,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_ = "folder of result files"
    parser.add_argument("folder", nargs="?", type=Path, default=plan.RESULTS, help=help_)


def run(options: argparse.Namespace) -> int:
    load_plan()
    for scale in plan.SCALES:
        load_plan(scale, packs="all")
    print("configuration and experiments: valid at every scale")
    if not options.folder.is_dir() and options.folder != plan.RESULTS:
        raise store.StoreError(f"{options.folder} is no folder")
    checked, problems = 0, []
    for path in sorted(options.folder.rglob("*")):
        for load in (load for ending, load in LOADERS.items() if path.name.endswith(ending)):
            checked += 1
            try:
                load(path)
            except store.StoreError as error:
                problems.append(str(error))
    print("\n".join([*problems, f"{checked} result files checked, {len(problems)} damaged"]))
    return 1 if problems else 0
