"""andriushchenko2023, Figure 1: adaptive sharpness of a linear model whose weights are scaled."""

from typing import Any

import pandas as pd
import xarray as xr

from flatlab.plotting.render import Settings, Tables
from flatlab.plotting.style import Look, legend, letters
from flatlab.tables.selection import through_training

PANELS = {
    "ball": r"$\|\delta\|_2 \leq \rho \|w\|_2$",
    "adaptive-l2": r"$\|\delta / |w|\|_2 \leq \rho$",
    "adaptive-linf": r"$\|\delta / |w|\|_\infty \leq \rho$",
}
"""By neighbourhood."""

TRAINING = "training"
LOOKS = {
    "0.1": Look("#7fb9da", "o"),
    "0.25": Look("#2b7bba", "s"),
    "0.5": Look("#08306b", "D"),
    "normalized": Look("#d55e00", "", "--"),
    "loss": Look("#222222", "^", ":"),
}
WORDS = {"normalized": r"every $\rho$, logits normalized", "loss": "cross-entropy"}
COLUMNS = ["panel", "line", "x", "mean", "least", "largest", "networks"]


def frame(figure: Settings, tables: Tables, correlations: Tables) -> pd.DataFrame:
    """A point of a line per row: mean, least and largest over the networks, and their number.

    x: the factor, in panels by neighbourhood, or the step of gradient descent.
    """
    table = through_training(tables["linear-grid"], followed=False).sel(samples="train")
    if not table.sizes["run"]:
        return pd.DataFrame(columns=COLUMNS)
    end = table.isel(checkpoint=-1)
    factors = end["weight_factor"].max("run").values  # the same for all runs
    lines: list[tuple[str, str, Any, xr.DataArray]] = []
    for name in PANELS:
        here = end["scaled_worst_sharpness"].sel(neighbourhood=name)
        plain = here.sel(logits="plain")
        lines += [(name, str(r), factors, plain.sel(radius=r)) for r in here["radius"].values]
        lines.append((name, "normalized", factors, here.sel(logits="normalized").max("radius")))
    steps = table["checkpoint"].values
    here = table["worst_sharpness"].sel(neighbourhood="ball", logits="plain")
    lines += [(TRAINING, str(r), steps, here.sel(radius=r)) for r in here["radius"].values]
    lines.append((TRAINING, "loss", steps, table["train_loss"]))
    parts = []
    for panel, line, x, values in lines:
        over = (values.mean("run"), values.min("run"), values.max("run"))
        content = (panel, line, x, *(part.values for part in over), values.sizes["run"])
        parts.append(pd.DataFrame(dict(zip(COLUMNS, content, strict=True))))
    return pd.concat(parts, ignore_index=True)


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per neighbourhood, and one of the training."""
    axes = fig.subplots(2, 2)
    for ax, panel in zip(axes.flat, [*PANELS, TRAINING], strict=True):
        here = frame[frame["panel"] == panel]
        for line, look in LOOKS.items():
            points = here[here["line"] == line]
            if panel == TRAINING:
                points = points[points["x"] > 0]  # the axis is logarithmic
            if points.empty:
                continue
            ax.plot(points["x"], points["mean"], ms=2.5, **look.options)
            band = (points[name] for name in ("x", "least", "largest"))
            ax.fill_between(*band, color=look.color, alpha=0.3)
        ax.grid(lw=0.3, color="0.85")
        ax.set(xlabel="factor on the trained weights", ylabel="worst-case sharpness (loss)")
        ax.set_xscale("log", base=10 if panel == TRAINING else 2)
        ax.set_title(PANELS.get(panel, ""), loc="left")
        if panel != TRAINING:
            ax.axvline(1, color="0.6", lw=0.7, zorder=0.5)
    last = axes[-1, -1]
    last.set(yscale="log", xlabel="step of gradient descent", ylabel="worst-case sharpness, loss")
    last.set_title(PANELS["ball"] + ", through training", loc="left")
    letters(axes.flat)
    drawn = {*frame["line"]}
    names = {
        WORDS.get(line, rf"$\rho$ = {line}"): look for line, look in LOOKS.items() if line in drawn
    }
    legend(fig, names)
