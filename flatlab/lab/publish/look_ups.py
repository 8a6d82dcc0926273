"""Look-ups in published tables, verdicts and the CSV files of published figures, for FINDINGS.md.

They return numbers, so that a text can divide and subtract. A look-up that finds nothing raises
`StoreError`, which says what there is.
"""

import functools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from flatlab.core import store
from flatlab.lab import plan
from flatlab.lab.claims.records import ClaimRecord, read_verdicts
from flatlab.lab.publish.networks import Interval, PublishedNetworks, interval
from flatlab.lab.tables.networks import Networks
from flatlab.lab.tables.times import Time
from flatlab.stats.trends import difference


class SignCounts(NamedTuple):
    """How many things are compared, and how many of them are on one side, or on opposite ones."""

    compared: int
    same: int
    opposite: int


@functools.cache
def table(scale: str, experiment: str) -> PublishedNetworks:
    """The networks of a published table."""
    path = plan.published_at(scale).table(experiment)
    known = (p.name.removesuffix("".join(path.suffixes)) for p in path.parent.glob("*-*.zarr.zip"))
    _check(path, experiment, known)
    return PublishedNetworks(path, Networks.of(experiment, store.load_dataset(path)))


def published(scale: str, *targets: str) -> bool:
    """Whether figures are published: "beyond_fig9". What is not yet, a text can leave out."""
    parts = [target.partition("_") for target in targets]
    return all(plan.published_at(scale).verdicts(p, f).is_file() for p, _, f in parts)


def verdict(scale: str, claim: str) -> str:
    """The verdict on a claim, "chen2026_figH7/c6"."""
    return _claim(scale, claim)["verdict"]


def claims(scale: str, *figures: str) -> list[ClaimRecord]:
    """The published records of all claims about figures: "chen2026_figH7"."""
    return [record for figure in figures for record in _claims(scale, figure).values()]


def evidence(scale: str, claim: str, *words: str) -> Interval:
    """The number in the evidence of a claim that has this name, or all these words in its name."""
    entries = {entry["quantity"]: entry for entry in _claim(scale, claim)["evidence"]}
    names = [name for name in entries if (name,) == words]
    names = names or [name for name in entries if all(word in name for word in words)]
    if len(names) != 1:
        what = f"{len(names)} quantities contain {' and '.join(map(repr, words))}"
        known = f"it has: {'; '.join(entries) or 'none'}"
        raise store.StoreError(f"evidence of {claim} at scale {scale}: {what}; {known}")
    numbers: Any = entries[names[0]]
    ends = (numbers.get(key) for key in Interval._fields)
    return Interval(*(math.nan if end is None else float(end) for end in ends))


def cell(scale: str, target: str, column: str, **row: Any) -> Any:
    """What stands in a column of a published figure's CSV, in the only row with these values."""
    values = cells(scale, target, column, **row)
    if len(values) != 1:
        raise store.StoreError(f"{target} at scale {scale}: {len(values)} rows have {row}, not one")
    return values[0]


def estimate(scale: str, target: str, column: str, **row: Any) -> Interval:
    """A number in the only row of a published figure's CSV with these values, with its interval."""
    return Interval(*(cell(scale, target, name, **row) for name in (column, "low", "high")))


def cells(scale: str, target: str, column: str, **row: Any) -> list[Any]:
    """What stands in a column of a published figure's CSV, in all rows with these values.

    row: the value of an empty cell is "".
    """
    return _rows(scale, target, [column], row)[column].tolist()


def sides(scale: str, target: str, along: str, across: str, **row: Any) -> SignCounts:
    """On which side of zero the intervals `low` to `high` of a published figure's CSV are.

    Of each value of the column `along`, all values of `across` are compared. row: of these rows.
    """
    rows = _rows(scale, target, [along, across, "low", "high"], row)
    rows = rows.assign(side=np.sign(rows["low"].clip(lower=0) + rows["high"].clip(upper=0)))
    signs = rows.pivot_table("side", along, across, fill_value=0)
    product = signs.min(axis=1) * signs.max(axis=1)
    return SignCounts(len(signs), int((product > 0).sum()), int((product < 0).sum()))


def _rows(scale: str, target: str, columns: list[str], row: dict[str, Any]) -> pd.DataFrame:
    """The rows of a published figure's CSV with these values."""
    paper, _, figure = target.partition("_")
    path = plan.published_at(scale).figure(paper, figure, "csv")
    _check(path, figure, (p.stem for p in path.parent.glob("*.csv")))
    frame = _csv(path)
    for name in (*columns, *row):
        if name not in frame:
            raise store.StoreError(
                f"{path}: no column {name!r}; {plan.closest(name, map(str, frame))}"
            )
    for name, value in row.items():
        frame = frame[frame[name].isna() if value == "" else frame[name] == value]
    if frame.empty:
        raise store.StoreError(f"{path}: no row has {row}")
    return frame


def over(
    larger: PublishedNetworks, smaller: PublishedNetworks, name: str, at: Time = "end"
) -> Interval:
    """How much the mean of a quantity over some networks exceeds that over others."""
    more, less = (networks.values(name, at) for networks in (larger, smaller))
    return interval(difference(name, more, less))


def median(values: np.ndarray) -> float:
    """The median of a column of `PublishedNetworks`, or of what is made of several."""
    return float(np.nanmedian(values))


def _claim(scale: str, claim: str) -> ClaimRecord:
    """The published record of a claim."""
    figure = claim.partition("/")[0]
    known = _claims(scale, figure)
    if claim not in known:
        what = f"{figure} at scale {scale} has no claim {claim!r}"
        raise store.StoreError(f"{what}; {plan.closest(claim, known)}")
    return known[claim]


def _claims(scale: str, target: str) -> dict[str, ClaimRecord]:
    """The published records of the claims about a figure, by their names."""
    paper, _, figure = target.partition("_")
    path = plan.published_at(scale).verdicts(paper, figure)
    _check(path, figure, (p.stem for p in path.parent.glob("*.json")))
    return {entry["id"]: entry for entry in _verdicts(path)["claims"]}


def _check(path: Path, name: str, known: Iterable[str]) -> None:
    """Raise `StoreError` if a published file does not exist."""
    if not path.is_file():
        raise store.StoreError(f"{path} does not exist; {plan.closest(name, known)}")


_verdicts = functools.cache(read_verdicts)


@functools.cache
def _csv(path: Path) -> pd.DataFrame:
    return pd.read_csv(path)
