"""beyond, Figure 17: errors of equally flat, and of equally compressed networks."""

from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.figures import style
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import Look, legend, letters
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond.claims_matched import (
    BETTER,
    CORRUPTED,
    GRIDS,
    MLS,
    OUTCOMES,
    S,
    effect,
    that_fit,
)

HOW = {
    "SAM": Look("#0173b2", "o", ""),
    "penalty": Look("#de8f05", "D", ""),
    "neither": Look("0.2", "s", ""),
}
LOOKS = {MLS: Look("#029e73", "o", ""), S: Look("#cc78bc", "D", "")}
"""By what is equal in a pair."""
SHOWN = {CORRUPTED: "corrupted", "test_error": "clean", "accuracy_gap": "gap"}
"""What is drawn: the gap of losses is in other units."""
SAME = {MLS: "flatter, equally compressed", S: "more compressed, equally flat"}
COLUMNS = ["networks", "row", "what", "value", "low", "high", "count"]


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """Rows `effect`: one per grid, what is equal and outcome. Rows `network`: of each one that
    fits, its root of sharpness in `value` and its MLS in `low`.
    """
    rows: list[list[Any]] = []
    for grid, name in GRIDS.items():
        columns = that_fit(tables[grid])
        strengths = zip(columns["sam_radius"], columns["jacobian_penalty"], strict=True)
        how = ["SAM" if sam else "penalty" if penalty else "neither" for sam, penalty in strengths]
        points = zip(how, np.exp(columns[S]), np.exp(columns[MLS]), strict=True)
        rows += [[name, "network", kind, s, mls, np.nan, 1] for kind, s, mls in points]
        for same in BETTER:
            for outcome in OUTCOMES:
                numbers = effect(tables[grid], same, outcome).numbers
                rows.append([name, f"effect {same}", outcome, *numbers])
    return pd.DataFrame(rows, columns=COLUMNS)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """Of each grid the networks, and the effects in points."""
    axes = fig.subplots(1, 4, width_ratios=(1, 0.9, 1, 0.9))
    for place, (name, part) in enumerate(frame.groupby("networks", sort=False)):
        plane, effects = axes[2 * place : 2 * place + 2]
        for kind, look in HOW.items():
            here = part[(part["row"] == "network") & (part["what"] == kind)]
            plane.scatter(here["value"], here["low"], 9, color=look.color, marker=look.marker)
        plane.set(xlabel=r"$\sqrt{S}$", ylabel="MLS")
        plane.set_title(str(name), loc="left")
        for shift, (same, look) in zip((0.12, -0.12), LOOKS.items(), strict=True):
            rows = part[part["row"] == f"effect {same}"].set_index("what").loc[[*SHOWN]]
            y = shift - np.arange(len(SHOWN))
            style.interval(effects, rows["value"], rows["low"], rows["high"], y, look)
        effects.axvline(0, color="0.6", lw=0.7, zorder=0.5)
        effects.set_yticks(-np.arange(len(SHOWN)), [*SHOWN.values()])
        effects.set(xlabel="fewer errors, points", ylim=(0.5 - len(SHOWN), 0.5))
        effects.grid(axis="x", lw=0.3, color="0.85")
    letters(list(axes))
    legend(fig, {**HOW, **{SAME[same]: look for same, look in LOOKS.items()}})
