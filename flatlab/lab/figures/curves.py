"""Template `Curves`: quantities through training, for each seed and over them.

A thin line per network or seed and a bold one for these. seaborn's lineplot joins the points on
both sides of a checkpoint without a value; here that is a gap.

A row `curve` of the frame is one checkpoint of one line; a row `window` says where the mean
training loss of a setting falls below 1e-2 and interpolation begins.
"""

import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.lab.figures import style
from flatlab.lab.figures.labels import NAMES, in_words, label_of, title_of, without_common
from flatlab.lab.figures.render import Settings
from flatlab.lab.figures.style import Look
from flatlab.lab.tables import selection
from flatlab.lab.tables.curves import series
from flatlab.lab.tables.networks import Networks, ResultTables

NUMBERS = ["median", "mean", "sd", "runs"]
COLUMNS = ["row", "setting", "samples", "layer", "quantity", "iteration", *NUMBERS]
SEED = "seed "
"""The columns with the values of one seed begin with it."""

LOGARITHMIC = {"train_loss"}
"""Quantities that span orders of magnitude; the panels of the others have linear axes."""

MARK = Look("0.4", "", (0, (2, 1.3)))
"""The vertical marks in the legend."""


def frame(figure: Settings, tables: ResultTables) -> pd.DataFrame:
    """The columns of `spread`: those of the settings and samples that are declared."""
    ((_, networks),) = tables.items()
    options = {key: figure[key] for key in ("quantities", "samples", "marks", "named")}
    return spread(networks.where(**figure["where"]), **options)


def spread(
    networks: Networks,
    quantities: Sequence[str],
    samples: Sequence[str] = ("train",),
    marks: bool = True,
    named: Sequence[str] = (),
) -> pd.DataFrame:
    """Median, mean, standard deviation and number of runs of quantities at every checkpoint.

    samples: the sample sets.  marks: whether to add the rows `window`, which networks trained with
    squared errors have.  named: as for `in_words`.
    Columns: `COLUMNS`, then the values of each seed, `seed 0` and so on;
    `samples` of a loss or an accuracy is the set on which it is computed, `layer` is empty for a
    quantity of the whole network. Log-spaced checkpoints begin at the first positive one, since a
    logarithmic axis has no zero.
    """
    for name, each in product(quantities, samples):
        series(networks.key, networks.runs, name, each)  # raises for what the table does not have
    chosen = networks.curves.followed
    if style.log_spaced(chosen["checkpoint"].values):
        chosen = chosen.sel(checkpoint=chosen["checkpoint"].values > 0)
    settings = in_words(chosen, named)
    levels = (chosen[key].values for key in chosen.attrs["hyperparameters"])
    values = zip(*levels, settings, strict=True)
    parts = []
    for setting in dict.fromkeys(setting for *_, setting in sorted(values)):
        runs = chosen.isel(run=[s == setting for s in settings])
        # a checkpoint that only another setting has is not a gap in this one
        runs = runs.isel(checkpoint=selection.has_values(runs).any("run").values)
        parts += [_curves(runs[name], samples).assign(setting=setting) for name in quantities]
        begins = selection.interpolation_begins(runs["train_loss"])
        if marks and math.isfinite(begins):
            window = {"row": ["window"], "setting": setting, "iteration": begins}
            parts.append(pd.DataFrame(window))
    filled = [part for part in parts if len(part)] or [pd.DataFrame()]
    rows = pd.concat(filled, ignore_index=True)
    seeds = [name for name in rows if name not in COLUMNS and SEED in str(name)]
    return rows.reindex(columns=[*COLUMNS, *seeds])


def _curves(values: xr.DataArray, samples: Sequence[str]) -> pd.DataFrame:
    """A curve for each sample set and layer, where the quantity has them."""
    name, seeds = str(values.name), values["seed"].values
    values = values.reset_coords(drop=True)
    if "samples" in values.dims:
        values = values.sel(samples=list(samples))
    else:
        values = values.expand_dims(samples=["train" if name.startswith("train") else "test"])
    if "layer" not in values.dims:
        values = values.expand_dims(layer=[""])
    rows = _over_runs(values, seeds).to_dataframe(dim_order=["samples", "layer", "checkpoint"])
    rows = rows.reset_index().assign(row="curve", quantity=name)
    return rows.assign(iteration=rows["checkpoint"].astype(float))


def _over_runs(values: xr.DataArray, seeds: np.ndarray) -> xr.Dataset:
    """Each run, and median, mean, standard deviation and number of those that have a value.

    One run has no deviation; NaN is no value.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of no runs is NaN
        over = (values.median("run"), values.mean("run"), values.std("run", ddof=1))
    numbers = dict(zip(NUMBERS, (*over, values.count("run").astype(float)), strict=True))
    runs = {f"{SEED}{seed}": values.isel(run=place, drop=True) for place, seed in enumerate(seeds)}
    return xr.Dataset({**numbers, **runs})


def draw(fig: Any, frame: pd.DataFrame, figure: Settings) -> None:
    """A panel per quantity; or a panel per entry of `axes`, each with all quantities."""
    frame, looks = frame.copy(), {name: Look(*look) for name, look in figure["looks"].items()}
    options = {"line": figure["line"], "columns": figure["across"] or 3, "looks": looks}
    options["names"] = {**NAMES, **{name: label_of(figure, name) for name in figure["quantities"]}}
    options["logarithmic"] = {*LOGARITHMIC, *figure["logarithmic"]}
    panels = {name: title_of(figure, name) for name in figure["quantities"]}
    for name in (each for each in panels if each.endswith("_accuracy")):  # near 100 % nothing shows
        of = frame["quantity"] == name
        shown = [column for column in frame if column in NUMBERS[:2] or SEED in str(column)]
        frame.loc[of, shown] = 100 - frame.loc[of, shown]
        panels[name] = panels[name].replace("accuracy", "error")
        options["logarithmic"].add(name)
    if axes := figure["axes"]:
        frame = pd.concat([frame.assign(axis=title) for title in axes], ignore_index=True)
        panels = {title: title for title in axes}
        logarithmic = [title for title, kind in axes.items() if kind == "logarithmic"]
        options |= {"panel": "axis", "logarithmic": logarithmic}
    style.mark_clipped(draw_panels(fig, frame, panels, **options).values())


def draw_panels(
    fig: Any,
    frame: pd.DataFrame,
    panels: Mapping[str, str],
    panel: str = "quantity",
    *,
    line: str = "setting",
    columns: int = 3,
    logarithmic: Collection[str] = LOGARITHMIC,
    shared: bool | Literal["row"] = False,
    looks: Mapping[str, Look] | None = None,
    names: Mapping[str, str] = NAMES,
) -> dict[str, Any]:
    """A panel per value of the column `panel`, a line per value of the column `line`.

    panels: values of `panel` and the titles of their panels.
    line: setting, samples or quantity.
    logarithmic: the panels with a logarithmic vertical axis.
    shared: whether all panels, or those of a row, share one vertical axis.
    looks: of lines that look different from those in `style`.
    names: of lines in the legend, where they are no settings.
    Returns the axes by panel.
    """
    curves, windows = (frame[frame["row"] == row] for row in ("curve", "window"))
    windows = windows.drop_duplicates(["setting", "iteration"])
    known = {**style.SAMPLES, **style.BOUNDS, **(looks or {})}
    first = [] if line == "setting" else [name for name in known if name in {*curves[line]}]
    known = style.look_of_settings([*first, *curves[line]], known)
    columns = min(columns, len(panels))
    axes = list(
        fig.subplots(-(-len(panels) // columns), columns, squeeze=False, sharey=shared).flat
    )
    iterations = sorted(set(curves["iteration"]))
    for ax in axes[len(panels) :]:
        ax.set_axis_off()
    for number, ((key, title), ax) in enumerate(zip(panels.items(), axes, strict=False)):
        here = curves[curves[panel] == key]
        if key in logarithmic and (here["median"] > 0).any():
            ax.set_yscale("log")
        for place, (name, look) in enumerate(known.items()):
            _medians(ax, here[here[line] == name], look, place)
        _marks(ax, windows, known)
        if not np.isfinite(here["median"]).any():
            ax.text(0.5, 0.5, "no values", transform=ax.transAxes, ha="center", color="0.5")
        ax.set_title(title, loc="left")
        unit = style.of_iterations(ax, iterations)
        beside = [*panels][number - number % columns :][:columns] if shared == "row" else [*panels]
        rows = curves[curves[panel].isin(beside)] if shared else here
        shown = rows[rows["iteration"] >= ax.get_xlim()[0]]
        later = shown[shown["iteration"] > 0]
        if ax.get_yscale() == "log" and later["median"].min() > 10 * shown["median"].min():
            shown = later  # the start would take most of the height: it has an arrow
        style.of_medians(ax, shown["median"])
        if ax.get_yscale() == "linear":
            seeds = [name for name in shown if SEED in str(name)]
            style.span(ax, shown[["median", *seeds]].melt()["value"].astype(float), 1.0)
    style.letters(axes[: len(panels)] if len(panels) > 1 else [])
    fig.supxlabel(unit, fontsize=6.5)
    spare = next(iter(axes[len(panels) :]), None)
    style.legend(fig, spare=spare, **_entries(curves, line, known, names, marks=len(windows) > 0))
    return dict(zip(panels, axes, strict=False))


def _entries(
    curves: pd.DataFrame,
    line: str,
    looks: Mapping[str, Look],
    labels: Mapping[str, str],
    marks: bool,
) -> dict[str, Any]:
    """The title and the entries of the legend; where all lines have as many runs, once."""
    title, names = without_common(list(looks)) if line == "setting" else ("", {})
    names = names or {name: labels.get(name, name) for name in looks}
    counts = {name: style.counted(rows, "run") for name, rows in curves.groupby(line)["runs"]}
    if len({*counts.values()}) == 1:  # otherwise the caption says how many there are
        title += f" ({next(iter(counts.values()))} each)" * bool(title)
        counts = {}
    entries = {
        names[name] + (f" ({counts[name]})" if counts else ""): look for name, look in looks.items()
    }
    if marks:
        entries["training loss falls below 0.01"] = MARK
    return {"looks": entries, "title": title}


def _medians(ax: Any, rows: pd.DataFrame, look: Look, place: int) -> None:
    """A thin line per run and a bold one, with a few markers: their median, while half go on.

    place: the place of the line among the others, which shifts its markers.
    """
    x, median = (rows[name].to_numpy(float, copy=True) for name in ("iteration", "median"))
    for seed in (name for name in rows if str(name).startswith(SEED)):
        if rows[seed].notna().any():
            ax.plot(x, rows[seed], color=look.color, lw=0.35, alpha=0.5)
    going = np.flatnonzero(2 * rows["runs"] >= rows["runs"].max())
    median[going[-1] + 1 if len(going) else 0 :] = np.nan  # that of the few that go on jumps
    step = max(1, len(x) // 7)
    seen = np.isfinite(median)
    before, after = np.append(False, seen[:-1]), np.append(seen[1:], False)
    # only a marker shows a value between two gaps, which no line reaches
    marked = {*range(min(place, step - 1), len(x), step), *np.flatnonzero(seen & ~before & ~after)}
    options = {**look.options, "lw": 1.3, "ms": 2.5}
    ax.plot(x, median, markevery=[int(index) for index in sorted(marked)], **options)


def _marks(ax: Any, windows: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """Where interpolation begins, in the colour of the setting, or in grey of several."""
    for begins, group in windows.groupby("iteration"):
        [setting, *others] = group["setting"]
        color = looks[setting].color if setting in looks and not others else MARK.color
        ax.axvline(begins, color=color, lw=0.8, ls=MARK.dash, zorder=0.5)
