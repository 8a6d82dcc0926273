"""Samples in files of arrays, perhaps for training and testing."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flatlab.core.csv_files import INDEX, form_of, number_of
from flatlab.data._dataset import DataError

ENDINGS = (".npz", ".npy", ".csv", ".tsv", ".safetensors", ".pt", ".pth")
TARGETS = ("targets", "labels", "y", "target", "label")
NUMBERED = re.compile(r"(targets?|labels?|y)[ _]?\d+")
"""Columns that are several targets, side by side."""
UNIT = re.compile(r"\s*[\[(/].*")
"""What follows a name in a header: target [m], label (0 = cat)."""
COUNTS = ("index", "id", "row")
PARTS = ("train", "test")
VALIDATION = ("val", "valid", "validation")
"""Parts that are left out."""

Inputs = np.ndarray | dict[str, np.ndarray]
"""(samples, ...), or several under the names of the network's arguments."""
Pair = tuple[Inputs, np.ndarray | None]
"""Inputs and their targets, if there are any."""


def is_arrays(place: str | Path) -> bool:
    """Whether the name of a file is that of a file of arrays."""
    return Path(place).suffix.lower() in ENDINGS


def parts(path: Path) -> dict[str, Pair]:
    """The samples in a file, `train` and perhaps `test`; `DataError` says what it lacks.

    .npz, .safetensors, .pt: an array of inputs under any name, or several under the names of the
        network's arguments; and one named targets, labels or y. Those of a part are x_train,
        train_x, y_test, ...; a validation part, single numbers and words are left out. Or, in a
        .pt, two or four tensors: x, y, x_test, y_test.
    .npy: inputs alone.  .csv, .tsv: numbers under names, of which target, label or y is the target,
        or y1, y2, ... are; without names, inputs alone.
    """
    try:
        return parts_of(_content(path), str(path))
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except DataError:
        raise
    except Exception as error:  # each reader has errors of its own
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DataError(f"{path} cannot be read as {path.suffix}: {reason}") from None


def parts_of(named: Mapping[str, np.ndarray], where: str) -> dict[str, Pair]:
    """The parts among named arrays, as `parts` has them.

    named: arrays as in a file .npz.
    where: they lie, for messages.
    """
    named = {
        name: array
        for name, array in named.items()
        if array.ndim and (array.dtype.kind not in "US" or name.lower() in TARGETS)
    }
    there: dict[str, Pair] = {}
    for part in PARTS:
        bases = {name: _base(name, part) for name in named}
        ordered = sorted(named, key=lambda name: bases[name] != name)  # x before x_train
        of_part = {bases[name]: named[name] for name in ordered if bases[name]}
        inputs = {name: array for name, array in of_part.items() if name.lower() not in TARGETS}
        targets = [array for name, array in of_part.items() if name not in inputs]
        if len(targets) > 1:
            raise DataError(f"{where} has several arrays of targets for {part}; keep one")
        if inputs:
            _check_lengths(inputs, targets, where)
            alone = next(iter(inputs.values())) if len(inputs) == 1 else inputs
            there[part] = alone, targets[0] if targets else None
    if PARTS[0] not in there:
        names = ", ".join(named) or "nothing"
        raise DataError(
            f"{where} has {names}; it needs inputs, called x or x_train, or like the arguments of "
            "the network where it has several"
        )
    return there


def _base(name: str, part: str) -> str:
    """The name of an array without that of its part; "" where it is one of another part."""
    for each in (*PARTS, *VALIDATION):
        for base in (name[len(each) + 1 :], name[: -len(each) - 1]):
            if base and name.lower() in (f"{each}_{base}".lower(), f"{base}_{each}".lower()):
                return base if each == part else ""
    return name if part == PARTS[0] else ""


def _check_lengths(inputs: dict[str, np.ndarray], targets: list[np.ndarray], where: str) -> None:
    arrays = inputs if len(inputs) > 1 else {"inputs": next(iter(inputs.values()))}
    arrays = arrays | ({"targets": targets[0]} if targets else {})
    counts = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len({*counts.values()}) > 1:
        there = " and ".join(f"{count} {name}" for name, count in counts.items())
        raise DataError(f"{where} has {there}")


def _content(path: Path) -> dict[str, np.ndarray]:
    """The arrays in a file by name."""
    ending = path.suffix.lower()
    if ending == ".npy":
        return {"inputs": np.load(path, allow_pickle=False)}
    if ending in (".csv", ".tsv"):
        return _columns(path)
    if ending == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    if ending == ".safetensors":
        from safetensors.torch import load_file

        return named_arrays(load_file(path))
    import torch

    return named_arrays(torch.load(path, map_location="cpu", weights_only=True))


def named_arrays(found: Any) -> dict[str, np.ndarray]:
    """Arrays of tensors or arrays by name, or of two or four of them: x, y, x_test, y_test.

    Raises `ValueError` for anything else.
    """
    if isinstance(found, Sequence) and len(found) in (2, 4):
        found = dict(zip(("x_train", "y_train", "x_test", "y_test"), found, strict=False))
    if not isinstance(found, Mapping):
        raise ValueError(f"it holds {type(found).__name__}, not arrays by name or (x, y)")
    arrays: dict[str, np.ndarray] = {}
    for name, value in found.items():
        narrow = str(getattr(value, "dtype", "")) == "torch.bfloat16"  # which numpy lacks
        arrays[str(name)] = np.asarray(value.float() if narrow else value)
    return arrays


def _columns(path: Path) -> dict[str, np.ndarray]:
    """The inputs in a table, and its targets where columns are called so."""
    import pandas as pd

    form = form_of(path)
    how: Any = {
        "encoding": form.encoding,
        "decimal": form.decimal,
        "skipinitialspace": True,
        "low_memory": False,
    }
    first = 1 if form.header is None else 2
    table = pd.read_csv(path, sep=form.separator, header=None, skiprows=first - 1, **how)
    names = form.header or [f"{number + 1}" for number in range(table.shape[1])]
    if len(names) != table.shape[1]:
        raise ValueError(f"its header has {len(names)} names for {table.shape[1]} columns")
    columns = [
        (name, table[n]) for n, name in enumerate(names) if name or not table[n].isna().all()
    ]
    name, column = columns[0]
    whole = len(column) > 2 and column.dtype.kind == "i"
    if (form.header is None or name.lower() in COUNTS) and whole and set(np.diff(column)) == {1}:
        raise ValueError(f"column {name!r} counts the rows; leave it out, or give it another name")
    if INDEX.fullmatch(name) and column.dtype.kind == "i" and column.is_unique:
        columns = columns[1:]
    for name, column in columns:
        lacking = column.isna()
        if column.dtype.kind not in "iufb":
            lacking = column.map(lambda cell: number_of(str(cell), form.decimal)).isna()
        if lacking.any():
            row = int(lacking.to_numpy().argmax())
            raise ValueError(f"line {row + first}, column {name!r}: {column[row]} is no number")
    bases = [UNIT.sub("", name).strip().lower() for name, _ in columns]
    wanted = [n for n, base in enumerate(bases) if base in TARGETS or NUMBERED.fullmatch(base)]
    if len(wanted) > 1 and any(bases[n] in TARGETS for n in wanted):
        named = ", ".join(columns[n][0] for n in wanted)
        raise ValueError(
            f"it has several columns of targets: {named}; keep one, or call them y1, y2"
        )
    arrays = [column.to_numpy() for _, column in columns]
    found = {"inputs": np.stack([a for n, a in enumerate(arrays) if n not in wanted], 1)}
    if wanted:
        targets = np.stack([arrays[n] for n in wanted], 1)
        whole = bool((targets == targets.round()).all())  # classes may be written 1.0
        targets = targets.astype(np.int64) if whole else targets
        found[TARGETS[0]] = targets[:, 0] if len(wanted) == 1 else targets
    return found
