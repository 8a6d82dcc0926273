"""petzka2021, Figure 6: the measures of Figure 5 in detail."""

from typing import Any

import pandas as pd

from flatlab.papers.petzka2021 import _minima, _panels
from flatlab.papers.petzka2021.fig5 import frame
from flatlab.plotting.render import Settings

__all__ = ["draw", "frame"]


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per measure."""
    _panels.detailed(fig, frame, _minima.SHOWN)
