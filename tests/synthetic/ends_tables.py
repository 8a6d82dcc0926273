"""Synthetic tables of networks at the end of training, from a rule for each quantity."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from flatlab.claims import Evidence
from flatlab.papers.macdonald2023.claims import CLAIMS

J, SHARPNESS, GAP, LOSS = "jacobian_norm", "hessian_lambda_max", "absolute_loss_gap", "train_loss"
GAUSS_NEWTON = "gauss_newton_lambda_max"
Columns = Mapping[str, np.ndarray]
Rule = Callable[[Columns], Any]
"""A quantity of each network, from its hyper-parameters and a number by its seed, `noise`."""

SEEDS = 5


def table(grid: str, rows: list[dict[str, Any]], rules: Mapping[str, Rule]) -> xr.Dataset:
    runs = [{**row, "seed": seed} for row in rows for seed in range(SEEDS)]
    columns = {name: np.array([run[name] for run in runs]) for name in runs[0]}
    of_seed = {**columns, "noise": 0.01 * (columns["seed"] - 2)}
    dims, shape = ("run", "checkpoint", "samples"), (len(runs), 1, 1)
    values = {name: np.asarray(rule(of_seed), float) for name, rule in rules.items()}
    ones = {f"{name}_converged": np.ones(shape) for name in ("hessian", "gauss_newton")}
    return xr.Dataset(
        {n: (dims, (v + np.zeros(len(runs))).reshape(shape)) for n, v in values.items()}
        | {name: (dims, one) for name, one in ones.items()},
        {
            "samples": ["train"],
            "checkpoint": [100],
            "run": [f"r{n}" for n in range(len(runs))],
            "setting": ("run", [str({**row}) for row in rows for _ in range(SEEDS)]),
            **{name: ("run", values) for name, values in columns.items()},
            "diverged": ("run", np.zeros(len(runs), bool)),
        },
        {
            **{"experiment": grid, "evidence": "own", "differs": [], "left_out": 0},
            "hyperparameters": [*rows[0]],
        },
    )


def seeds_alone(c: Columns) -> np.ndarray:
    return 5 + c["noise"]


def outcome(figure: str, key: str, made: xr.Dataset) -> str:
    return CLAIMS[figure][key].judge(Evidence({made.attrs["experiment"]: made})).outcome
