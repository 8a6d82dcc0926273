"""What andriushchenko2023 prints in its tables: Kendall's tau of sharpness and test errors.

`printed/table1.csv` and others have a row for each experiment, definition and test set, with a
column for each radius, in the order of the paper.
"""

import csv
from pathlib import Path

READS = "printed/*.csv"
"""The files beside this module that it reads: its fingerprint has their content, too."""

Taus = dict[str, tuple[tuple[float, ...], ...]]
"""By definition: for each test set, by radius."""


def read(table: str) -> dict[str, Taus]:
    """A printed table, by experiment."""
    taus: dict[str, Taus] = {}
    with Path(__file__).with_name("printed").joinpath(f"{table}.csv").open() as file:
        for experiment, definition, _, *by_radius in [*csv.reader(file)][1:]:
            rows = taus.setdefault(experiment, {})
            rows[definition] = (*rows.get(definition, ()), tuple(map(float, by_radius)))
    return taus


TABLE1, TABLE2, TABLE3, TABLE4 = (read(f"table{number}") for number in (1, 2, 3, 4))
