"""Template `Intervals`: Pearson's correlations of pairs, one below the other, with intervals.

seaborn's pointplot would compute intervals with a bootstrap of its own.
"""

import itertools
from typing import Any

import numpy as np
import pandas as pd

from flatlab.lab.figures import labels
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import KINDS, from_minus_one_to_one, interval, legend, letters
from flatlab.lab.tables.networks import ResultTables


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """A correlation with its interval, and the number of its networks, per row.

    kind: `pooled`, over all networks, `within` settings, or `adjusted` for the training loss.  A
    pair has no value where one of its quantities was not measured in an experiment.
    """
    rows = []
    columns = [
        tuple(figure["aliases"].get(name, name) for name in pair) for pair in figure["pairs"]
    ]
    titles = labels.headings(tables.tables)
    for experiment, networks in tables.items():
        result = networks.drawn_correlations(itertools.chain(*columns))
        for kind in KINDS:
            known = zip(figure["pairs"], columns, result.of_pairs(kind, columns), strict=True)
            rows += [
                [titles[experiment], kind, *pair, *numbers, result.runs_used(*columns_of)]
                for pair, columns_of, numbers in known
            ]
    header = ["experiment", "kind", "x", "y", "rho", "low", "high", "runs"]
    return pd.DataFrame(rows, columns=header)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A line per pair, below the quantity that it shares with the others of its group."""
    pairs = figure["pairs"]
    groups = list(dict.fromkeys(first for first, _ in pairs))
    places = np.array([-n - 1.3 * groups.index(first) for n, (first, _) in enumerate(pairs)])
    heads = {first: place + 1 for place, (first, _) in [*zip(places, pairs, strict=True)][::-1]}
    experiments = list(dict.fromkeys(frame["experiment"]))
    axes = fig.subplots(1, len(experiments), sharex=True, sharey=True, squeeze=False)[0]
    for experiment, ax in zip(experiments, axes, strict=True):
        rows = frame[frame["experiment"] == experiment]
        # a point and a bar per correlation, its kinds one above the other
        for shift, (kind, (_, look)) in zip((0.25, 0, -0.25), KINDS.items(), strict=True):
            here, y = rows[rows["kind"] == kind], places + shift
            interval(ax, here["rho"], here["low"], here["high"], y, look)
        for place, rho in zip(places, rows["rho"][rows["kind"] == "pooled"], strict=True):
            if np.isnan(rho):
                ax.text(0, place, "undefined", ha="center", va="center", color="0.5")
        ax.set_title(experiment, loc="left")
        from_minus_one_to_one(ax, r"Pearson's $\rho$")
        ax.set_ylim(places[-1] - 0.7, places[0] + 1.5)
    names = [labels.label_of(figure, second) for _, second in pairs]
    names += [f"{labels.label_of(figure, first)} and" for first in heads]
    axes[0].set_yticks([*places, *heads.values()], names, fontsize=6.5)
    for head in axes[0].get_yticklabels()[len(pairs) :]:
        head.set_weight("bold")
    letters(axes)
    legend(fig, dict(KINDS.values()))
