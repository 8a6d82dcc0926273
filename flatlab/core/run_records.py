"""What is known of networks that were trained elsewhere: a record of each in a CSV or JSON."""

import csv
import glob
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatlab.core.csv_files import number_of, rows_of
from flatlab.core.schema import PlanError, closest

FILE = ("file", "checkpoint", "weights", "run")
"""The column that names the file of a network: the first of these that there is."""
ENDINGS = re.compile(r"(\.(safetensors|pth?|bin|ckpt|tar))+$", re.IGNORECASE)
"""What is left out where a file is named without its ending: lr0.1.pt is lr0.1."""
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
        """What each network is called: its file without ending, or all of it where two have one."""
        stems = [_stem(file) for file in self.files]
        return stems if len({*stems}) == len(stems) else [str(file) for file in self.files]

    @property
    def settings(self) -> list[str]:
        """The combination of hyper-parameters of each network, in words."""
        return [setting_of(values) for values in self.hyperparameters]


def setting_of(values: Mapping[str, Any]) -> str:
    """A combination of hyper-parameters in words: "lr 0.1, batch_size 20"."""
    words = (
        f"{name} {f'{value:g}' if isinstance(value, float) else value}"
        for name, value in values.items()
    )
    return ", ".join(words) or "all"


def files_matching(
    patterns: Iterable[str], context: str = "", folder: Path | None = None
) -> list[Path]:
    """The files of several patterns, sorted, each once; `PlanError` for one without a file.

    folder: to which they are relative; None: the working folder.
    """
    found: set[str] = set()
    for pattern in patterns:
        if not (files := glob.glob(pattern, root_dir=folder, recursive=True)):
            raise PlanError(f"{context}no file matches {pattern}")
        found |= {*files}
    return [Path(name) for name in sorted(found)]


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
    key = _key(rows)
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
            rows = _values(rows_of(path))
    except FileNotFoundError:
        raise PlanError(f"{path} does not exist") from None
    except (ValueError, TypeError, OSError, csv.Error) as error:
        kind = "JSON records" if path.suffix == ".json" else "CSV with a header"
        raise PlanError(f"{path} cannot be read as {kind}: {str(error).splitlines()[0]}") from None
    if not rows:
        raise PlanError(f"{path} has no records")
    return rows


def _values(rows: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Numbers, truths or words, and None for nothing; names of files as they are.

    Whole numbers of a column with gaps, which pandas writes as 64.0, are whole numbers.
    """
    key = _key(rows)
    found = {
        name: [row[name] if name == key else _value(row[name]) for row in rows] for name in rows[0]
    }
    for name, column in found.items():
        known = [value for value in column if value is not None]
        if len(known) < len(column) and all(isinstance(v, float) and v.is_integer() for v in known):
            found[name] = [None if value is None else int(value) for value in column]
    return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]


def _key(rows: Sequence[Mapping[str, Any]]) -> str | None:
    return next((name for name in FILE if name in rows[0]), None) if rows else None


def _value(text: str) -> Any:
    if text in ("", "NA", "NaN", "nan"):
        return None
    if text in ("True", "False"):
        return text == "True"
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    number = number_of(text)
    return text if number is None else number


def _stem(file: Path) -> str:
    return ENDINGS.sub("", file.name)


def _row_of(file: Path, rows: list[dict[str, Any]], key: str, table: Path) -> dict[str, Any]:
    """The record whose path, else name, else name without ending is that of a file."""
    for form in (str, lambda path: path.name, _stem):
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
