"""beyond, Figure 5: what each measure says of test error and gap depends on what varies.

It counts on how many measures both grids agree. The site has every tau in a table.
"""

from collections.abc import Iterable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.figures.render import Settings
from flatlab.lab.tables.eligibility import FEWEST_FOR_RANKS
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond import _joint as joint
from flatlab.stats.ranks import granulated, sign_error

OUTCOMES = ("test_error", "error_gap")
END, FIRST_FIT = "end", "first fit"
COLUMNS = ["measure", "outcome", "varies", "levels", "tau", "low", "high", "networks", "opposite"]
GRANULATED, ENVIRONMENT = "granulated", "environment"
TITLES = {
    joint.ALL: "all networks",
    joint.SEEDS: "same setting",
    **{"lr": "rate alone", "batch_size": "batch size alone"},
    **{"regularizer": "regularizer alone", "loss": "loss alone"},
    GRANULATED: "mean of factors",
}


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """A row per measure, outcome and what varies: tau with its 95 % interval, and whether its sign,
    if decided, is not that over all networks. Rows `environment` have the sign error in `tau`.

    at: "end", which is drawn, or "first fit", when each network first had a small training error.
    """
    parts = []
    for grid, table in tables.tables.items():
        measures = [*joint.PICTURED, *joint.FURTHER]
        parts.append(_rows(grid, joint.networks(table), measures).assign(at=END))
        if "fitted" in table.coords:
            first = joint.networks(table, first=True)
            parts.append(_rows(grid, first, joint.PICTURED).assign(at=FIRST_FIT))
    return pd.concat(parts, ignore_index=True)


def _rows(grid: str, chosen: joint.JointNetworks, measures: Iterable[str]) -> pd.DataFrame:
    measures = chosen.known(measures)
    outcomes = chosen.known([*OUTCOMES, joint.CORRUPTED])  # the last in the CSV alone
    ranks = {kind: chosen.drawn_ranks(kind, [*measures, *outcomes]) for kind in joint.ESTIMANDS}
    rows: list[list[Any]] = []
    for name, outcome in product(measures, outcomes):
        taus = {kind: each.tau(name, outcome) for kind, each in ranks.items()}
        factors = [taus[factor] for factor in joint.FACTORS]
        taus[GRANULATED] = granulated(f"Psi({name}, {outcome})", factors)
        numbers = {kind: tau.numbers for kind, tau in taus.items()}
        over_all = _sign(*numbers[joint.ALL])
        for kind, known in numbers.items():
            opposite = _sign(*known) * over_all < 0
            rows.append([name, outcome, kind, np.nan, *known, opposite])
    shown = [name for name in measures if name in joint.PICTURED]
    for (factor, levels, pairs), name, outcome in product(chosen.environments(), shown, outcomes):
        error = sign_error(chosen.values(name), chosen.values(outcome), pairs)
        missing = [np.nan] * 4
        rows.append([name, outcome, ENVIRONMENT, f"{factor}: {levels}", error, *missing])
    return pd.DataFrame(rows, columns=COLUMNS).assign(grid=grid, dropped=chosen.dropped)


def _sign(tau: float, low: float, high: float, networks: int) -> int:
    """1 or -1 if the interval is on one side of zero, 0 if not."""
    return int(np.sign(low)) if networks >= FEWEST_FOR_RANKS and low * high > 0 else 0


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """By what varies: how many measures order test errors alike in both grids, or oppositely."""
    rows = frame[(frame["at"] == END) & (frame["outcome"] == "test_error")]
    kinds, places = [*TITLES], -np.arange(len(TITLES))
    if len(set(rows["grid"])) < 2:
        fig.text(0.5, 0.5, "one grid has networks that fit", ha="center")
        return
    ax = fig.subplots()
    sides = np.sign(rows["low"].clip(lower=0) + rows["high"].clip(upper=0))
    signs = rows.assign(side=sides).pivot_table("side", ["varies", "measure"], "grid", fill_value=0)
    agree = signs.min(axis=1) * signs.max(axis=1)
    for way, color in ((1, "#0173b2"), (-1, "#d55e00")):
        counts = (agree == way).groupby("varies").sum().reindex(kinds, fill_value=0)
        bars = ax.barh(places, way * counts, color=color)
        ax.bar_label(bars, [str(count or "") for count in counts], padding=3)
    every = agree.groupby("varies").size().max()
    ax.axvline(0, color="0.3", lw=0.7)
    ax.set_yticks(places, [*TITLES.values()])
    ax.set(xlim=(-every, every), xlabel=f"measures, of {every}")
    ax.xaxis.set_major_formatter(lambda x, _: f"{abs(x):g}")
    ax.set_title("← opposite signs in the two grids", loc="left", color="#d55e00")
    ax.set_title("same sign in both →", loc="right", color="#0173b2")
