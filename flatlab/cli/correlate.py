"""Correlate every measure of a table with an outcome.

Kendall's tau over all networks, within settings, and of one factor alone, with intervals that hold
for all measures together with 95 %. Networks without a partner are counted and left out; fewer than
ten have no interval.
"""

import argparse
from math import isnan
from pathlib import Path

from flatlab.core import store, text

INTERVALS = "intervals hold for all measures of a block at once; fewer than ten networks have none"


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
