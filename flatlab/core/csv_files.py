"""Read CSV files as people have them: marks, separators, decimal commas, with a header or without.

One rule for tables of runs and tables of samples. What has two meanings raises a `ValueError` that
says what was seen.
"""

import csv
import itertools
import re
from pathlib import Path
from typing import NamedTuple

SEPARATORS = "\t;|,"
COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
"""A number with a decimal comma."""
INDEX = re.compile(r"(Unnamed: \d.*)?")
"""The header of a first column that numbers the rows, as pandas and R write it."""
LOOKED_AT = 50
"""Rows by which the form of a file is known."""


class Form(NamedTuple):
    """How a file is written.

    encoding: as Python calls it.
    separator: of the cells of a row.
    decimal: "." or ",".
    header: the names of the columns; None: the first row has numbers.
    """

    encoding: str
    separator: str
    decimal: str
    header: list[str] | None


def form_of(path: Path) -> Form:
    """The form of a file; raises `ValueError` where its first row may be names or numbers."""
    with path.open("rb") as file:
        encoding = "utf-16" if file.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    with path.open(newline="", encoding=encoding) as file:
        lines = [line for line in itertools.islice(file, LOOKED_AT) if line.strip()]
    tables = {s: list(csv.reader(lines, delimiter=s, skipinitialspace=True)) for s in SEPARATORS}
    widths = {s: {len(row) for row in rows} for s, rows in tables.items()}
    fits = [s for s, found in widths.items() if len(found) == 1 and found != {1}]
    separator = fits[0] if fits else ","
    first = [*tables[separator], []][0]
    cells = [cell.strip() for row in tables[separator] for cell in row]
    commas = separator != "," and any(map(COMMA.fullmatch, cells))
    decimal = "," if commas else "."
    numbers = [number_of(cell.strip(), decimal) for cell in first]
    if first and first[0] != "" and None not in numbers:
        if numbers == [*range(len(first))] and len(first) > 1:
            raise ValueError(
                "its first row is 0, 1, 2, ..., which may be names or a sample; give names to the "
                "columns"
            )
        return Form(encoding, separator, decimal, None)
    return Form(encoding, separator, decimal, [cell.strip().lstrip("# ") for cell in first])


def number_of(text: str, decimal: str = ".") -> float | None:
    """The number that a cell holds; None for words and for nothing."""
    try:
        return float(text if decimal == "." else text.replace(".", "x").replace(",", "."))
    except ValueError:
        return None


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a file by the names in its header, without numbers of rows, commas as points.

    Raises `ValueError` for a row that is longer or shorter than the header.
    """
    form = form_of(path)
    with path.open(newline="", encoding=form.encoding) as file:
        reader = csv.reader(file, delimiter=form.separator, skipinitialspace=True)
        _, *rows = [[cell.strip() for cell in row] for row in reader if row] or [[]]
    if form.decimal == ",":
        rows = [[c.replace(",", ".") if COMMA.fullmatch(c) else c for c in row] for row in rows]
    header = form.header
    if not header or len({*header}) < len(header):
        raise ValueError("its header must name each column once")
    for number, row in enumerate(rows):
        if len(row) != len(header):
            raise ValueError(f"row {number + 1} has {len(row)} of {len(header)} columns")
    while header and INDEX.fullmatch(header[0]):
        header, rows = header[1:], [row[1:] for row in rows]
    return [dict(zip(header, row, strict=True)) for row in rows]
