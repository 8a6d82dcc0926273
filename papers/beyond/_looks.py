"""Colours of the papers, for the figures of the joint grids; they are drawn 180 mm wide."""

from typing import Any

from flatlab.lab.figures.labels import label_of
from flatlab.lab.figures.render import Settings
from flatlab.papers.beyond._joint import PICTURED
from flatlab.papers.beyond.measures import PAPERS

COLORS = {
    "chen": "#0173b2",
    "macdonald": "#de8f05",
    "petzka": "#029e73",
    "andriushchenko": "#cc78bc",
    "jiang": "#949494",
}
"""By paper, in seaborn's colour-blind palette."""

SMALL = 6
"""The smallest print, in points."""


def colour_labels(ax: Any, names: list[str], figure: Settings) -> None:
    """Name the measures at the vertical axis, each in the colour of its paper."""
    ax.set_yticklabels([label_of(figure, name) for name in names], fontsize=SMALL)
    for label, name in zip(ax.get_yticklabels(), names, strict=True):
        label.set_color(COLORS[PICTURED[name].paper])


def legend_of_papers(fig: Any, *others: Any) -> None:
    """A line above all panels: the colours of the papers, then other handles."""
    from matplotlib.patches import Patch

    handles = [Patch(color=color, label=PAPERS[key]) for key, color in COLORS.items()]
    place = {"loc": "outside upper left", "ncols": 5, "fontsize": SMALL, "handlelength": 1}
    fig.legend(handles=[*handles, *others], **place)
