"""petzka2021, Figure 8: relative flatness of another layer."""

from typing import Any

import pandas as pd

from flatlab.papers.petzka2021 import _minima, _panels
from flatlab.plotting.render import Settings, Tables
from flatlab.plotting.style import letters

SHOWN = {"kappa_before_last": "layer before the last", "kappa": "last layer"}


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """Rows of `_minima.frame`."""
    return _minima.frame(tables[_minima.GRID], SHOWN)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """Both layers, and the legend."""
    *axes, last = fig.subplots(1, 3, sharey=True)
    for ax, (measure, layer) in zip(axes, SHOWN.items(), strict=True):
        _panels.panel(ax, frame, measure, rf"$\kappa_{{\mathrm{{Tr}}}}$, {layer}")
    axes[0].set_ylabel(_panels.GAP_TITLE)
    letters(axes)
    _panels.legend(last, frame)
