"""Print a report so that it fits a screen: values with errors and units, and what it says."""

import textwrap
from collections.abc import Iterator

import xarray as xr

from flatlab.core.text import table

WIDTH = 100
HEAD = ("title", "families", "loss", "precision", "flatlab_version")
"""Attributes of the first line."""


class Report(xr.Dataset):
    """The dataset that `flatlab.measure` returns; its text is that of a measurement."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(_lines(self))


def _lines(report: xr.Dataset) -> Iterator[str]:
    about = {key: _words(value) for key, value in report.attrs.items()}
    title = about.get("title", "Report")
    yield f"{title}: {', '.join(about[key] for key in HEAD[1:-1] if key in about)}"
    errors = {name for name in map(str, report.data_vars) if name.removesuffix("_error") in report}
    errors -= {name for name in errors if not name.endswith("_error")}
    rows, others = [], dict[str, list[str]]()
    for name in (name for name in map(str, report.data_vars) if name not in errors):
        array = report[name]
        if array.ndim:
            others.setdefault(", ".join(map(str, array.dims)), []).append(name)
            continue
        error = f" ± {float(report[f'{name}_error']):.2g}" if f"{name}_error" in errors else ""
        words = [array.attrs.get(key, "") for key in ("units", "long_name")]
        rows.append([name, f"{float(array):.6g}{error}", *words])
    if rows:
        left = WIDTH - 8 - sum(max(map(len, column)) for column in [*zip(*rows, strict=True)][:3])
        short = [textwrap.shorten(row[3], max(left, 24), placeholder=" ...") for row in rows]
        yield table("<<<<", *([*row[:3], each] for row, each in zip(rows, short, strict=True)))
    for dims, names in others.items():
        yield from _wrapped(f"by {dims}", ", ".join(names))
    for key, value in about.items():
        if key not in HEAD and value:
            yield from _wrapped(key, value)


def _words(value: object) -> str:
    """An attribute in words; "" where it is empty."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _wrapped(key: str, value: str) -> list[str]:
    text = textwrap.shorten(f"{key}: {value}", 2 * WIDTH, placeholder=" ...")
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")
