"""Put reports of `flatlab measure` side by side, and rank the networks by each quantity.

Ranks are from the smallest value, 1, to the largest; equal values share the mean of their ranks.
"""

import argparse
from pathlib import Path

import numpy as np
import xarray as xr
from scipy.stats import rankdata

from flatlab.cli import _text as text
from flatlab.core import store
from flatlab.lab import plan

GROUP = "Measure networks"
COMPARED = ("data", "split", "sample_seed", "scaling", "loss", "precision", "flatlab_version")
"""Attributes in which reports agree if their numbers can be compared."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("report", nargs="+", type=Path, help="files that `flatlab measure --out` has written")
    help_ = "by default all single numbers that a paper defines"
    add("--quantity", nargs="+", metavar="NAME", help=help_)
    add("--by", metavar="NAME", help="order the networks by this quantity, the smallest first")
    add("--out", type=Path, metavar="FILE.csv", help="file for the values and ranks")


def run(options: argparse.Namespace) -> int:
    if len(options.report) < 2:
        raise plan.PlanError("flatlab rank needs at least two reports")
    reports = {str(path): store.load_dataset(path) for path in options.report}
    for path, report in reports.items():
        if "run" in report.dims:
            raise plan.PlanError(
                f"{path} is the table of an experiment, not a report of one network"
            )
    names = dict(zip(reports, _names(options.report), strict=True))
    numbers = {
        names[path]: {str(key): float(each) for key, each in report.items() if not each.dims}
        for path, report in reports.items()
    }
    known = list(dict.fromkeys(key for each in numbers.values() for key in each))
    defined = {
        str(key) for report in reports.values() for key in report if _is_defined(report[key])
    }
    for asked in [*(options.quantity or []), *([options.by] if options.by else [])]:
        if asked not in known:
            raise plan.PlanError(f"no report has {asked!r}; {plan.closest(asked, known)}")
    if options.by:
        missing = float("nan")
        order = sorted(numbers, key=lambda name: numbers[name].get(options.by, missing))
        numbers = {name: numbers[name] for name in order}
    values = {
        key: np.array([each.get(key, np.nan) for each in numbers.values()])
        for key in options.quantity or [key for key in known if key in defined]
    }
    ranks = {key: rankdata(row, nan_policy="omit") for key, row in values.items()}
    print(_table([*numbers], values, ranks))
    for sentence in _differences(reports, names):
        print(f"\n{sentence}")
    if options.out:
        _save(options.out, [*numbers], values, ranks)
    return 0


def _is_defined(quantity: xr.DataArray) -> bool:
    """Whether a paper defines it; standard errors, residuals and the like are none to rank by."""
    return not quantity.dims and bool(quantity.attrs.get("source"))


def _names(paths: list[Path]) -> list[str]:
    """File names without endings, with as many folders as it takes to tell them apart."""
    stems = [path.with_name(path.name.removesuffix(".zarr.zip")) for path in paths]
    for count in range(1, max(len(stem.parts) for stem in stems) + 1):
        names = ["/".join(stem.parts[-count:]) for stem in stems]
        if len({*names}) == len(names):
            return names
    raise plan.PlanError("flatlab rank needs different reports; one is given twice")


def _table(networks: list[str], values: dict[str, np.ndarray], ranks: dict[str, np.ndarray]) -> str:
    rows = [
        (key, *(f"{value:.5g} ({rank:g})" for value, rank in zip(row, ranks[key], strict=True)))
        for key, row in values.items()
    ]
    return text.table("<" + ">" * len(networks), ("quantity (rank)", *networks), *rows)


def _differences(reports: dict[str, xr.Dataset], names: dict[str, str]) -> list[str]:
    """Why the numbers of the reports may not be comparable, in sentences."""
    differences = []
    for key in COMPARED:
        told = {names[path]: str(each.attrs.get(key, "unknown")) for path, each in reports.items()}
        if len({*told.values()}) > 1:
            said = ", ".join(f"{name} {value}" for name, value in told.items())
            differences.append(f"not the same {key.replace('_', ' ')}: {said}")
    sizes = {names[path]: each.sizes.get("sample") for path, each in reports.items()}
    if len({*sizes.values()}) > 1:
        said = ", ".join(f"{name} {size}" for name, size in sizes.items())
        differences.append(f"not as many samples: {said}")
    return differences


def _save(
    path: Path, networks: list[str], values: dict[str, np.ndarray], ranks: dict[str, np.ndarray]
) -> None:
    cells = {"value": values, "rank": ranks}
    table = xr.Dataset(
        {
            kind: (("quantity", "network"), np.stack([*rows.values()]))
            for kind, rows in cells.items()
        },
        {"quantity": [*values], "network": networks},
    )
    store.replace(path, table.to_dataframe().to_csv().encode())
