"""Print the content of result files.

Quantities are listed in the order in which the families define them.
"""

import argparse
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import yaml

from flatlab.core import store, text
from flatlab.core.registry import path_of, quantities
from flatlab.lab import plan

LOADERS: dict[str, Callable[[Path], Any]] = {
    ".zarr.zip": store.load_dataset,
    ".safetensors": store.load_weights,
    ".json": store.load_json,
}
"""How result files are read, by the endings of their names."""
WIDTH = 88
"""Characters per line for quantities by layer."""
SMALL = 16, 8
"""The most rows and columns of a quantity that is printed as a table."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="+", type=Path, help=".zarr.zip, .safetensors or .json")


def run(options: argparse.Namespace) -> int:
    for path in options.file:
        if (ending := next(filter(path.name.endswith, LOADERS), None)) is None:
            raise store.StoreError(f"{path}: show reads {', '.join(LOADERS)} files")
        content = LOADERS[ending](path)
        print(path)
        if isinstance(content, xr.Dataset):
            print_dataset(content)
        elif isinstance(content, tuple):
            arrays, about = content
            for key, value in about.items():
                print(f"  {key}: {value}")
            print(text.table("<<<", *((name, a.dtype, a.shape) for name, a in arrays.items())))
        else:
            print(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
    return 0


def add_arguments_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", type=Path, help="a table or a report, .zarr.zip")
    help_ = "the file; by default beside the table, with its name"
    parser.add_argument("--csv", type=Path, nargs="?", const=None, metavar="FILE.csv", help=help_)


def run_export(options: argparse.Namespace) -> int:
    """Write a table as CSV: a row per network, checkpoint and sample set, a column per number.

    What is true or false is written as TRUE and FALSE, which R and pandas both read as such.
    """
    from flatlab.lab.tables.columns import tidy

    path = options.csv or Path(f"{str(options.table).removesuffix('.zarr.zip')}.csv")
    frame = tidy(store.load_dataset(options.table))
    flags = frame.select_dtypes("bool").columns
    frame[flags] = np.where(frame[flags], "TRUE", "FALSE")
    store.replace(path, frame.to_csv(index=False).encode())
    print(f"{path}: {len(frame)} rows, {len(frame.columns)} columns")
    return 0


def print_dataset(dataset: xr.Dataset) -> None:
    """Attributes, single numbers with units, numbers by layer, small tables, and a summary."""
    for key, value in dataset.attrs.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        if shown != "":
            print(f"  {key}: {shown}")
    arrays = _in_order(dataset)
    dims = dict.fromkeys([*(dim for _, array in arrays for dim in array.dims), *dataset.sizes])
    print("  " + ", ".join(f"{dim} {dataset.sizes[dim]}" for dim in dims))
    single, by_layer, tables, rest = [], [], [], []
    for name, array in arrays:
        if _is_table(array):
            tables.append(array)
            continue
        if array.dtype.kind not in "fiub" or array.dims not in ((), ("layer",)):
            rest.append([name, ", ".join(map(str, array.dims)), *_summary(array)])
        elif array.dims:
            by_layer.append(name)
        else:
            about = [array.attrs.get(key, "") for key in ("units", "long_name")]
            single.append([name, f"{float(array):.6g}", *about])
    if single:
        print("\n" + text.table("<><<", ["quantity", "value", "units", "definition"], *single))
    how: dict[str, Any] = {"float_format": "{:.5g}".format, "line_width": WIDTH}
    if by_layer:
        print("\n" + dataset[by_layer].to_dataframe()[by_layer].T.to_string(**how))
    for array in tables:
        print(f"\n{array.name}\n{array.to_pandas().to_string(**how)}")
    if rest:
        head = ["variable", "dimensions", "mean", "min", "max", "not finite"]
        print("\n" + text.table("<<>>>>", head, *rest))


def _in_order(dataset: xr.Dataset) -> list[tuple[str, xr.DataArray]]:
    """The variables by name, by the definitions of the report's families, of all for a table."""
    known = plan.keys_of("families")
    families = [name for name in dataset.attrs.get("families", known) if name in known]
    paths = [path_of("families", family) for family in families]
    files = (sorted(p.parent.glob("*.py")) if p.name == "__init__.py" else [p] for p in paths)
    # From their syntax: families import torch.
    names = dict.fromkeys(name for file in itertools.chain(*files) for name, _ in quantities(file))
    ranks = {name: rank for rank, name in enumerate(names)}
    arrays = [(str(name), array) for name, array in dataset.data_vars.items()]
    return sorted(arrays, key=lambda item: (ranks.get(item[0], len(ranks)), item[0]))


def _is_table(array: xr.DataArray) -> bool:
    """Whether it has two dimensions, neither samples nor layers, and few numbers."""
    small = array.ndim == 2 and array.shape[0] <= SMALL[0] and array.shape[1] <= SMALL[1]
    return small and array.dtype.kind == "f" and not {"sample", "layer"} & {*array.dims}


def _summary(array: Any) -> list[object]:
    """Mean and range of the finite values, and the number of other values."""
    if array.dtype.kind not in "fiub" or not array.size:
        return [""] * 4
    values = array.values.astype(float)
    finite = values[np.isfinite(values)]
    spread = [finite.mean(), finite.min(), finite.max()] if finite.size else []
    shown = [f"{number:.5g}" for number in spread] or [""] * 3
    return [*shown, values.size - finite.size or ""]
