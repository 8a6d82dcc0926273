"""An xarray dataset as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

WIDTH = 88
"""Of the columns of numbers by layer, in characters."""


def print_dataset(dataset: xr.Dataset) -> None:
    """Attributes, single numbers with their units, numbers by layer, and a summary of the rest."""
    for key, value in dataset.attrs.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else value
        if text != "":
            print(f"  {key}: {text}")
    print("  " + ", ".join(f"{name} {size}" for name, size in dataset.sizes.items()))
    arrays: dict[str, Any] = {str(name): array for name, array in dataset.variables.items()}
    numbers = {name: array for name, array in arrays.items() if array.dtype.kind in "fiub"}
    single = {name: array for name, array in numbers.items() if not array.dims}
    by_layer = {name: array for name, array in numbers.items() if array.dims == ("layer",)}
    rest = {n: a for n, a in arrays.items() if n not in single and n not in by_layer}
    if single:
        _print_single(single)
    if by_layer:
        _print_by_layer([str(layer) for layer in dataset["layer"].values], by_layer)
    if rest:
        _print_rest(rest)


def _print_single(single: dict[str, Any]) -> None:
    print(f"\n  {'quantity':<30}{'value':>13}  {'units':<22}definition")
    for name, array in single.items():
        units, what = array.attrs.get("units", ""), array.attrs.get("long_name", "")
        print(f"  {name:<30}{float(array):>13.6g}  {units:<22}{what}".rstrip())


def _print_by_layer(layers: list[str], by_layer: dict[str, Any]) -> None:
    """A row for each quantity, a column for each layer, as many as fit a line at a time."""
    width = max(12, 1 + max(map(len, layers)))
    columns = max(1, WIDTH // width)
    for start in range(0, len(layers), columns):
        print(f"\n  {'by layer':<30}" + "".join(f"{n:>{width}}" for n in layers[start:][:columns]))
        for name, array in by_layer.items():
            numbers = array.values[start:][:columns]
            print(f"  {name:<30}" + "".join(f"{value:>{width}.5g}" for value in numbers))


def _print_rest(rest: dict[str, Any]) -> None:
    """Mean and range of the finite values of each variable, and how many are not finite."""
    print(f"\n  {'variable':<30}{'dimensions':<30}{'mean':>12}{'min':>12}{'max':>12}  not finite")
    for name, array in rest.items():
        line = f"  {name:<30}{', '.join(array.dims):<30}"
        if array.dtype.kind in "fiub" and array.size:
            values = array.values.astype(float)
            finite = values[np.isfinite(values)]
            spread = (finite.mean(), finite.min(), finite.max()) if finite.size else ()
            line += "".join(f"{number:>12.5g}" for number in spread) or f"{'':>36}"
            line += f"  {values.size - finite.size or ''}"
        print(line.rstrip())
