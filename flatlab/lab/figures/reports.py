"""Pictures of reports: quantities by layer, spectra, densities, landscapes, barriers, curves.

Each kind has two pure functions, as figures do: a frame selects what is shown, one row per point,
and becomes the CSV; a drawing sees nothing but that frame. `pictures` makes the files of one kind,
`by_layer` those of quantities by layer. Several reports are drawn beside each other, by the names
that they are given.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.core.schema import PlanError, closest
from flatlab.lab.figures.labels import WITHOUT_UNITS, title_of
from flatlab.lab.figures.render import FORMATS, STYLE, picture
from flatlab.lab.figures.style import COLORS, MAP
from flatlab.lab.plan.declarations import labels_of

Reports = Mapping[str, xr.Dataset]
"""Reports by name."""
ACROSS = 3
"""Panels side by side, at most."""
LETTERS_PER_INCH = 13
"""Of a legend or a title, at the size of letters in these pictures."""


def with_units(name: str, units: str) -> str:
    """The label of an axis: the name, and the units if they say more."""
    return f"{name} ({in_signs(units)})".strip() if units not in WITHOUT_UNITS else name


def in_signs(units: str) -> str:
    return units.replace("^2", "²")


def panels(
    fig: Any, frame: pd.DataFrame, by: Sequence[str], across: int = ACROSS
) -> list[tuple[Any, pd.DataFrame]]:
    """A panel for each combination of some columns, titled by those that vary."""
    parts = list(frame.groupby(list(by), sort=False))
    columns = min(len(parts), across)
    axes = fig.subplots(-(-len(parts) // columns), columns, squeeze=False).ravel()
    for ax in axes[len(parts) :]:
        ax.remove()
    varying = [n for n, column in enumerate(by) if len(frame[column].unique()) > 1 or len(by) == 1]
    width = int(LETTERS_PER_INCH * fig.get_figwidth() / columns * 0.9)
    for ax, (key, _) in zip(axes, parts, strict=False):
        title = " of ".join(str(key[n]).replace("_", " ") for n in varying)
        ax.set_title(textwrap.fill(title, width), loc="left")
        ax.grid(alpha=0.5, lw=0.4)
    return [(ax, rows) for ax, (_, rows) in zip(axes, parts, strict=False)]


def colored(rows: pd.DataFrame, frame: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each report with its colour, the same in all panels."""
    names = list(dict.fromkeys(frame["report"]))
    return [
        (COLORS[names.index(name) % len(COLORS)], part)
        for name, part in rows.groupby("report", sort=False)
    ]


def legend(
    fig: Any, frame: pd.DataFrame, title: str = "", markers: Mapping[str, str] | None = None
) -> None:
    """Above the panels: the headline, the names of the reports if there are several, markers.

    markers: what they stand for, with the marker of each.
    """
    from matplotlib.lines import Line2D

    names = list(dict.fromkeys(frame["report"]))
    colors = [COLORS[n % len(COLORS)] for n in range(len(names))] if len(names) > 1 else []
    lines = [Line2D([], [], color=c, label=n) for c, n in zip(colors, names, strict=False)]
    how: dict[str, Any] = {"color": "0.35", "lw": 0, "ms": 3}
    lines += [Line2D([], [], marker=m, label=n, **how) for n, m in (markers or {}).items()]
    if lines:
        longest = max(len(str(line.get_label())) for line in lines) + 6
        columns = int(LETTERS_PER_INCH * fig.get_figwidth() // longest)
        where = {"loc": "outside upper left", "ncols": max(1, min(columns, len(lines)))}
        fig.legend(handles=lines, title=title or None, alignment="left", **where)
    elif title:
        fig.suptitle(title, x=0.01, ha="left")


# ---- by layer

COLUMNS = ["report", "quantity", "layer", "value"]


def by_layer(reports: Reports, names: Sequence[str], title: str = "") -> dict[str, bytes]:
    """The files of a figure, by extension: a panel per quantity, layers in order of the network.

    reports: by name.
    names: quantities that have a value per layer.
    title: the headline; by default the title of the first report.

    Raises `PlanError` if a report has no such quantity.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    frame = _frame(reports, names)
    first = next(iter(reports.values()))
    units = {name: first[name].attrs.get("units", "") for name in names if name in first}
    words = {"labels": labels_of(names), "units": units}
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        across = min(3, len(names))
        size = (4.0 if across == 1 else 7.1, 1.2 + 2.2 * -(-len(names) // 3))
        fig: Any = Figure(figsize=size, layout="constrained")
        for ax, rows in panels(fig, frame, ["quantity"]):
            name = rows["quantity"].iloc[0]
            ax.set_title(textwrap.fill(title_of(words, name), 32), loc="left")
            _draw(ax, rows, frame)
        legend(fig, frame, title or first.attrs.get("title", ""))
        drawn = {extension: picture(fig, extension) for extension in FORMATS}
    return {"csv": frame.to_csv(index=False).encode(), **drawn}


def _draw(ax: Any, rows: pd.DataFrame, frame: pd.DataFrame) -> None:
    """One quantity by layer."""
    layers = list(dict.fromkeys(rows["layer"]))
    for look, part in colored(rows, frame):
        at = [layers.index(layer) for layer in part["layer"]]
        ax.plot(at, part["value"], "o-", color=look, ms=3, lw=0.9)
    low, high = rows["value"].min(), rows["value"].max()
    if low > 0 and high > 5 * low:
        ax.set_yscale("log")
    crowded = len(layers) * max(map(len, layers)) > 30
    turned = {"rotation": 90 if len(layers) > 12 else 40, "ha": "right", "va": "center"}
    ax.set_xticks(range(len(layers)), layers, rotation_mode="anchor", **turned if crowded else {})
    ax.set_xlabel("layer")
    if len(layers) > 24:
        ax.tick_params(axis="x", labelsize=4)


def _frame(reports: Reports, names: Sequence[str]) -> pd.DataFrame:
    rows = []
    for report, dataset in reports.items():
        known = [str(name) for name, each in dataset.items() if each.dims == ("layer",)]
        for name in names:
            if name not in known:
                raise PlanError(f"{report} has no {name!r} by layer; {closest(name, known)}")
            layers, values = dataset["layer"].values, dataset[name].values
            pairs = zip(map(str, layers), map(float, values), strict=True)
            rows += [[report, name, layer, value] for layer, value in pairs]
    return pd.DataFrame(rows, columns=COLUMNS)


# ---- spectra, densities, landscapes, barriers and curves

PLANES_ACROSS = 2
"""Planes side by side, at most: each has a bar of colours."""
NUMBERED = 12
"""Networks up to which the barriers are written into the matrix."""
ENDS = {"largest": "o", "smallest": "v"}
"""Markers of eigenvalues by the end of the spectrum."""


def spectrum_frame(reports: Reports) -> pd.DataFrame:
    """Eigenvalues with residuals: report, block, matrix, end, rank, value, residual, units."""
    rows = []
    for name, report in reports.items():
        for end, dim in (("largest", "rank"), ("smallest", "rank_from_below")):
            if f"{end}_eigenvalue" not in report:
                continue
            both = report[[f"{end}_eigenvalue", f"{end}_residual"]].to_dataframe().reset_index()
            named = {dim: "rank", f"{end}_eigenvalue": "value", f"{end}_residual": "residual"}
            both = both.rename(columns=named)
            units = report[f"{end}_eigenvalue"].attrs.get("units", "")
            about = {"report": name, "end": end, "units": units}
            rows.append(both.assign(**about, rank=both["rank"].astype(int)))
    columns = ["report", "block", "matrix", "end", "rank", "value", "residual", "units"]
    return pd.concat(rows)[columns].dropna(subset="value").reset_index(drop=True)


def draw_spectrum(fig: Any, frame: pd.DataFrame, title: str = "") -> None:
    """A panel per matrix and block: eigenvalues by rank, with bars as long as their residuals."""
    for ax, rows in panels(fig, frame, ["matrix", "block"]):
        for look, part in colored(rows, frame):
            for end, points in part.groupby("end", sort=False):
                marker = ENDS[str(end)]
                bars = {"yerr": points["residual"], "elinewidth": 0.8, "lw": 0, "ms": 3}
                ax.errorbar(points["rank"], points["value"], fmt=marker, color=look, **bars)
        if (rows["value"] > 0).all() and rows["value"].max() > 20 * rows["value"].min():
            ax.set_yscale("log")
        label = with_units("eigenvalue", rows["units"].iloc[0])
        ax.set(xlabel="rank from its end of the spectrum", ylabel=label)
    ends = list(dict.fromkeys(frame["end"]))
    legend(fig, frame, title, {end: ENDS[end] for end in ends} if len(ends) > 1 else None)


def density_frame(reports: Reports) -> pd.DataFrame:
    """Spectral densities: report, block, matrix, eigenvalue, density, error, width, units."""
    rows = []
    for name, report in reports.items():
        names = ["density_at", "spectral_density", "spectral_density_error", "density_width"]
        units = report["density_at"].attrs.get("units", "")
        rows.append(report[names].to_dataframe().reset_index().assign(report=name, units=units))
    named = dict(zip(names, ["eigenvalue", "density", "error", "width"], strict=True))
    columns = ["report", "block", "matrix", *named.values(), "units"]
    return pd.concat(rows).rename(columns=named)[columns].reset_index(drop=True)


def draw_density(fig: Any, frame: pd.DataFrame, title: str = "") -> None:
    """A panel per matrix and block: the density on a logarithmic axis, with its standard error."""
    for ax, rows in panels(fig, frame, ["matrix", "block"]):
        least = 1e-6 * rows["density"].max()
        for look, part in colored(rows, frame):
            ax.plot(part["eigenvalue"], part["density"].clip(lower=least), color=look, lw=0.9)
            low, high = (part["density"] + sign * part["error"] for sign in (-1, 1))
            band = {"color": look, "alpha": 0.25, "lw": 0}
            ax.fill_between(part["eigenvalue"], low.clip(lower=least), high.clip(least), **band)
        units = rows["units"].iloc[0]
        per = f"1/({units})" if units else ""
        ax.set(yscale="log", ylim=(least, None), ylabel=with_units("density", per))
        ax.set_xlabel(with_units("eigenvalue", units))
    legend(fig, frame, title)


def landscape_frame(reports: Reports) -> pd.DataFrame:
    """The loss on lines or planes: report, first, second (of planes), loss, accuracy (if known).

    Places of networks are rows with `network` and without a loss.
    """
    rows = []
    for name, report in reports.items():
        values = report[[n for n in ("loss", "accuracy") if n in report]]
        axes = [dim for dim in ("first", "second") if dim in report.dims]
        values = values.drop_vars([n for n in values.coords if n not in axes])
        rows.append(values.to_dataframe().reset_index().assign(report=name))
        places = {axis: report[f"network_{axis}"].values for axis in axes}
        rows.append(pd.DataFrame(places).assign(report=name, network=range(len(places[axes[0]]))))
    frame = pd.concat(rows).reset_index(drop=True)
    return frame[["report", *(column for column in frame if column != "report")]]


def draw_landscape(fig: Any, frame: pd.DataFrame, title: str = "") -> None:
    """Lines in one panel; a panel of contours for each plane, with its networks as points."""
    from matplotlib.colors import LogNorm

    if "second" not in frame:
        ax = fig.subplots()
        for look, part in colored(frame, frame):
            line, networks = part[part["network"].isna()], part[part["network"].notna()]
            ax.plot(line["first"], line["loss"], color=look, lw=1)
            at = line.set_index("first")["loss"]
            nearest = [at.iloc[abs(at.index - place).argmin()] for place in networks["first"]]
            ax.plot(networks["first"], nearest, "o", color=look, ms=3.5)
        ax.set(xlabel="place on the line", ylabel="loss")
        legend(fig, frame, title)
        return
    if title:
        fig.suptitle(title, x=0.01, ha="left")
    for ax, part in panels(fig, frame, ["report"], PLANES_ACROSS):
        plane, networks = part[part["network"].isna()], part[part["network"].notna()]
        grid = plane.pivot_table(index="second", columns="first", values="loss", dropna=False)
        low, high = np.nanmin(grid.values), np.nanmax(grid.values)
        wide = low > 0 and high > 20 * low
        levels = np.geomspace(low, high, 20) if wide else np.linspace(low, high or 1, 20)
        scale = {"norm": LogNorm(low, high)} if wide else {}
        drawn = ax.contourf(grid.columns, grid.index, grid.values, levels, cmap="viridis", **scale)
        ax.contour(drawn, colors="white", linewidths=0.3, alpha=0.6)
        ax.plot(networks["first"], networks["second"], "o", color="white", mec="0.15", ms=4)
        for n, (x, y) in enumerate(zip(networks["first"], networks["second"], strict=True)):
            if len(networks) > 1:
                beside = {"textcoords": "offset points", "color": "white"}
                ax.annotate(str(n), (x, y), (4, 3), **beside)
        ax.set(xlabel="first direction", ylabel="second direction")
        ax.set_box_aspect(1)
        ax.locator_params(nbins=5)
        bar = fig.colorbar(drawn, ax=ax, shrink=0.8, format="%.3g", ticks=levels[::3])
        bar.set_label("loss")


def run_frame(reports: Reports) -> pd.DataFrame:
    """What trackers have measured: report, quantity, units, step, value; numbers of a network."""
    rows = []
    for name, report in reports.items():
        for quantity, array in report.data_vars.items():
            if set(array.dims) - {"block", "matrix", "rank"} != {"step"} or _is_about(quantity):
                continue
            if array.dims != ("step",):  # the first of them
                array = array.isel({dim: 0 for dim in array.dims if dim != "step"})
            values = {"step": array["step"].values, "value": array.values}
            about = {"quantity": str(quantity), "units": array.attrs.get("units", "")}
            rows.append(pd.DataFrame(values).assign(report=name, **about))
    return pd.concat(rows)[["report", "quantity", "units", "step", "value"]].reset_index(drop=True)


def _is_about(quantity: Any) -> bool:
    """Whether a quantity says how others were measured."""
    name = str(quantity)
    counts = name.startswith("samples_") or name in ("finite", "layers_left_out")
    return counts or name.endswith(("_residual", "_products", "_converged"))


def draw_run(fig: Any, frame: pd.DataFrame, title: str = "") -> None:
    """A panel per quantity: its value along training."""
    for ax, rows in panels(fig, frame, ["quantity"]):
        for look, part in colored(rows, frame):
            ax.plot(part["step"], part["value"], "o-", color=look, lw=0.8, ms=2.5)
        units = rows["units"].iloc[0]
        ax.set(xlabel="step", ylabel="" if units in WITHOUT_UNITS else in_signs(units))
    legend(fig, frame, title)


def barriers_frame(reports: Reports) -> pd.DataFrame:
    """Barriers of pairs: report, network, other, barrier, highest_at, units."""
    rows = []
    for name, report in reports.items():
        pairs = report[["barrier", "highest_at"]].to_dataframe().reset_index()
        rows.append(pairs.assign(report=name, units=report["barrier"].attrs.get("units", "")))
    columns = ["report", "network", "other", "barrier", "highest_at", "units"]
    return pd.concat(rows)[columns].reset_index(drop=True)


def draw_barriers(fig: Any, frame: pd.DataFrame, title: str = "") -> None:
    """A matrix for each report, all on one scale."""
    if title:
        fig.suptitle(title, x=0.01, ha="left")
    high = float(np.nanmax(frame["barrier"])) or 1.0
    for ax, rows in panels(fig, frame, ["report"]):
        grid = rows.pivot_table(index="network", columns="other", values="barrier", dropna=False)
        names = list(dict.fromkeys(rows["network"]))
        values = grid.loc[names, names].values
        drawn = ax.imshow(values, cmap=MAP, vmin=0, vmax=high)
        ax.grid(visible=False)
        ax.set_xticks(range(len(names)), names)
        ax.set_yticks(range(len(names)), names)
        ax.set(xlabel="other network", ylabel="network")
        if len(names) <= NUMBERED:
            for (row, column), value in np.ndenumerate(values):
                color = "white" if value < 0.6 * high else "0.1"
                text = {"ha": "center", "va": "center", "color": color, "fontsize": 5}
                ax.text(column, row, f"{value:.2g}", **text)
        fig.colorbar(drawn, ax=ax, shrink=0.8).set_label("excess loss")


class Kind(NamedTuple):
    """A kind of picture.  needs: a variable and a dimension that a report must have."""

    frame: Callable[[Reports], pd.DataFrame]
    draw: Callable[[Any, pd.DataFrame, str], None]
    needs: tuple[str, str]


KINDS = {
    "spectrum": Kind(spectrum_frame, draw_spectrum, ("", "rank")),
    "density": Kind(density_frame, draw_density, ("spectral_density", "point")),
    "landscape": Kind(landscape_frame, draw_landscape, ("loss", "first")),
    "barriers": Kind(barriers_frame, draw_barriers, ("barrier", "other")),
    "run": Kind(run_frame, draw_run, ("", "step")),
}


def kinds_of(report: xr.Dataset) -> list[str]:
    """The kinds of pictures that a report has."""
    known = {"", *map(str, report.data_vars)}
    if "step" in report.dims:
        return ["run"]
    return [n for n, k in KINDS.items() if k.needs[0] in known and k.needs[1] in report.dims]


def pictures(
    kind: str,
    reports: Reports,
    quantities: Sequence[str] = (),
    size_inches: tuple[float, float] | None = None,
    title: str = "",
) -> dict[str, bytes]:
    """The files of a picture by extension: pdf, svg, png, and csv of what is drawn.

    kind: one of `KINDS`.
    reports: by name; several are drawn beside each other.
    quantities: of a run, those that are drawn; all if empty.
    size_inches: width and height; None: as many panels need.
    title: the headline; "": none.

    Raises `PlanError` where a report has no such picture.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    if kind not in KINDS:
        raise PlanError(f"unknown picture {kind!r}; {closest(kind, list(KINDS))}")
    for name, report in reports.items():
        if kind not in kinds_of(report):
            has = ", ".join(kinds_of(report)) or "none"
            raise PlanError(f"{name} has no picture {kind}; those it has: {has}")
    if kind == "landscape" and len({len(report["loss"].dims) for report in reports.values()}) > 1:
        raise PlanError("lines and planes are not drawn in one picture; draw each by itself")
    frame = KINDS[kind].frame(reports)
    if quantities:
        frame = _only(frame, quantities)
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        fig: Any = Figure(figsize=size_inches or _size(kind, frame), layout="constrained")
        KINDS[kind].draw(fig, frame, title)
        fig.get_layout_engine().execute(fig)
        fig.set_layout_engine()  # laid out once, the same in every format
        drawn = {extension: picture(fig, extension) for extension in FORMATS}
    return {"csv": frame.to_csv(index=False).encode(), **drawn}


def _only(frame: pd.DataFrame, quantities: Sequence[str]) -> pd.DataFrame:
    if "quantity" not in frame:
        raise PlanError("this picture has no quantities to choose from; leave them out")
    known = list(dict.fromkeys(frame["quantity"]))
    for name in quantities:
        if name not in known:
            raise PlanError(f"there is no {name!r} to draw; {closest(name, known)}")
    return frame[frame["quantity"].isin(list(quantities))].reset_index(drop=True)


def _size(kind: str, frame: pd.DataFrame) -> tuple[float, float]:
    """Width and height of the figure, in inches."""
    planes = kind == "landscape" and "second" in frame
    by = {"run": ["quantity"], "landscape": ["report"] if planes else [], "barriers": ["report"]}
    columns = by.get(kind, ["matrix", "block"])
    count = len(frame[columns].drop_duplicates()) if columns else 1
    across = min(count, PLANES_ACROSS if planes else ACROSS)
    width = {"barriers": 2.8}.get(kind, 3.5 if planes else 2.4)
    return max(4.0, width * across), 0.5 + 2.2 * -(-count // across) + 0.5 * (count == 1)
