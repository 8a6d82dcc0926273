"""Pictures of reports: spectra, densities, landscapes, and curves of a tracker.

Each kind has two pure functions, as figures do: a frame selects what is shown, one row per point,
and becomes the CSV; a drawing sees nothing but that frame. `pictures` makes the files of one kind.
Several reports are drawn beside each other, by the names that they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.plan.schema import PlanError, closest
from flatlab.plotting.looks import COLORS
from flatlab.plotting.render import FORMATS, STYLE, picture

Reports = Mapping[str, xr.Dataset]
"""Reports by name."""
ACROSS = 3
"""Panels side by side, at most."""


def spectrum_frame(reports: Reports) -> pd.DataFrame:
    """Eigenvalues with residuals: report, block, matrix, end, rank, value, residual."""
    rows = []
    for name, report in reports.items():
        for end, dim in (("largest", "rank"), ("smallest", "rank_from_below")):
            if f"{end}_eigenvalue" not in report:
                continue
            both = report[[f"{end}_eigenvalue", f"{end}_residual"]].to_dataframe().reset_index()
            named = {dim: "rank", f"{end}_eigenvalue": "value", f"{end}_residual": "residual"}
            both = both.rename(columns=named)
            rows.append(both.assign(report=name, end=end, rank=both["rank"].astype(int)))
    columns = ["report", "block", "matrix", "end", "rank", "value", "residual"]
    return pd.concat(rows)[columns].dropna(subset="value").reset_index(drop=True)


def draw_spectrum(fig: Any, frame: pd.DataFrame) -> None:
    """A panel per matrix and block: eigenvalues by rank, with bars as long as their residuals."""
    for ax, rows in _panels(fig, frame, ["matrix", "block"]):
        for look, (_, part) in _colored(rows, frame):
            for end, points in part.groupby("end", sort=False):
                marker = {"largest": "o", "smallest": "v"}[str(end)]
                bars = {"yerr": points["residual"], "elinewidth": 0.8, "lw": 0, "ms": 3}
                ax.errorbar(points["rank"], points["value"], fmt=marker, color=look, **bars)
        if (rows["value"] > 0).all() and rows["value"].max() > 20 * rows["value"].min():
            ax.set_yscale("log")
        ax.set(xlabel="rank from its end of the spectrum", ylabel="eigenvalue")
    _legend(fig, frame)


def density_frame(reports: Reports) -> pd.DataFrame:
    """Spectral densities: report, block, matrix, eigenvalue, density, error, width."""
    rows = []
    for name, report in reports.items():
        names = ["density_at", "spectral_density", "spectral_density_error", "density_width"]
        rows.append(report[names].to_dataframe().reset_index().assign(report=name))
    named = dict(zip(names, ["eigenvalue", "density", "error", "width"], strict=True))
    columns = ["report", "block", "matrix", *named.values()]
    return pd.concat(rows).rename(columns=named)[columns].reset_index(drop=True)


def draw_density(fig: Any, frame: pd.DataFrame) -> None:
    """A panel per matrix and block: the density on a logarithmic axis, with its standard error."""
    for ax, rows in _panels(fig, frame, ["matrix", "block"]):
        least = 1e-6 * rows["density"].max()
        for look, (_, part) in _colored(rows, frame):
            ax.plot(part["eigenvalue"], part["density"].clip(lower=least), color=look, lw=0.9)
            low, high = (part["density"] + sign * part["error"] for sign in (-1, 1))
            band = {"color": look, "alpha": 0.25, "lw": 0}
            ax.fill_between(part["eigenvalue"], low.clip(lower=least), high.clip(least), **band)
        ax.set(yscale="log", xlabel="eigenvalue", ylabel="density", ylim=(least, None))
    _legend(fig, frame)


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


def draw_landscape(fig: Any, frame: pd.DataFrame) -> None:
    """Lines in one panel; a panel of contours for each plane, with its networks as points."""
    from matplotlib.colors import LogNorm

    if "second" not in frame:
        ax = fig.subplots()
        for look, (_, part) in _colored(frame, frame):
            line, networks = part[part["network"].isna()], part[part["network"].notna()]
            ax.plot(line["first"], line["loss"], color=look, lw=1)
            at = line.set_index("first")["loss"]
            nearest = [at.iloc[abs(at.index - place).argmin()] for place in networks["first"]]
            ax.plot(networks["first"], nearest, "o", color=look, ms=3.5)
        ax.set(xlabel="place on the line", ylabel="loss")
        _legend(fig, frame)
        return
    for ax, part in _panels(fig, frame, ["report"]):
        plane, networks = part[part["network"].isna()], part[part["network"].notna()]
        grid = plane.pivot_table(index="second", columns="first", values="loss", dropna=False)
        low, high = np.nanmin(grid.values), np.nanmax(grid.values)
        wide = low > 0 and high > 20 * low
        levels = np.geomspace(low, high, 20) if wide else np.linspace(low, high or 1, 20)
        scale = {"norm": LogNorm(low, high)} if wide else {}
        drawn = ax.contourf(grid.columns, grid.index, grid.values, levels, cmap="viridis", **scale)
        ax.contour(drawn, colors="white", linewidths=0.3, alpha=0.6)
        ax.plot(networks["first"], networks["second"], "o", color="white", mec="0.15", ms=4)
        ax.set(xlabel="first direction", ylabel="second direction")
        bar = fig.colorbar(drawn, ax=ax, shrink=0.85, format="%.2g")
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
    """Whether a quantity says how another was measured."""
    return str(quantity).endswith(("_residual", "_products", "_converged"))


def draw_run(fig: Any, frame: pd.DataFrame) -> None:
    """A panel per quantity: its value along training."""
    for ax, rows in _panels(fig, frame, ["quantity"]):
        for look, (_, part) in _colored(rows, frame):
            ax.plot(part["step"], part["value"], "o-", color=look, lw=0.8, ms=2.5)
        units = rows["units"].iloc[0]
        ax.set(xlabel="step", ylabel="" if units == "1" else units)
    _legend(fig, frame)


class Kind(NamedTuple):
    """A kind of picture.  needs: a variable and a dimension that a report must have."""

    frame: Callable[[Reports], pd.DataFrame]
    draw: Callable[[Any, pd.DataFrame], None]
    needs: tuple[str, str]


KINDS = {
    "spectrum": Kind(spectrum_frame, draw_spectrum, ("", "rank")),
    "density": Kind(density_frame, draw_density, ("spectral_density", "point")),
    "landscape": Kind(landscape_frame, draw_landscape, ("loss", "first")),
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
) -> dict[str, bytes]:
    """The files of a picture by extension: pdf, svg, png, and csv of what is drawn.

    kind: one of `KINDS`.
    reports: by name; several are drawn beside each other.
    quantities: of a run, those that are drawn; all if empty.
    size_inches: width and height; None: as many panels need.

    Raises `PlanError` where a report has no such picture.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    if kind not in KINDS:
        raise PlanError(f"there is no picture {kind!r}; {closest(kind, list(KINDS))}")
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
        KINDS[kind].draw(fig, frame)
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
    by = {"run": ["quantity"], "landscape": ["report"] if "second" in frame else []}
    columns = by.get(kind, ["matrix", "block"])
    count = len(frame[columns].drop_duplicates()) if columns else 1
    across = min(count, ACROSS)
    return max(4.0, 2.4 * across), 0.5 + 2.2 * -(-count // across) + 0.5 * (count == 1)


def _panels(fig: Any, frame: pd.DataFrame, by: list[str]) -> list[tuple[Any, pd.DataFrame]]:
    """A panel for each combination of some columns, titled by those that vary."""
    parts = list(frame.groupby(by, sort=False))
    columns = min(len(parts), ACROSS)
    axes = fig.subplots(-(-len(parts) // columns), columns, squeeze=False).ravel()
    for ax in axes[len(parts) :]:
        ax.remove()
    varying = [n for n, column in enumerate(by) if len(frame[column].unique()) > 1 or len(by) == 1]
    for ax, (key, _) in zip(axes, parts, strict=False):
        ax.set_title(", ".join(str(key[n]).replace("_", " ") for n in varying), loc="left")
        ax.grid(alpha=0.5, lw=0.4)
    return [(ax, rows) for ax, (_, rows) in zip(axes, parts, strict=False)]


def _colored(rows: pd.DataFrame, frame: pd.DataFrame) -> list[tuple[str, tuple[str, pd.DataFrame]]]:
    """The rows of each report with its colour, the same in all panels."""
    names = list(dict.fromkeys(frame["report"]))
    return [
        (COLORS[names.index(name) % len(COLORS)], (str(name), part))
        for name, part in rows.groupby("report", sort=False)
    ]


def _legend(fig: Any, frame: pd.DataFrame) -> None:
    """The names of the reports above the panels, where there are several."""
    from matplotlib.lines import Line2D

    names = list(dict.fromkeys(frame["report"]))
    if len(names) > 1:
        colors = [COLORS[n % len(COLORS)] for n in range(len(names))]
        lines = [Line2D([], [], color=c, label=n) for c, n in zip(colors, names, strict=True)]
        fig.legend(handles=lines, loc="outside upper left", ncols=min(len(names), 5))
