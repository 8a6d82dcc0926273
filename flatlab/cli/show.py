"""Print the content of result files."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import yaml

from flatlab import store, text

WIDTH = 88
"""Characters per line for quantities by layer."""


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
            print(text.table("<<<", *((name, a.dtype, a.shape) for name, a in arrays.items())))
        elif path.suffix == ".json":
            print(yaml.safe_dump(store.load_json(path), sort_keys=False, allow_unicode=True))
        else:
            raise store.StoreError(f"{path}: show reads .zarr.zip, .safetensors and .json files")
    return 0


def print_dataset(dataset: xr.Dataset) -> None:
    """Attributes, single numbers with units, numbers by layer, and a summary of other variables."""
    for key, value in dataset.attrs.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        if shown != "":
            print(f"  {key}: {shown}")
    print("  " + ", ".join(f"{name} {size}" for name, size in dataset.sizes.items()))
    arrays: dict[str, Any] = {str(name): array for name, array in dataset.variables.items()}
    numbers = {name: array for name, array in arrays.items() if array.dtype.kind in "fiub"}
    single = [[n, a] for n, a in numbers.items() if not a.dims]
    by_layer = [[n, *a.values] for n, a in numbers.items() if a.dims == ("layer",)]
    rest = {n: a for n, a in arrays.items() if n not in numbers or a.dims not in ((), ("layer",))}
    if single:
        head = ["quantity", "value", "units", "definition"]
        rows = [
            [name, f"{float(a):.6g}", a.attrs.get("units", ""), a.attrs.get("long_name", "")]
            for name, a in single
        ]
        print("\n" + text.table("<><<", head, *rows))
    if by_layer:
        layers = [str(layer) for layer in dataset["layer"].values]
        columns = max(1, WIDTH // max(12, 2 + max(map(len, layers))))
        for start in range(0, len(layers), columns):
            part = slice(start, start + columns)
            rows = [[name, *(f"{v:.5g}" for v in values[part])] for name, *values in by_layer]
            align = "<" + ">" * len(layers[part])
            print("\n" + text.table(align, ["by layer", *layers[part]], *rows))
    if rest:
        head = ["variable", "dimensions", "mean", "min", "max", "not finite"]
        rows = [[name, ", ".join(array.dims), *_summary(array)] for name, array in rest.items()]
        print("\n" + text.table("<<>>>>", head, *rows))


def _summary(array: Any) -> list[object]:
    """Mean and range of the finite values, and the number of other values."""
    if array.dtype.kind not in "fiub" or not array.size:
        return [""] * 4
    values = array.values.astype(float)
    finite = values[np.isfinite(values)]
    spread = [finite.mean(), finite.min(), finite.max()] if finite.size else []
    shown = [f"{number:.5g}" for number in spread] or [""] * 3
    return [*shown, values.size - finite.size or ""]
