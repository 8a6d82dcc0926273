"""petzka2021, Figure 7: the measures of Figure 6 after the last layers were rescaled."""

from typing import Any

import pandas as pd

from flatlab.papers.petzka2021 import _minima, _panels
from flatlab.plotting.render import Settings, Tables

SHOWN = tuple(name + _minima.AFTER for name in _minima.SHOWN)


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """Rows of `_minima.frame`."""
    return _minima.frame(tables[_minima.GRID], SHOWN)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per measure, with a logarithmic horizontal axis."""
    _panels.detailed(fig, frame, SHOWN, logarithmic=True)
