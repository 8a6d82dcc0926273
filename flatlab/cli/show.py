"""Print the content of result files."""

from __future__ import annotations

import argparse
from pathlib import Path

import yaml

from flatlab import store, text
from flatlab.cli._dataset import print_dataset


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="+", type=Path, help=".zarr.zip, .safetensors or .json")


def run(options: argparse.Namespace) -> int:
    for path in options.file:
        print(path)
        if path.name.endswith(".zarr.zip"):
            print_dataset(store.load_dataset(path))
        elif path.suffix == ".safetensors":
            arrays, about = store.load_weights(path)
            for key, value in about.items():
                print(f"  {key}: {value}")
            rows = [(name, array.dtype, array.shape) for name, array in arrays.items()]
            print(text.table("<<<", *rows))
        elif path.suffix == ".json":
            print(yaml.safe_dump(store.load_json(path), sort_keys=False, allow_unicode=True))
        else:
            raise store.StoreError(f"{path}: show reads .zarr.zip, .safetensors and .json files")
    return 0
