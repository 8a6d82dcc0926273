"""Figure 2: the error of the networks of my loop by their norm."""

from typing import Any

import pandas as pd

from flatlab.lab.tables.networks import ResultTables


def frame(figure: dict[str, Any], tables: ResultTables) -> pd.DataFrame:
    networks = tables["narrow-loop"]
    return pd.DataFrame({name: networks.values(name) for name in ("narrow_norm", "my_error")})


def draw(fig: Any, frame: pd.DataFrame, figure: dict[str, Any]) -> None:
    ax = fig.subplots()
    ax.plot(frame["narrow_norm"], frame["my_error"], "o")
    ax.set(xlabel="norm", ylabel="error")
