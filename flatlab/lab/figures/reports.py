"""Pictures of reports: quantities by layer, spectra, densities, landscapes, barriers, curves.

Each kind has two pure functions, as figures do: a frame selects what is shown of a report, one row
per point, and becomes the CSV; a drawing of a panel sees nothing but that frame. Several reports
are drawn beside each other, by the names that they are given.
"""

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.core.schema import PlanError, closest
from flatlab.lab.figures.labels import with_units
from flatlab.lab.figures.render import files_of
from flatlab.lab.figures.style import COLORS, MAP
from flatlab.lab.plan.declarations import labels_of

Reports = Mapping[str, xr.Dataset]
"""Reports by name."""
LETTERS_PER_INCH = 13
"""Of a legend or a title, at the size of letters in these pictures."""
NUMBERED = 12
"""Networks up to which the barriers are written into the matrix."""
ENDS = {"largest": "o", "smallest": "v"}
"""Markers of eigenvalues by the end of the spectrum."""
ABOUT = re.compile(r"samples_|(finite|layers_left_out)$|.*_(residual|products|converged)$")
"""Quantities that say how others were measured."""


# ---- what is shown of a report


def _spectrum(report: xr.Dataset) -> pd.DataFrame:
    """Eigenvalues with residuals, by block and matrix."""
    parts = []
    for end, dim in (("largest", "rank"), ("smallest", "rank_from_below")):
        if (name := f"{end}_eigenvalue") in report:
            named = {dim: "rank", name: "value", f"{end}_residual": "residual"}
            both = report[[name, f"{end}_residual"]].to_dataframe().reset_index()
            both = both.rename(columns=named).astype({"rank": int})
            parts.append(both.assign(end=end, units=report[name].attrs.get("units", "")))
    columns = ["block", "matrix", "end", "rank", "value", "residual", "units"]
    return pd.concat(parts)[columns].dropna(subset="value")


def _density(report: xr.Dataset) -> pd.DataFrame:
    """Spectral densities, by block and matrix."""
    names = ["density_at", "spectral_density", "spectral_density_error", "density_width"]
    named = dict(zip(names, ["eigenvalue", "density", "error", "width"], strict=True))
    frame = report[names].to_dataframe().reset_index().rename(columns=named)
    frame = frame.assign(units=report["density_at"].attrs.get("units", ""))
    return frame[["block", "matrix", *named.values(), "units"]]


def _landscape(report: xr.Dataset) -> pd.DataFrame:
    """The loss on lines or planes: first, second (of planes), loss, accuracy (if known).

    Places of networks are rows with `network` and without a loss.
    """
    axes = [dim for dim in ("first", "second") if dim in report.dims]
    values = report[[n for n in ("loss", "accuracy") if n in report]]
    values = values.drop_vars([n for n in values.coords if n not in axes])
    places = pd.DataFrame({axis: report[f"network_{axis}"].values for axis in axes})
    return pd.concat(
        [values.to_dataframe().reset_index(), places.assign(network=range(len(places)))]
    )


def _run(report: xr.Dataset) -> pd.DataFrame:
    """What a tracker has measured, along training: numbers of a network, the first of several."""
    parts = []
    for quantity, array in report.data_vars.items():
        along = set(array.dims) - {"block", "matrix", "rank"} == {"step"}
        if along and not ABOUT.match(str(quantity)):
            values = array.isel({dim: 0 for dim in array.dims if dim != "step"}).values
            about = {"quantity": str(quantity), "units": array.attrs.get("units", "")}
            parts.append(pd.DataFrame({**about, "step": array["step"].values, "value": values}))
    return pd.concat(parts)


def _barriers(report: xr.Dataset) -> pd.DataFrame:
    """Barriers of pairs."""
    pairs = report[["barrier", "highest_at"]].to_dataframe().reset_index()
    columns = ["network", "other", "barrier", "highest_at"]
    return pairs[columns].assign(units=report["barrier"].attrs.get("units", ""))


def _layers(report: xr.Dataset) -> pd.DataFrame:
    """Quantities that have a value per layer, in the order of the network."""
    columns = ["quantity", "units", "layer", "value"]
    rows = [
        (str(name), array.attrs.get("units", ""), str(layer), float(value))
        for name, array in report.items()
        if array.dims == ("layer",)
        for layer, value in zip(array["layer"].values, array.values, strict=True)
    ]
    return pd.DataFrame(rows, columns=columns)


# ---- how a panel is drawn: its axes, its rows, and the whole frame


def _colors(frame: pd.DataFrame) -> dict[str, str]:
    """The colour of each report, the same in all panels."""
    names = dict.fromkeys(frame["report"])
    return {name: COLORS[n % len(COLORS)] for n, name in enumerate(names)}


def _colored(rows: pd.DataFrame, frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    colors = _colors(frame)
    return ((colors[str(name)], part) for name, part in rows.groupby("report", sort=False))


def _draw_spectrum(ax: Any, rows: pd.DataFrame, frame: pd.DataFrame) -> None:
    """Eigenvalues by rank, with bars as long as their residuals."""
    for color, part in _colored(rows, frame):
        for end, points in part.groupby("end", sort=False):
            look = {"fmt": ENDS[str(end)], "color": color, "elinewidth": 0.8, "lw": 0, "ms": 3}
            ax.errorbar(points["rank"], points["value"], points["residual"], **look)
    _logarithmic(ax, rows["value"], 20)
    label = with_units("eigenvalue", rows["units"].iloc[0])
    ax.set(xlabel="rank from its end of the spectrum", ylabel=label)


def _draw_density(ax: Any, rows: pd.DataFrame, frame: pd.DataFrame) -> None:
    """The density on a logarithmic axis, with its standard error."""
    least = 1e-6 * rows["density"].max()
    for color, part in _colored(rows, frame):
        look = {"color": color}
        ax.plot(part["eigenvalue"], part["density"].clip(lower=least), lw=0.9, **look)
        ends = [(part["density"] + sign * part["error"]).clip(lower=least) for sign in (-1, 1)]
        ax.fill_between(part["eigenvalue"], *ends, alpha=0.25, lw=0, **look)
    units = rows["units"].iloc[0]
    label = with_units("density", f"1/({units})" if units else "")
    ax.set(yscale="log", ylim=(least, None), ylabel=label)
    ax.set_xlabel(with_units("eigenvalue", units))


def _draw_line(ax: Any, rows: pd.DataFrame, frame: pd.DataFrame) -> None:
    """The loss along lines, with the networks as points."""
    for color, part in _colored(rows, frame):
        line, networks = part[part["network"].isna()], part[part["network"].notna()]
        ax.plot(line["first"], line["loss"], color=color, lw=1)
        at = line.set_index("first")["loss"]
        nearest = [at.iloc[abs(at.index - place).argmin()] for place in networks["first"]]
        ax.plot(networks["first"], nearest, "o", color=color, ms=3.5)
    ax.set(xlabel="place on the line", ylabel="loss")


def _draw_plane(ax: Any, rows: pd.DataFrame, frame: pd.DataFrame) -> None:
    """Contours of the loss, with the networks as points."""
    from matplotlib.colors import LogNorm

    plane, networks = rows[rows["network"].isna()], rows[rows["network"].notna()]
    grid = plane.pivot_table(index="second", columns="first", values="loss", dropna=False)
    low, high = np.nanmin(grid.values), np.nanmax(grid.values)
    wide = low > 0 and high > 20 * low
    levels = np.geomspace(low, high, 20) if wide else np.linspace(low, high or 1, 20)
    scale = {"norm": LogNorm(low, high)} if wide else {}
    drawn = ax.contourf(grid.columns, grid.index, grid.values, levels, cmap=MAP, **scale)
    ax.contour(drawn, colors="white", linewidths=0.3, alpha=0.6)
    ax.plot(networks["first"], networks["second"], "o", color="white", mec="0.15", ms=4)
    for n, place in enumerate(zip(networks["first"], networks["second"], strict=True)):
        if len(networks) > 1:
            ax.annotate(str(n), place, (4, 3), textcoords="offset points", color="white")
    ax.set(xlabel="first direction", ylabel="second direction")
    ax.set_box_aspect(1)
    ax.locator_params(nbins=5)
    bar = ax.figure.colorbar(drawn, ax=ax, shrink=0.8, format="%.3g", ticks=levels[::3])
    bar.set_label("loss")


def _draw_run(ax: Any, rows: pd.DataFrame, frame: pd.DataFrame) -> None:
    """The value of a quantity along training."""
    for color, part in _colored(rows, frame):
        ax.plot(part["step"], part["value"], "o-", color=color, lw=0.8, ms=2.5)
    ax.set(xlabel="step", ylabel=with_units("", rows["units"].iloc[0]))


def _draw_barriers(ax: Any, rows: pd.DataFrame, frame: pd.DataFrame) -> None:
    """A matrix of pairs, all on one scale, with numbers if there are few."""
    grid = rows.pivot_table(index="network", columns="other", values="barrier", dropna=False)
    names = list(dict.fromkeys(rows["network"]))
    values = grid.loc[names, names].values
    high = float(np.nanmax(frame["barrier"])) or 1.0
    drawn = ax.imshow(values, cmap=MAP, vmin=0, vmax=high)
    ax.grid(visible=False)
    ax.set_xticks(range(len(names)), names)
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel="other network", ylabel="network")
    for (row, column), value in np.ndenumerate(values) if len(names) <= NUMBERED else ():
        text = {"ha": "center", "va": "center", "fontsize": 6}
        color = "white" if value < 0.6 * high else "0.1"
        ax.text(column, row, f"{value:.2g}", color=color, **text)
    ax.figure.colorbar(drawn, ax=ax, shrink=0.8).set_label("excess loss")


def _draw_layers(ax: Any, rows: pd.DataFrame, frame: pd.DataFrame) -> None:
    """One quantity by layer."""
    layers = list(dict.fromkeys(rows["layer"]))
    for color, part in _colored(rows, frame):
        at = [layers.index(layer) for layer in part["layer"]]
        ax.plot(at, part["value"], "o-", color=color, ms=3, lw=0.9)
    _logarithmic(ax, rows["value"], 5)
    crowded = len(layers) * max(map(len, layers)) > 30
    turned = {"rotation": 90 if len(layers) > 12 else 40, "ha": "right", "va": "center"}
    ax.set_xticks(range(len(layers)), layers, rotation_mode="anchor", **turned if crowded else {})
    ax.set(xlabel="layer", ylabel=with_units("", rows["units"].iloc[0]))


def _logarithmic(ax: Any, values: pd.Series, span: float) -> None:
    """A logarithmic vertical axis where positive values span so much."""
    if values.min() > 0 and values.max() > span * values.min():
        ax.set_yscale("log")


# ---- pictures


class Kind(NamedTuple):
    """A kind of picture.

    frame: what is shown of a report.
    draw: a panel.
    needs: a variable and a dimension that a report must have.
    by: the columns of whose values each combination has a panel.
    width: of a panel, in inches.
    across: panels side by side, at most.
    """

    frame: Callable[[xr.Dataset], pd.DataFrame]
    draw: Callable[[Any, pd.DataFrame, pd.DataFrame], None]
    needs: tuple[str, str]
    by: tuple[str, ...]
    width: float = 2.4
    across: int = 3


MATRICES = ("matrix", "block")
KINDS = {
    "spectrum": Kind(_spectrum, _draw_spectrum, ("", "rank"), MATRICES),
    "density": Kind(_density, _draw_density, ("spectral_density", "point"), MATRICES),
    "landscape": Kind(_landscape, _draw_line, ("loss", "first"), ()),
    "barriers": Kind(_barriers, _draw_barriers, ("barrier", "other"), ("report",), 2.8),
    "run": Kind(_run, _draw_run, ("", "step"), ("quantity",)),
    "layers": Kind(_layers, _draw_layers, ("", "layer"), ("quantity",)),
}
PLANES = Kind(_landscape, _draw_plane, ("loss", "second"), ("report",), 3.5, 2)


def kinds_of(report: xr.Dataset) -> list[str]:
    """The kinds of pictures that a report has."""
    known = {"", *map(str, report.data_vars)}
    if "step" in report.dims:
        return ["run"]
    return [n for n, k in KINDS.items() if k.needs[0] in known and k.needs[1] in report.dims]


def frame_of(kind: str, reports: Reports, quantities: Sequence[str] = ()) -> pd.DataFrame:
    """What a picture shows.  quantities: those that are drawn; all if empty.

    Raises `PlanError` where a report has no such picture, or no such quantity.
    """
    if kind not in KINDS:
        raise PlanError(f"unknown picture {kind!r}; {closest(kind, list(KINDS))}")
    if quantities and "quantity" not in KINDS[kind].by:
        raise PlanError("this picture has no quantities to choose from; leave them out")
    parts = []
    for name, report in reports.items():
        if kind not in kinds_of(report):
            has = ", ".join(kinds_of(report)) or "none"
            raise PlanError(f"{name} has no picture {kind}; those it has: {has}")
        frame = KINDS[kind].frame(report)
        frame.insert(0, "report", name)
        known = list(dict.fromkeys(frame["quantity"])) if quantities else []
        for quantity in quantities:
            if quantity not in known:
                raise PlanError(f"{name} has no {quantity!r} to draw; {closest(quantity, known)}")
        chosen = [frame[frame["quantity"] == quantity] for quantity in quantities]
        parts.append(pd.concat(chosen) if chosen else frame)
    if kind == "landscape" and len({"second" in part for part in parts}) > 1:
        raise PlanError("lines and planes are not drawn in one picture; draw each by itself")
    return pd.concat(parts).reset_index(drop=True)


def pictures(kind: str, reports: Reports, quantities: Sequence[str] = ()) -> dict[str, bytes]:
    """The files of a picture by extension: pdf, svg, png, and csv of what is drawn.

    kind: one of `KINDS`.
    reports: by name; several are drawn beside each other.
    quantities: of a run or by layer, those that are drawn; all if empty.

    Raises `PlanError` as `frame_of` does.
    """
    frame = frame_of(kind, reports, quantities)
    how = PLANES if kind == "landscape" and "second" in frame else KINDS[kind]
    count = len(frame[list(how.by)].drop_duplicates()) if how.by else 1
    across = min(count, how.across)
    height = 0.5 + 2.2 * -(-count // across) + 0.5 * (count == 1)
    size = max(4.0, how.width * across), height
    return files_of(frame, {lambda fig: draw(fig, frame, how): size})


def draw(fig: Any, frame: pd.DataFrame, kind: Kind) -> None:
    """A panel for each combination of the kind's columns, titled by those that vary."""
    parts = list(frame.groupby(list(kind.by), sort=False)) if kind.by else [((), frame)]
    columns = min(len(parts), kind.across)
    axes = fig.subplots(-(-len(parts) // columns), columns, squeeze=False).ravel()
    for ax in axes[len(parts) :]:
        ax.remove()
    varying = [n for n, c in enumerate(kind.by) if len(set(frame[c])) > 1 or len(kind.by) == 1]
    width = int(LETTERS_PER_INCH * fig.get_figwidth() / columns * 0.9)
    for ax, (key, rows) in zip(axes, parts, strict=False):
        names = [str(key[n]) for n in varying]
        labels = labels_of(names)
        words = " of ".join(labels.get(name, name.replace("_", " ")) for name in names)
        ax.set_title(textwrap.fill(words, width), loc="left")
        ax.grid(alpha=0.5, lw=0.4)
        kind.draw(ax, rows, frame)
    _legend(fig, {} if kind.by == ("report",) else _colors(frame), frame)


def _legend(fig: Any, colors: Mapping[str, str], frame: pd.DataFrame) -> None:
    """Above the panels: the reports if there are several, and the ends of a spectrum."""
    from matplotlib.lines import Line2D

    ends = list(dict.fromkeys(frame.get("end", ())))
    how: dict[str, Any] = {"color": "0.35", "lw": 0, "ms": 3}
    lines = [Line2D([], [], color=c, label=n) for n, c in colors.items() if len(colors) > 1]
    lines += [Line2D([], [], marker=ENDS[n], label=n, **how) for n in ends if len(ends) > 1]
    if lines:
        longest = max(len(str(line.get_label())) for line in lines) + 6
        columns = int(LETTERS_PER_INCH * fig.get_figwidth() // longest)
        where = {"loc": "outside upper left", "ncols": max(1, min(columns, len(lines)))}
        fig.legend(handles=lines, **where)
