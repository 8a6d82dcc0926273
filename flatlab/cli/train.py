"""Train networks with a function of your own, a run per row of a table.

The function is given the hyper-parameters and the seed of a row by name, and returns a state
dictionary, or that and a mapping of outcomes. A run that is there is not trained again, unless its
row or the function's module has changed. `flatlab table` measures the files.
"""

import argparse
import csv
import importlib
from pathlib import Path

from flatlab.core import store
from flatlab.core.schema import PlanError
from flatlab.lab.plan.run_records import records_of

GROUP = "Measure networks"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("train", metavar="MODULE:FUNCTION", help="trains one run")
    help_ = "CSV with a header: a row per run, hyper-parameters and perhaps `seed`"
    parser.add_argument("--grid", type=Path, required=True, metavar="FILE.csv", help=help_)
    help_ = "folder for a file of weights per run, and for runs.csv"
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help=help_)


def run(options: argparse.Namespace) -> int:
    try:
        rows = records_of(options.grid)
    except (OSError, ValueError, csv.Error) as error:
        raise PlanError(f"{options.grid} cannot be read as CSV: {error}") from None
    for place, row in enumerate(rows):
        if lacking := [key for key, value in row.items() if value is None]:
            raise PlanError(f"{options.grid}: {lacking[0]} of row {place + 1} is missing")
        if row in rows[:place]:
            raise PlanError(f"{options.grid}: row {place + 1} is there twice")
    own = importlib.import_module("flatlab.lab.execution.own_training")  # torch takes seconds
    import pandas as pd

    try:
        records = own.train_runs(options.train, rows, options.out)
    except own.MeasureError as error:
        raise store.StoreError(str(error)) from None
    content = pd.DataFrame(records).to_csv(index=False).encode()
    store.replace(options.out / "runs.csv", content)
    print(f"{options.out}: {len(records)} runs; measure them with: flatlab table ", end="")
    print(f"'{options.out}/*.safetensors' --runs {options.out}/runs.csv --model ... --data ...")
    return 0
