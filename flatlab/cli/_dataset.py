"""An xarray dataset as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from flatlab import text

WIDTH = 88
"""Characters per line for quantities by layer."""


def print_dataset(dataset: xr.Dataset) -> None:
    """Attributes, single numbers with units, numbers by layer, and a summary of other variables."""
    for key, value in dataset.attrs.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        if shown != "":
            print(f"  {key}: {shown}")
    print("  " + ", ".join(f"{name} {size}" for name, size in dataset.sizes.items()))
    arrays: dict[str, Any] = {str(name): array for name, array in dataset.variables.items()}
    numbers = {name: array for name, array in arrays.items() if array.dtype.kind in "fiub"}
    single = {name: array for name, array in numbers.items() if not array.dims}
    by_layer = {name: array for name, array in numbers.items() if array.dims == ("layer",)}
    rest = {name: array for name, array in arrays.items() if name not in {**single, **by_layer}}
    if single:
        _print_single(single)
    if by_layer:
        _print_by_layer([str(layer) for layer in dataset["layer"].values], by_layer)
    if rest:
        _print_rest(rest)


def _print_single(single: dict[str, Any]) -> None:
    rows = [
        [
            name,
            f"{float(array):.6g}",
            array.attrs.get("units", ""),
            array.attrs.get("long_name", ""),
        ]
        for name, array in single.items()
    ]
    print("\n" + text.table("<><<", ["quantity", "value", "units", "definition"], *rows))


def _print_by_layer(layers: list[str], by_layer: dict[str, Any]) -> None:
    """A row for each quantity and a column for each layer, as many columns as fit a line."""
    columns = max(1, WIDTH // max(12, 2 + max(map(len, layers))))
    for start in range(0, len(layers), columns):
        part = slice(start, start + columns)
        rows = [
            [name, *(f"{value:.5g}" for value in array.values[part])]
            for name, array in by_layer.items()
        ]
        align = "<" + ">" * len(layers[part])
        print("\n" + text.table(align, ["by layer", *layers[part]], *rows))


def _print_rest(rest: dict[str, Any]) -> None:
    """Mean and range of the finite values of each variable, and the number of other values."""
    rows = []
    for name, array in rest.items():
        spread, others = [""] * 3, 0
        if array.dtype.kind in "fiub" and array.size:
            values = array.values.astype(float)
            finite = values[np.isfinite(values)]
            others = values.size - finite.size
            if finite.size:
                spread = [f"{n:.5g}" for n in (finite.mean(), finite.min(), finite.max())]
        rows.append([name, ", ".join(array.dims), *spread, others or ""])
    head = ["variable", "dimensions", "mean", "min", "max", "not finite"]
    print("\n" + text.table("<<>>>>", head, *rows))
