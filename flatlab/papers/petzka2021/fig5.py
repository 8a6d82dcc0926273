"""petzka2021, Figure 5: five measures and the generalization gap."""

from typing import Any

import pandas as pd

from flatlab.papers.petzka2021 import _minima, _panels
from flatlab.plotting.render import Settings, Tables
from flatlab.plotting.style import letters


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """Rows of `_minima.frame`."""
    return _minima.frame(tables[_minima.GRID], _minima.SHOWN)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per measure with the same vertical axis, where the paper has two horizontal ones."""
    axes = fig.subplots(1, len(_minima.SHOWN), sharey=True)
    for ax, measure in zip(axes, _minima.SHOWN, strict=True):
        _panels.panel(ax, frame, measure, detail=False)
    axes[0].set_ylabel(_panels.GAP_TITLE)
    letters(axes)
