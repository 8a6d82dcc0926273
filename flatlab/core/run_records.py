"""What is known of networks that were trained elsewhere: a record of each in a CSV or JSON."""

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatlab.core.schema import PlanError, closest

FILE = ("file", "checkpoint", "weights", "run")
"""The column that names the file of a network: the first of these that there is."""
SEED = "seed"
TAKEN = ("run", "setting", "file", "failure", "ended", "steps", "parameters", "diverged", "layer",
         "checkpoint", "samples")  # fmt: skip
"""What the table calls other things."""
OUTCOME = re.compile(
    r"(train|test|val|valid|validation)_.*|(.*_)?(error|loss|accuracy|acc|gap|score)"
)
"""Columns that are outcomes by their name; others are hyper-parameters."""


@dataclass(frozen=True)
class RunRecords:
    """The records of some networks, one per file.

    files: of the networks, in order.
    hyperparameters: of each network by name; the same names for all.
    outcomes: numbers of each network by name; NaN where one is not known.
    seeds: of each network; its number among those of its setting where no column has it.
    """

    files: tuple[Path, ...]
    hyperparameters: tuple[dict[str, Any], ...]
    outcomes: tuple[dict[str, float], ...]
    seeds: tuple[int, ...]

    @property
    def names(self) -> list[str]:
        """What each network is called: the stem of its file, or all of it where two have one."""
        stems = [file.stem for file in self.files]
        return stems if len({*stems}) == len(stems) else [str(file) for file in self.files]

    @property
    def settings(self) -> list[str]:
        """The combination of hyper-parameters of each network, in words."""
        return [setting_of(values) for values in self.hyperparameters]


def setting_of(values: Mapping[str, Any]) -> str:
    """A combination of hyper-parameters in words: "lr 0.1, batch_size 20"."""
    return ", ".join(f"{name} {_text(value)}" for name, value in values.items()) or "all"


def read_records(
    files: Sequence[Path], table: Path | None, outcomes: Sequence[str] = ()
) -> RunRecords:
    """The record of each file; `PlanError` if one has none, or two.

    files: of the networks.
    table: CSV with a header, or JSON: a list of records, or a mapping from file to record; None:
        nothing is known.
    outcomes: columns that are outcomes besides those that are called like one.
    """
    if table is None:
        count = len(files)
        return RunRecords(tuple(files), ({},) * count, ({},) * count, tuple(range(count)))
    rows = _rows(table)
    key = next((name for name in FILE if name in rows[0]), None)
    if key is None:
        raise PlanError(f"{table} has no column {FILE[0]!r} with the file of each network")
    names = [name for name in rows[0] if name not in (key, SEED)]
    for name in names:
        if name in TAKEN:
            raise PlanError(f"{table}: a table has its own {name!r}; give that column another name")
    for name in outcomes:
        if name not in names:
            raise PlanError(f"{table} has no column {name!r}; {closest(name, names)}")
    chosen = [_row_of(file, rows, key, table) for file in files]
    measured = [name for name in names if name in outcomes or OUTCOME.fullmatch(name)]
    hyper = [{n: row.get(n) for n in names if n not in measured} for row in chosen]
    for file, values in zip(files, hyper, strict=True):
        for name, value in values.items():
            if value is None or value == "":
                raise PlanError(f"{table}: {name} of {file.name} is missing")
    known = [
        {n: _number(row.get(n), n, file, table) for n in measured}
        for file, row in zip(files, chosen, strict=True)
    ]
    seeds = _seeds([row.get(SEED) for row in chosen], [setting_of(values) for values in hyper])
    return RunRecords(tuple(files), tuple(hyper), tuple(known), seeds)


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        if path.suffix == ".json":
            content = json.loads(path.read_text())
            if isinstance(content, Mapping):
                content = [{FILE[0]: name, **row} for name, row in content.items()]
            rows = [dict(row) for row in content]
        else:
            rows = records_of(path)
    except FileNotFoundError:
        raise PlanError(f"{path} does not exist") from None
    except (ValueError, TypeError, OSError, csv.Error) as error:
        kind = "JSON records" if path.suffix == ".json" else "CSV with a header"
        raise PlanError(f"{path} cannot be read as {kind}: {str(error).splitlines()[0]}") from None
    if not rows:
        raise PlanError(f"{path} has no records")
    return rows


def records_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV by the names in its header: numbers, truths or words; None for nothing.

    Raises `ValueError` for a row that is longer or shorter than the header.
    """
    with path.open(newline="", encoding="utf-8-sig") as file:
        header, *rows = [row for row in csv.reader(file, skipinitialspace=True) if row] or [[]]
    if not header or len({*header}) < len(header):
        raise ValueError("its header must name each column once")
    for number, row in enumerate(rows):
        if len(row) != len(header):
            raise ValueError(f"row {number + 1} has {len(row)} of {len(header)} columns")
    return [dict(zip(header, map(_value, row), strict=True)) for row in rows]


def _value(text: str) -> Any:
    text = text.strip()
    if text in ("", "NA", "NaN", "nan"):
        return None
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _row_of(file: Path, rows: list[dict[str, Any]], key: str, table: Path) -> dict[str, Any]:
    """The record whose path, else name, else stem is that of a file."""
    for form in (str, lambda path: path.name, lambda path: path.stem):
        found = [row for row in rows if form(Path(str(row[key]))) == form(file)]
        if len(found) == 1:
            return found[0]
        if found:
            raise PlanError(f"{table} has {len(found)} rows for {file}; leave one of them")
    raise PlanError(f"{table} has no row for {file}; its column {key!r} must name every network")


def _number(value: Any, name: str, file: Path, table: Path) -> float:
    try:
        return float("nan") if value is None or value == "" else float(value)
    except (TypeError, ValueError):
        raise PlanError(f"{table}: {name} of {file.name} is {value!r}, not a number") from None


def _seeds(given: Sequence[Any], settings: Sequence[str]) -> tuple[int, ...]:
    """As given, if all are whole numbers; else each network's number in its setting."""
    if all(re.fullmatch(r"\d+(\.0)?", str(value)) for value in given):
        return tuple(int(float(value)) for value in given)
    return tuple(settings[:place].count(setting) for place, setting in enumerate(settings))


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
