"""The builder of synthetic tables: settings of several seeds, and a rule for each quantity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from flatlab.lab.tables.networks import ResultTables

Columns = Mapping[str, np.ndarray]
Rule = Callable[[Columns], Any]
"""A quantity of each network, from the columns: its hyper-parameters, `seed`, a number by its seed,
`noise`, (runs) each, and `time` in [0, 1], (checkpoints). It returns (runs), (runs, checkpoints) or
(runs, checkpoints, layers), or a number."""

ON_NO_SAMPLES = {"train_loss", "test_loss", "train_accuracy", "test_accuracy"}


def table(
    experiment,
    settings,
    rules,
    *,
    seeds=5,
    steps=(100,),
    samples=("train",),
    layers=("fc1",),
    spread=0.01,
    coordinates=None,
    **about,
):
    """A table of a grid.

    experiment: its key.
    settings: the hyper-parameters of each.
    rules: quantity, or (quantity, sample set), -> rule.
    seeds: networks of each setting.
    steps, samples, layers: the other dimensions.
    spread: how much `noise` differs from one seed to the next.
    coordinates: further coordinates of runs.
    about: attributes.
    """
    rows = [(setting, seed) for setting in settings for seed in range(seeds)]
    seed = np.array([seed for _, seed in rows])
    columns = {name: np.array([setting[name] for setting, _ in rows]) for name in settings[0]}
    of_runs = {**columns, "seed": seed, "noise": spread * (seed - (seeds - 1) / 2)}
    inputs = {**of_runs, "time": np.asarray(steps) / max(*steps, 1)}
    shape = (len(rows), len(steps))

    variables: dict[str, Any] = {}
    for name in dict.fromkeys(key if isinstance(key, str) else key[0] for key in rules):
        chosen = [rules.get((name, on), rules.get(name)) for on in samples]
        made = [_values(rule, inputs, shape) for rule in chosen]
        dims = ("run", "checkpoint", "samples", "layer")[: made[0].ndim + 1]
        variables[name] = (dims, np.stack(made, axis=2))
        if name in ON_NO_SAMPLES:
            variables[name] = (dims[:2], made[0])
    names_of_runs = {
        "setting": np.array([str(dict(setting)) for setting, _ in rows], object),
        "diverged": np.zeros(len(rows), bool),
        **{name: rule(of_runs) for name, rule in (coordinates or {}).items()},
    }
    return xr.Dataset(
        variables,
        {
            "run": [f"{experiment}-{number}" for number in range(len(rows))],
            **{"checkpoint": list(steps), "samples": list(samples), "layer": list(layers)},
            **{name: ("run", column) for name, column in {**columns, "seed": seed}.items()},
            **{name: ("run", column) for name, column in names_of_runs.items()},
        },
        {
            **dict.fromkeys(("experiment", "name"), experiment),
            **{"scale": "demo", "evidence": "own", "differs": [], "left_out": 0},
            "hyperparameters": [*settings[0]],
            **about,
        },
    )


def _values(rule, inputs, shape):
    """What a rule returns, (runs, checkpoints, ...)."""
    made = np.asarray(rule(inputs), float)
    made = made.reshape(*made.shape, *[1] * (2 - made.ndim))
    return np.broadcast_to(made, (*shape, *made.shape[2:])).copy()


def one(_):
    """What converged."""
    return 1.0


def standard(values):
    return (values - values.mean()) / values.std()


def following(factor, rho, generator):
    """A column around 10 whose correlation with a standardized factor is exactly this."""
    own = generator.normal(size=len(factor))
    own = standard(own - factor * (own @ factor) / len(factor))
    return 10 + rho * factor + np.sqrt(1 - rho**2) * own


def judged(claim, *tables):
    """The verdict on a claim."""
    return claim.judge(ResultTables({table.attrs["experiment"]: table for table in tables}))


def outcomes(claim, *tables):
    """What the verdict is of each table alone."""
    return [judged(claim, table).outcome for table in tables]
