"""Trend figures: how quantities move through training, mean and spread over the seeds.

One tidy table serves them all: rows `curve` (one checkpoint of one line) and rows `window` (where
the mean training loss of a setting falls below 1e-2, and interpolation begins).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.plotting.style import (
    BOUNDS,
    NAMES,
    SAMPLES,
    TITLES,
    Look,
    in_words,
    legend,
    look_of_settings,
)
from flatlab.tables.selection import (
    hyperparameters,
    interpolation_begins,
    measured,
    through_training,
)

NUMBERS = ("mean", "sd", "low", "high", "runs")
COLUMNS = ("setting", "samples", "layer", "quantity", "iteration", *NUMBERS)
LOGARITHMIC = {"train_loss", "logarithmic"}
"""Panels of what moves over orders of magnitude; the others have linear axes."""

CHEN2026 = ("test_accuracy", "nmls", "root_sharpness", "log_volume", "mls", "local_dimension")
CHEN2024 = ("train_loss", "test_accuracy", "root_sharpness", "log_volume", "g", "local_dimension")
ON_TEST_2026 = ("test_loss", "root_sharpness", "log_volume", "mls", "local_dimension")
ON_TEST_2024 = (
    "train_loss",
    "test_loss",
    "root_sharpness",
    "log_volume",
    "g",
    "local_dimension",
)
MACDONALD2023 = ("hessian_lambda_max", "softmax_jacobian_norm")
BOUND_LINES = tuple(BOUNDS)
"""What the figures of the papers show, in their order."""


def frame(
    table: xr.Dataset,
    quantities: Sequence[str],
    where: Mapping[str, Any] | None = None,
    samples: Sequence[str] = ("train",),
    windows: bool = True,
) -> pd.DataFrame:
    """Mean, standard deviation, band and number of runs of quantities at every checkpoint.

    where: the settings, as {"lr": 0.1}.  samples: the sample sets.  windows: whether to say
    where interpolation begins, of networks that are trained with squares.  Columns: row, `COLUMNS`;
    `samples` of a loss or an accuracy is the set that it is of, `layer` is empty where a quantity
    is one of the network. Where the checkpoints are log-spaced they begin at the first positive
    one, which is where a logarithmic axis can begin.
    """
    chosen = through_training(table, where)
    if log_spaced(chosen["checkpoint"].values):
        chosen = chosen.sel(checkpoint=chosen["checkpoint"].values > 0)
    settings = in_words(chosen)
    parts = [pd.DataFrame(columns=["row", *COLUMNS])]
    values = zip(*(chosen[key].values for key in hyperparameters(chosen)), strict=True)
    for setting, _ in sorted(dict(zip(settings, values, strict=True)).items(), key=lambda i: i[1]):
        runs = chosen.isel(run=[s == setting for s in settings])
        # What another setting's checkpoints leave empty is no gap of this one.
        runs = runs.isel(checkpoint=measured(runs).any("run").values)
        for quantity in quantities:
            for part in _curves(runs, quantity, samples):
                part.insert(0, "row", "curve")
                part.insert(1, "setting", setting)
                parts.append(part)
        begins = interpolation_begins(runs["train_loss"])
        if windows and math.isfinite(begins):
            window = {"row": ["window"], "setting": [setting], "iteration": [begins]}
            parts.append(pd.DataFrame(window))
    filled = [part for part in parts if len(part)] or parts
    return pd.concat(filled, ignore_index=True).reindex(columns=["row", *COLUMNS])


def draw(
    fig: Any,
    frame: pd.DataFrame,
    panels: Mapping[str, str],
    panel: str = "quantity",
    line: str = "setting",
    columns: int = 3,
    level: float | None = None,
    logarithmic: bool = False,
) -> dict[str, Any]:
    """A panel per value of the column `panel`, a line per value of the column `line`.

    panels: the values of `panel` with the titles of their panels.  line: setting, samples or
    quantity.  level: where to draw a horizontal line.  logarithmic: all vertical axes are, and one.
    Returns the axes by panel.
    """
    curves, windows = (frame[frame["row"] == row] for row in ("curve", "window"))
    windows = windows.drop_duplicates(["setting", "iteration"])
    looks = _looks(line, curves[line])
    rows = -(-len(panels) // columns)
    axes = list(fig.subplots(rows, columns, squeeze=False, sharey=logarithmic).flat)
    every = sorted(set(curves["iteration"]))
    for number, ax in enumerate(axes):
        if number >= len(panels):
            ax.set_axis_off()
            continue
        key, title = list(panels.items())[number]
        here = curves[curves[panel] == key]
        if (logarithmic or key in LOGARITHMIC) and (here["mean"] > 0).any():
            ax.set_yscale("log")
        for place, (name, look) in enumerate(looks.items()):
            _line(ax, here[here[line] == name], look, place)
        for begins, group in windows.groupby("iteration"):
            for place, setting in enumerate(group["setting"]):
                color = looks[setting].color if line == "setting" else "0.5"
                # where marks of several settings coincide, their dashes take turns
                dash = (4 * place, (3, 1 + 4 * (len(group) - 1)))
                ax.axvline(begins, color=color, lw=0.8, ls=dash, zorder=0.5)
        if level is not None:
            ax.axhline(level, color="0.2", lw=0.7, zorder=0.6)
        if not len(here) or not np.isfinite(here["mean"]).any():
            ax.text(0.5, 0.5, "no values", transform=ax.transAxes, ha="center", color="0.5")
        ax.set_title(title, loc="left")
        _vertical(ax, curves if logarithmic else here)
        unit = horizontal(ax, every)
    fig.supxlabel(unit, fontsize=8)
    _legend(fig, curves, looks, line, len(windows) > 0)
    return dict(zip(panels, axes, strict=False))


def draw_bounds(fig: Any, frame: pd.DataFrame) -> None:
    """The chain of bounds, one line each: on a linear axis, which shows the gaps between them,
    and on a logarithmic one, which shows those that lie close to each other.
    """
    panels = {"linear": "MLS and its bounds (output/input)", "logarithmic": "the same, logarithmic"}
    twice = pd.concat([frame.assign(axis=axis) for axis in panels], ignore_index=True)
    draw(fig, twice, panels, panel="axis", line="quantity", columns=2)


def log_spaced(checkpoints: Sequence[float] | np.ndarray) -> bool:
    """Whether the positive checkpoints are spaced more evenly in their logarithm."""
    positive = np.asarray(checkpoints, dtype=float)
    positive = positive[positive > 0]
    if len(positive) < 3:
        return False
    spacings = (np.diff(positive), np.diff(np.log(positive)))
    linear, logarithmic = (gaps.std() / gaps.mean() for gaps in spacings)
    return bool(logarithmic < linear)


def _curves(runs: xr.Dataset, quantity: str, samples: Sequence[str]) -> Iterator[pd.DataFrame]:
    """A curve per sample set and layer, where the quantity has them."""
    array = runs[quantity]
    if "samples" in array.dims:
        cuts = [(s, array.sel(samples=s)) for s in samples]
    else:
        cuts = [("train" if quantity.startswith("train") else "test", array)]
    for name, cut in cuts:
        layers = list(cut["layer"].values) if "layer" in cut.dims else [None]
        for layer in layers:
            values = cut if layer is None else cut.sel(layer=layer)
            numbers = _over_runs(values.transpose("run", "checkpoint").values)
            yield pd.DataFrame(
                {
                    "samples": name,
                    "layer": layer or "",
                    "quantity": quantity,
                    "iteration": runs["checkpoint"].values.astype(float),
                    **dict(zip(NUMBERS, numbers, strict=True)),
                }
            )


def _over_runs(values: np.ndarray) -> tuple[np.ndarray, ...]:
    """`NUMBERS` of the runs that have a value: (checkpoints,) each.

    values: (runs, checkpoints).  NaN are runs without a value; one run has no deviation. The band
    is one standard deviation around the mean, and no wider than the runs: no band of accuracies
    goes beyond 100 %, and none of losses below 0.
    """
    there = ~np.isnan(values)
    count = there.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(there, values, 0).sum(axis=0) / count
        squares = np.where(there, values - mean, 0) ** 2
        sd = np.sqrt(squares.sum(axis=0) / np.where(count > 1, count - 1, np.nan))
    low = np.maximum(mean - sd, np.where(there, values, np.inf).min(axis=0))
    high = np.minimum(mean + sd, np.where(there, values, -np.inf).max(axis=0))
    return mean, sd, low, high, count.astype(float)


def _looks(line: str, names: pd.Series) -> dict[str, Look]:
    """How the lines look that there are."""
    if line == "setting":
        return look_of_settings(names)
    known = SAMPLES if line == "samples" else BOUNDS
    return {name: look for name, look in known.items() if name in set(names)}


def _line(ax: Any, rows: pd.DataFrame, look: Look, place: int) -> None:
    """Mean with markers here and there, and the band around it."""
    drawn = ("iteration", "mean", "low", "high")
    x, mean, low, high = (rows[name].to_numpy(dtype=float) for name in drawn)
    step = max(1, len(x) // 7)
    there = np.isfinite(mean)
    before, after = np.append(False, there[:-1]), np.append(there[1:], False)
    # a value between two gaps has no line: its marker alone shows it
    marked = {*range(min(place, step - 1), len(x), step), *np.flatnonzero(there & ~before & ~after)}
    style = {"color": look.color, "ls": look.dash, "lw": 1.2, "marker": look.marker, "mew": 0}
    ax.plot(x, mean, ms=3.5, markevery=[int(index) for index in sorted(marked)], **style)
    if np.isfinite(low).any():
        ax.fill_between(x, low, high, color=look.color, alpha=0.18, lw=0)


def _vertical(ax: Any, rows: pd.DataFrame) -> None:
    """A logarithmic axis spans the means: a band may reach down to zero, where there is no end."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    if ax.get_yscale() == "linear":
        ax.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        ax.yaxis.get_major_formatter().set_useOffset(False)
        return
    positive = rows["mean"][(rows["mean"] > 0) & np.isfinite(rows["mean"])]
    if len(positive):
        ax.set_ylim(low := positive.min() / 1.5, high := positive.max() * 1.5)
        if high < 300 * low:  # powers of ten alone would be one or two
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
            ax.yaxis.set_minor_formatter(NullFormatter())


def horizontal(ax: Any, iterations: Sequence[float]) -> str:
    """The axis of iterations, the same in all panels. Returns what stands on it."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    if log_spaced(iterations):
        ax.set_xscale("log")
        ax.set_xlim(iterations[0] / 1.15, iterations[-1] * 1.15)
        ax.xaxis.set_major_locator(LogLocator(numticks=8))
        ax.xaxis.set_minor_formatter(NullFormatter())
        return "iteration"
    unit = 1000 if iterations and iterations[-1] >= 20_000 else 1
    ax.xaxis.set_major_locator(MaxNLocator(6))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / unit:g}"))
    return "iteration (thousands)" if unit > 1 else "iteration"


def _legend(
    fig: Any, curves: pd.DataFrame, looks: Mapping[str, Look], line: str, marks: bool
) -> None:
    """Lines by name with the number of their runs, and what the vertical marks are."""
    from matplotlib.lines import Line2D

    handles = []
    for name, look in looks.items():
        label = f"{NAMES.get(name, name)} ({_runs(curves['runs'][curves[line] == name])})"
        color, marker, dash = look
        handle = Line2D([], [], color=color, ls=dash, lw=1.2, marker=marker, ms=4.5, mew=0)
        handle.set_label(label)
        handles.append(handle)
    if marks:
        label = "training loss falls below 0.01"
        handles.append(Line2D([], [], color="0.4", ls=(0, (3, 2)), lw=0.8, label=label))
    legend(fig, handles)


def _runs(counts: pd.Series) -> str:
    """How many runs a line is the mean of: along it there may be fewer."""
    most = int(counts.max())
    fewest = int(counts[counts > 0].min()) if most else 0
    return f"{most} run{'s' if most != 1 else ''}" if fewest == most else f"{fewest} to {most} runs"


def titles(quantities: Sequence[str]) -> dict[str, str]:
    """Panels of one quantity each."""
    return {name: TITLES[name] for name in quantities}
