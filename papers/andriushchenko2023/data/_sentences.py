"""Pairs of sentences with labels from the files of MNLI and HANS: .tsv, .txt or .jsonl."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from flatlab.data._dataset import DataError

FIRST, SECOND, LABEL = COLUMNS = ("sentence1", "sentence2", "gold_label")
UNDECIDED = "-"
"""The label of pairs on which MNLI's annotators did not agree; they are left out."""

OTHERS = "non-"
"""A label non-entailment means all labels but entailment."""


class Pairs:
    """A fixed random choice of pairs of sentences.

    place: the file.
    names: of the labels that a network's outputs stand for, in order.
    where: only rows with these values in their columns.
    size: the number of pairs; None for all, in their order.
    seed: of the choice.

    classes: for each class, the outputs that mean it.
    labels: the class of each pair.
    """

    def __init__(
        self,
        place: Path,
        names: Sequence[str],
        where: Mapping[str, str],
        size: int | None = None,
        seed: int = 0,
    ) -> None:
        rows = [row for row in _rows(place) if row[LABEL] != UNDECIDED]
        for column, value in where.items():
            if rows and column not in rows[0]:
                raise DataError(f"{place} has no column {column!r}; it has {', '.join(rows[0])}")
            rows = [row for row in rows if row[column] == value]
        if not rows:
            chosen = ", ".join(f"{column} {value}" for column, value in where.items())
            of = f" with {chosen}" if chosen else ""
            raise DataError(f"{place} has no labelled pairs of sentences{of}")
        if size is not None:
            rows = [rows[n] for n in np.random.default_rng(seed).permutation(len(rows))[:size]]
        self.pairs = [(row[FIRST], row[SECOND]) for row in rows]
        labels = [row[LABEL] for row in rows]
        for label in labels:
            if label.removeprefix(OTHERS) not in names:
                known = ", ".join(names)
                raise DataError(f"{place}: unknown label {label!r}; the outputs are {known}")
        numbers = range(len(names))
        self.classes = [[number] for number in numbers]
        self.labels = [names.index(label.removeprefix(OTHERS)) for label in labels]
        if alone := {label.removeprefix(OTHERS) for label in labels if label.startswith(OTHERS)}:
            one = names.index(min(alone))
            self.classes = [[one], [number for number in numbers if number != one]]
            self.labels = [int(label.startswith(OTHERS)) for label in labels]


def _rows(place: Path) -> Iterator[dict[str, str]]:
    try:
        text = place.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{place} is missing; put the published sentences there") from None
    except (OSError, UnicodeDecodeError):
        raise DataError(f"{place} cannot be read as text") from None
    lines = [line for line in text.split("\n") if line.strip()]
    if place.suffix == ".jsonl":
        try:
            rows = [json.loads(line) for line in lines]
        except ValueError:
            raise DataError(f"{place} is not a line of JSON for each pair of sentences") from None
    else:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    if rows and (missing := [name for name in COLUMNS if rows[0].get(name) is None]):
        raise DataError(f"{place} has no column {missing[0]!r}; MNLI's and HANS's files have")
    yield from rows
