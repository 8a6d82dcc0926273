"""Check the configuration, the experiments and the hashes of all result files."""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flatlab import plan, store
from flatlab.cli import load_plan

LOADERS: dict[str, Callable[[Path], Any]] = {
    ".zarr.zip": store.load_dataset,
    ".safetensors": store.load_weights,
    ".json": store.load_json,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", nargs="?", type=Path, default=plan.RESULTS, help="folder of result files"
    )


def run(options: argparse.Namespace) -> int:
    load_plan()
    for scale in plan.SCALES:
        load_plan(scale, packs="all")
    print("configuration and experiments: valid at every scale")
    checked, problems = 0, []
    for path, load in _result_files(options.folder):
        checked += 1
        try:
            load(path)
        except store.StoreError as error:
            problems.append(str(error))
    print("\n".join([*problems, f"{checked} result files checked, {len(problems)} damaged"]))
    return 1 if problems else 0


def _result_files(folder: Path) -> Iterator[tuple[Path, Callable[[Path], Any]]]:
    for path in sorted(folder.rglob("*")):
        for ending, load in LOADERS.items():
            if path.name.endswith(ending):
                yield path, load
