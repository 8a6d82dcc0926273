"""beyond, Figure 11: sharpness, sensitivity and generalization over settings drawn at random."""

from typing import Any

import pandas as pd

from flatlab.lab.figures.points import forest
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import Look, in_order, legend, letters
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond import _drawn as drawn
from flatlab.papers.beyond._drawn import EQUAL, GRID

SHARPNESS, MLS = "root_sharpness", "mls"
OTHERS = {
    "mls": "MLS",
    "nmls": "NMLS",
    "log_volume": "log volume",
    "generalization_gap": "gap of accuracies",
    "loss_gap": "gap of losses",
    "test_accuracy": "test accuracy",
    "test_loss": "test loss",
}
LOOKS = {"iterations": Look("#0173b2", "o", ""), "epochs": Look("#de8f05", "D", "")}
NUMBERS = ["value", "low", "high", "networks"]
COLUMNS = ["row", "equal", "batch_size", "x", "y", "value", "other", *NUMBERS[1:]]


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """Rows `network`: root sharpness (`value`) and MLS (`other`) of each that interpolates. Rows
    `rho`: a correlation with its interval.
    """
    networks = tables[GRID]
    rows: list[dict[str, Any]] = []
    for equal in EQUAL:
        columns, sizes = drawn.values(networks, equal, SHARPNESS, MLS)
        rows += [
            {"row": "network", "equal": equal, "batch_size": float(size), "value": x, "other": y}
            for size, x, y in zip(sizes, columns[SHARPNESS], columns[MLS], strict=True)
        ]
        pairs = [(x, y) for x in (SHARPNESS, MLS) for y in OTHERS if x != y]
        for (x, y), rho in zip(pairs, drawn.rhos(networks, equal, *pairs), strict=True):
            numbers = dict(zip(NUMBERS, rho.numbers, strict=True))
            rows.append({"row": "rho", "equal": equal, "x": x, "y": y, **numbers})
    return pd.DataFrame(rows, columns=COLUMNS)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """Networks on the left, their correlations on the right."""
    axes = fig.subplots(1, 3, width_ratios=(1, 0.9, 0.9))
    here = frame[(frame["row"] == "network") & (frame["equal"] == "iterations")]
    for size, look in in_order(sorted(set(here["batch_size"])), "batch_size").items():
        chosen = here[here["batch_size"] == size]
        axes[0].plot(chosen["value"], chosen["other"], ms=2.5, **look._replace(dash="").options)
    axes[0].set(xlabel=r"$\sqrt{S}$ (output/parameter)", ylabel="MLS (output/input)")
    axes[0].set_title("equal iterations; darker: smaller batches", loc="left")
    for x, ax in zip((SHARPNESS, MLS), axes[1:], strict=True):
        lines = {
            OTHERS[str(y)]: [*zip(LOOKS.values(), rhos[NUMBERS[:3]].to_numpy(), strict=True)]
            for y, rhos in frame[frame["x"] == x].groupby("y", sort=False)
        }
        forest(ax, lines, r"Pearson's $\rho$, 95 % interval")
        ax.set_title(r"with $\sqrt{S}$" if x == SHARPNESS else "with MLS", loc="left")
    letters(list(axes))
    legend(fig, {EQUAL[equal]: look for equal, look in LOOKS.items()})
