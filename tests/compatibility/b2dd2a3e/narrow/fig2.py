"""Figure 2: the error of the networks of my loop by their norm."""

from typing import Any

import pandas as pd

from flatlab.plotting.render import Settings, Tables
from flatlab.plotting.style import letters
from flatlab.tables.selection import end_of_training


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    end = end_of_training(tables["narrow-loop"])
    return pd.DataFrame({name: end[name].values for name in ("run", "narrow_norm", "my_error")})


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    ax = fig.subplots()
    ax.plot(frame["narrow_norm"], frame["my_error"], "o")
    ax.set(xlabel="norm", ylabel="error")
    letters([ax])
