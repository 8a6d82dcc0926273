"""Correlate every measure of a table with an outcome.

Kendall's tau over all networks, within settings, and of one factor alone, with intervals that hold
for all measures together with 95 %. Networks without a partner are counted and left out; fewer than
ten have no interval.
"""

import argparse
from collections.abc import Iterator, Mapping
from math import isnan
from pathlib import Path

import pandas as pd
import xarray as xr

from flatlab.core import store, text
from flatlab.lab import plan

INTERVALS = "intervals hold for all measures of a block at once; fewer than ten networks have none"
COMPARED = ("data", "split", "sample_seed", "scaling", "loss", "precision", "flatlab_version")
"""Attributes in which reports agree if their numbers can be compared."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("table", type=Path, help="of flatlab table, or in results/<scale>/tables")
    add("outcome", help="a column, such as test_error")
    help_ = "hyper-parameters, joined by commas, whose combinations are settings; all by default"
    add("--within", metavar="NAMES", help=help_)
    add("--out", type=Path, metavar="FILE.csv", help="file for the numbers")


def run(options: argparse.Namespace) -> int:
    from flatlab.lab.tables.outcomes import against

    table = store.load_dataset(options.table)
    within = None if options.within is None else [n for n in options.within.split(",") if n]
    frame = against(table, options.outcome, within)
    for varies, rows in frame.groupby("varies", sort=False):
        counts = sorted({*rows["networks"]})
        several = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
        alone = rows["left_out"].max()
        left_out = f"; {alone} without a partner left out" if alone else ""
        print(f"\n{varies}: {several} networks{left_out}")
        rows = rows.sort_values("tau", ascending=False, na_position="last")
        columns = (rows[name].tolist() for name in ("measure", "tau", "low", "high"))
        cells = [
            (measure, f"{tau:+.2f}", "none" if isnan(low) else f"{low:+.2f} to {high:+.2f}")
            for measure, tau, low, high in zip(*columns, strict=True)
        ]
        print(text.table("<>>", ("measure", "tau", "95 % interval"), *cells))
    print(f"\n{INTERVALS}")
    for reason in frame.attrs["not_eligible"]:
        print(f"\nleft out: {reason}")
    if options.out:
        store.replace(options.out, frame.to_csv(index=False).encode())
        print(f"\nwritten to {options.out}")
    return 0


def add_arguments_rank(parser: argparse.ArgumentParser) -> None:
    help_ = "files that `flatlab measure --out` has written"
    parser.add_argument("report", nargs="+", type=Path, help=help_)


def run_rank(options: argparse.Namespace) -> int:
    """Put reports of `flatlab measure` side by side, and rank the networks by each quantity.

    Ranks are from the smallest value, 1, to the largest; equal values share the mean of theirs.
    """
    if len(options.report) < 2:
        raise plan.PlanError("flatlab rank needs at least two reports")
    reports = {str(path).removesuffix(".zarr.zip"): _report(path) for path in options.report}
    if len(reports) < len(options.report):
        raise plan.PlanError("flatlab rank needs different reports; one is given twice")
    # Standard errors, residuals and the like, which no paper defines, are nothing to rank by.
    numbers = {
        name: {
            str(key): float(each)
            for key, each in report.items()
            if not each.dims and each.attrs.get("source")
        }
        for name, report in reports.items()
    }
    values = pd.DataFrame(numbers)
    ranks = values.rank(axis="columns")
    cells = (
        (key, *(f"{value:.5g} ({rank:g})" for value, rank in zip(row, ranks.loc[key], strict=True)))
        for key, row in zip(values.index, values.to_numpy(), strict=True)
    )
    print(text.table("<" + ">" * len(reports), ("quantity (rank)", *values), *cells))
    for sentence in _differences(reports):
        print(f"\n{sentence}")
    return 0


def _report(path: Path) -> xr.Dataset:
    report = store.load_dataset(path)
    if "run" in report.dims:
        raise plan.PlanError(f"{path} is the table of an experiment, not a report of one network")
    return report


def _differences(reports: Mapping[str, xr.Dataset]) -> Iterator[str]:
    """Why the numbers of the reports may not be comparable, in sentences."""
    for key in (*COMPARED, "sample"):
        told = {
            name: str(each.sizes.get(key) if key == "sample" else each.attrs.get(key, "unknown"))
            for name, each in reports.items()
        }
        if len({*told.values()}) > 1:
            what = "as many samples" if key == "sample" else f"the same {key.replace('_', ' ')}"
            yield f"not {what}: {', '.join(f'{name} {value}' for name, value in told.items())}"
