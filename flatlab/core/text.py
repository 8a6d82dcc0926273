"""Tables as plain text, for terminals and logs."""

import shutil
import sys
import textwrap
from collections.abc import Sequence

NARROWEST = 24
"""The last column is wrapped to at least this many characters."""


def table(align: str, *rows: Sequence[object], width: int | None = None) -> str:
    """Rows as indented lines, with every column as wide as its widest cell.

    align: one character per column, < for text and > for numbers.  width: characters per line, at
    which text in the last column wraps; None: those of the terminal, where there is one.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    left = 2 + sum(width + 2 for width in widths[:-1])
    if width is None and sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
    if width is not None and align[-1] == "<":
        widths[-1] = max(NARROWEST, width - left)
    lines = []
    for *row, last in cells:
        first, *more = textwrap.wrap(last, max(widths[-1], 1)) or [""]
        padded = zip([*row, first], align, widths, strict=True)
        lines.append("  " + "  ".join(f"{cell:{sign}{width}}" for cell, sign, width in padded))
        lines += [" " * left + part for part in more]
    return "\n".join(line.rstrip() for line in lines)


def some(names: Sequence[str]) -> str:
    """The first three names, and how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"
