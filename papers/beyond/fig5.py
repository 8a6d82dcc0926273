"""beyond, Figure 5: what each measure says of test error and gap depends on what varies.

The picture counts on how many measures both grids agree. Its supplement has every tau: its panels
are estimands, one of them of sign errors, and a change of sign has an outline.
"""

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.figures.labels import label_of
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import Look, lettered
from flatlab.lab.tables.eligibility import FEWEST_FOR_RANKS
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond import _joint as joint
from flatlab.papers.beyond.fig4 import SMALL, colour_labels, legend_of_papers
from flatlab.stats.ranks import granulated, sign_error

OUTCOMES = {"test_error": Look("#222222", "o", ""), "error_gap": Look("#d55e00", "D", "")}
EARLY: dict[str, Any] = {"color": "#d55e00", "marker": "|", "ls": "", "ms": 4, "mew": 0.8}
"""The gap when networks first fit."""
END, FIRST_FIT = "end", "first fit"
COLUMNS = ["measure", "outcome", "varies", "levels", "tau", "low", "high", "networks", "opposite"]
GRANULATED, ENVIRONMENT = "granulated", "environment"
TITLES = {
    joint.ALL: "all\nnetworks",
    joint.SEEDS: "within\nsettings",
    **{"lr": "rate\nalone", "batch_size": "batch size\nalone"},
    **{"regularizer": "regularizer\nalone", "loss": "loss\nalone"},
    GRANULATED: "mean of\nfactors",
    ENVIRONMENT: "sign\nerror",
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
    rows = []
    for name, outcome in product(measures, outcomes):
        taus = {kind: each.tau(name, outcome) for kind, each in ranks.items()}
        factors = [taus[factor] for factor in joint.FACTORS]
        taus[GRANULATED] = granulated(f"Psi({name}, {outcome})", factors)
        intervals = {kind: tau.interval() for kind, tau in taus.items()}
        signs = {kind: _sign(tau.n, *intervals[kind]) for kind, tau in taus.items()}
        for kind, tau in taus.items():
            row = {"measure": name, "outcome": outcome, "varies": kind, "tau": tau.value}
            row |= dict(zip(("low", "high"), intervals[kind], strict=True))
            row |= {"networks": tau.n, "opposite": signs[kind] * signs[joint.ALL] < 0}
            rows.append(row)
    shown = [name for name in measures if name in joint.PICTURED]
    for (factor, levels, pairs), name, outcome in product(chosen.environments(), shown, outcomes):
        row = {"measure": name, "outcome": outcome, "varies": ENVIRONMENT}
        error = sign_error(chosen.values(name), chosen.values(outcome), pairs)
        rows.append({**row, "levels": f"{factor}: {levels}", "tau": error})
    return pd.DataFrame(rows, columns=COLUMNS).assign(grid=grid, dropped=chosen.dropped)


def _sign(networks: int, low: float, high: float) -> int:
    """1 or -1 if the interval is on one side of zero, 0 if not."""
    return int(np.sign(low)) if networks >= FEWEST_FOR_RANKS and low * high > 0 else 0


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """By what varies: how many measures order test errors alike in both grids, or oppositely."""
    rows = frame[(frame["at"] == END) & (frame["outcome"] == "test_error")]
    kinds = [kind for kind in TITLES if kind != ENVIRONMENT]
    if len(set(rows["grid"])) < 2:
        fig.text(0.5, 0.5, "one grid has networks that fit", ha="center")
        return
    ax = fig.subplots()
    sides = np.sign(rows["low"].clip(lower=0) + rows["high"].clip(upper=0))
    signs = rows.assign(side=sides).pivot_table("side", ["varies", "measure"], "grid", fill_value=0)
    agree = signs.min(axis=1) * signs.max(axis=1)
    for way, color in ((1, "#0173b2"), (-1, "#d55e00")):
        counts = (agree == way).groupby("varies").sum().reindex(kinds, fill_value=0)
        bars = ax.barh([-n for n in range(len(kinds))], np.multiply(way, counts), color=color)
        ax.bar_label(bars, [str(count or "") for count in counts], padding=3)
    every = agree.groupby("varies").size().max()
    ax.axvline(0, color="0.3", lw=0.7)
    ax.set_yticks([-n for n in range(len(kinds))], [TITLES[k].replace("\n", " ") for k in kinds])
    ax.set(xlim=(-every, every), xlabel=f"measures, of {every}")
    ax.set_xticks(ticks := ax.get_xticks(), [f"{abs(tick):.0f}" for tick in ticks])
    ax.set_xlim(-every, every)
    ax.set_title("← opposite signs in the two grids", loc="left", color="#d55e00")
    ax.set_title("same sign in both →", loc="right", color="#0173b2")


def supplement(figure: Settings) -> tuple[Callable[..., None], tuple[float, float]]:
    """What draws the second page, and its size."""
    return draw_taus, (7.1, 10.8)


def draw_taus(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A row of panels per grid: a panel per estimand and one of sign errors, a line per measure."""
    from matplotlib.lines import Line2D

    early, frame = frame[frame["at"] == FIRST_FIT], frame[frame["at"] == END]
    grids = [grid for grid in joint.GRIDS if grid in set(frame["grid"])]
    names = [name for name in joint.PICTURED if name in set(frame["measure"])]
    if frame.empty:
        fig.text(0.5, 0.5, "no networks that fit", ha="center")
        return
    every = fig.subplots(len(grids), len(TITLES), sharey=True, squeeze=False)
    places = {name: -number for number, name in enumerate(names)}
    for number, (grid, axes) in enumerate(zip(grids, every, strict=True)):
        here = frame[(frame["grid"] == grid) & frame["measure"].isin(names)]
        for ax, (kind, title) in zip(axes, TITLES.items(), strict=True):
            rows = here[here["varies"] == kind]
            if kind == ENVIRONMENT:
                _sign_errors(ax, rows, places)
            else:
                _taus(ax, rows, places)
                _early(ax, early[(early["grid"] == grid) & (early["varies"] == kind)], places)
            ax.set_title(f"\n{title}", fontsize=7)
            ax.set_ylim(-len(names) + 0.2, 0.8)
            ax.tick_params(labelsize=SMALL, length=2)
            ax.grid(axis="y", lw=0.2, color="0.9")
        axes[0].set_yticks([*places.values()])
        colour_labels(axes[0], names, figure)
        networks = f"{joint.NETWORKS[grid]}, {here['networks'].max():.0f} networks"
        place = {"xy": (0, 1), "xycoords": "axes fraction", "textcoords": "offset points"}
        heading = axes[0].annotate(
            lettered("ab"[number], networks), xytext=(0, 26), fontsize=8, **place
        )
        heading.set_in_layout(False)  # it is wider than its panel
    marks = [
        Line2D([], [], ms=4, label=label_of(figure, name), **look.options)
        for name, look in OUTCOMES.items()
    ]
    marks.append(Line2D([], [], label="gap when they first fit", **EARLY))
    turned: dict[str, Any] = {
        "label": "opposite sign",
        "ls": "",
        "marker": "s",
        "ms": 5,
        "mfc": "none",
    }
    legend_of_papers(fig, *marks, Line2D([], [], mec="0.3", mew=0.7, **turned))


def _taus(ax: Any, rows: pd.DataFrame, places: dict[str, int]) -> None:
    """A point and its interval per outcome; a change of sign has an outline. Fewer networks than a
    rank correlation needs have a pale point without an interval.
    """
    for shift, (outcome, look) in zip((0.2, -0.2), OUTCOMES.items(), strict=True):
        here = rows[rows["outcome"] == outcome]
        y = here["measure"].map(places) + shift
        enough = here["networks"] >= FEWEST_FOR_RANKS
        ends = (here[name].where(enough) for name in ("low", "high"))
        ax.hlines(y, *ends, color=look.color, lw=0.6)
        few = {**look.options, "alpha": 0.35}
        ax.plot(here["tau"].where(enough), y, ms=1.8, **look.options)
        ax.plot(here["tau"].mask(enough), y, ms=1.8, **few)
        turned = here["opposite"].astype(bool)
        box = {"ls": "", "marker": "s", "ms": 5, "mfc": "none", "mec": look.color, "mew": 0.7}
        ax.plot(here["tau"][turned], y[turned], **box)
    ax.axvline(0, color="0.5", lw=0.6, zorder=0.5)
    ax.set(xlim=(-1.08, 1.08), xticks=[-1, 0, 1])


def _early(ax: Any, rows: pd.DataFrame, places: dict[str, int]) -> None:
    rows = rows[(rows["outcome"] == "error_gap") & (rows["networks"] >= FEWEST_FOR_RANKS)]
    y = rows["measure"].map(places) - 0.2
    ax.plot(rows["tau"], y, **EARLY)


def _sign_errors(ax: Any, rows: pd.DataFrame, places: dict[str, int]) -> None:
    """Of the gap: the mean over the environments, and a line to the worst one."""
    of_gap = rows[rows["outcome"] == "error_gap"].groupby("measure")["tau"]
    mean, worst = of_gap.mean(), of_gap.max()
    y = mean.index.map(places)
    ax.hlines(y, mean, worst, color=OUTCOMES["error_gap"].color, lw=0.6)
    ax.plot(mean, y, ms=1.8, **OUTCOMES["error_gap"].options)
    ax.plot(worst, y, ls="", marker="|", ms=4, mew=0.8, color=OUTCOMES["error_gap"].color)
    ax.axvline(0.5, color="0.5", lw=0.6, zorder=0.5)
    ax.set(xlim=(-0.04, 1.04), xticks=[0, 0.5, 1])
