"""Write a table as CSV: a row per network, checkpoint and sample set, a column per number.

What is true or false is written as TRUE and FALSE, which R and pandas both read as such.
"""

import argparse
from pathlib import Path

from flatlab.core import store

GROUP = "Look at results"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", type=Path, help="a table or a report, .zarr.zip")
    help_ = "the file; by default beside the table, with its name"
    parser.add_argument("--csv", type=Path, nargs="?", const=None, metavar="FILE.csv", help=help_)


def run(options: argparse.Namespace) -> int:
    import numpy as np

    from flatlab.lab.tables.tidy import tidy

    path = options.csv or Path(f"{str(options.table).removesuffix('.zarr.zip')}.csv")
    frame = tidy(store.load_dataset(options.table))
    flags = frame.select_dtypes("bool").columns
    frame[flags] = np.where(frame[flags], "TRUE", "FALSE")
    store.replace(path, frame.to_csv(index=False).encode())
    print(f"{path}: {len(frame)} rows, {len(frame.columns)} columns")
    return 0
