"""The panels of Figures 5 to 8: networks by a measure and their generalization gap."""

from collections.abc import Iterable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from flatlab.papers.petzka2021._minima import AFTER
from flatlab.plotting.labels import in_words_of
from flatlab.plotting.style import correlation, few_labels, letters, limit, plain_numbers

TITLES = {
    "kappa": r"relative flatness $\kappa_{\mathrm{Tr}}$",
    "trace": "trace of the Hessian",
    "fisher_rao": "Fisher-Rao norm",
    "pac_bayes": "PAC-Bayes",
    "norm": "squared norm",
}
GAP_TITLE = "test loss − training loss"
MARKERS = {"sgd": "o", "adam": "^", "rmsprop": "s"}
PLAIN = {"color": "#0173b2", "ms": 2.6, "mew": 0, "alpha": 0.6, "ls": ""}


def panel(
    ax: Any,
    frame: pd.DataFrame,
    measure: str,
    title: str = "",
    detail: bool = True,
    logarithmic: bool = False,
) -> None:
    """The networks by one measure, with the line of least squares.

    detail: batch size as colour, optimizer as marker, the interval of rho and that within settings.
    logarithmic: whether the horizontal axis is.
    """
    here = frame[frame["measure"] == measure]
    runs, facts = here[here["row"] == "run"], here[here["row"] == "rho"].iloc[0]
    if not detail:
        ax.plot(runs["x"], runs["gap"], marker="o", **PLAIN)
    for (optimizer, marker), (size, color) in product(*looks(frame)) if detail else ():
        points = runs[(runs["optimizer"] == optimizer) & (runs["batch_size"] == size)]
        look = {**PLAIN, "color": color, "ms": 3.2, "alpha": 0.85}
        ax.plot(points["x"], points["gap"], marker=marker, **look)
    finite = runs["x"][np.isfinite(runs["x"])]
    if len(finite):
        x = np.linspace(finite.min(), finite.max(), 50)
        ax.plot(x, facts["slope"] * x + facts["intercept"], color="0.2", lw=1.2)
    others = {"within settings": facts["within"]} if detail else {}
    rho, *more = correlation(facts["rho"], facts["low"], facts["high"], others=others).split("\n")
    ax.set_title("\n".join([" ".join([rho, *more[:1]]), *more[1:]]) if detail else rho, loc="left")
    ax.set_xlabel(title or TITLES[measure.removesuffix(AFTER)])
    if logarithmic:
        ax.set_xscale("log")
        plain_numbers(ax)
        few_labels(ax.xaxis, finite)
    else:
        limit(ax, "x", runs["x"], ticks=3 if detail else 2)
        ax.ticklabel_format(axis="x", scilimits=(-2, 4), useMathText=True)
        ax.xaxis.get_offset_text().set_fontsize(6)


def looks(frame: pd.DataFrame) -> tuple[list[tuple[str, str]], list[tuple[int, Any]]]:
    """A marker for each optimizer; a colour for each batch size, in steps of a sequential map."""
    from matplotlib import colormaps

    sizes = sorted(frame["batch_size"].dropna().unique())
    colors = colormaps["viridis"](np.linspace(0.05, 0.9, len(sizes)))
    used = [(name, marker) for name, marker in MARKERS.items() if name in frame["optimizer"].values]
    return used, list(zip(sizes, colors, strict=True))


def legend(ax: Any, frame: pd.DataFrame) -> None:
    """What markers and colours stand for, in a panel of its own."""
    from matplotlib.lines import Line2D

    dots: dict[str, Any] = {"ls": "", "ms": 5, "mew": 0}
    optimizers, sizes = looks(frame)
    handles = [
        Line2D([], [], marker=marker, color="0.4", label=in_words_of(name), **dots)
        for name, marker in optimizers
    ]
    for size, color in sizes:
        handles.append(Line2D([], [], marker="o", color=color, label=f"batch {size:g}", **dots))
    ax.legend(handles=handles, loc="center", ncols=2, fontsize=7)
    ax.axis("off")


def detailed(
    fig: Any, frame: pd.DataFrame, measures: Iterable[str], logarithmic: bool = False
) -> None:
    """Two rows of panels, the last one with the legend."""
    *axes, last = fig.subplots(2, 3, sharey=True).flat
    for ax, measure in zip(axes, measures, strict=True):
        panel(ax, frame, measure, logarithmic=logarithmic)
    for ax in (axes[0], axes[3]):
        ax.set_ylabel(GAP_TITLE)
    letters(axes)
    legend(last, frame)
