"""Figures: each is declared in its paper's figures.py and drawn by the template that it names.

A template is a module of this folder; a figure of its own kind is a module of its paper's folder.
Both have two pure functions. `frame(figure, tables, correlations)` selects what is shown, as one
pandas table, which becomes the figure's CSV. `draw(fig, frame, figure)` sees nothing but that
table. Title and caption, which says what the tables hold, are added here in the same way for all.
"""

from __future__ import annotations

import importlib
import io
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # papers' figures.py import this package at plan time, which does without xarray
    import xarray as xr

Settings = Mapping[str, Any]
"""What a figure is: the `settings` of a `plan.Figure`."""

Tables = Mapping[str, "xr.Dataset"]
"""Tables by experiment."""

NO_BREAK = "\N{NO-BREAK SPACE}"
FORMATS = ("pdf", "svg", "png")
DARK = ("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color")
STYLE: dict[str, Any] = {
    **dict.fromkeys(DARK, "0.15"),
    **{"axes.axisbelow": True, "axes.linewidth": 0.5, "axes.titlesize": 7},
    **{"figure.dpi": 100, "savefig.dpi": 300},
    **{"font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"]},  # matplotlib's own font
    **{"font.size": 7, "xtick.labelsize": 6, "ytick.labelsize": 6, "axes.labelsize": 6.5},
    **{"grid.color": "0.8", "legend.frameon": False, "lines.solid_capstyle": "round"},
    **{"mathtext.fontset": "dejavusans", "pdf.fonttype": 42},  # text stays text, as in SVG
    **{"patch.edgecolor": "white", "patch.force_edgecolor": True},
    **{"svg.hashsalt": "flatlab", "svg.fonttype": "none"},  # the same identifiers every time
}
"""Colours and drawing order of seaborn's style "ticks"; importing it takes most of a second."""


def make(figure: Settings, tables: Tables, correlations: Tables) -> dict[str, bytes]:
    """Draw a figure: the content of its files by extension (pdf, svg, png, csv).

    correlations: of the experiments whose correlations the figure shows.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    template = template_of(figure)
    figure = {**_with_stand_ins_named(figure, tables), "units": _units(tables)}
    frame = template.frame(figure, tables, correlations)
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        fig: Any = Figure(figsize=figure["size_inches"], layout="constrained")
        template.draw(fig.subfigures(), frame, figure)  # below the title, above the caption
        _title_and_caption(fig, figure, tables)
        fig.get_layout_engine().execute(fig)
        fig.set_layout_engine()  # laid out once, the same in every format
        pictures = {extension: _render(fig, extension) for extension in FORMATS}
    return {"csv": frame.to_csv(index=False).encode(), **pictures}


def _units(tables: Tables) -> dict[str, str]:
    """The units of all quantities of some tables."""
    arrays = (item for table in tables.values() for item in table.data_vars.items())
    return {str(name): array.attrs.get("units", "") for name, array in arrays}


def _with_stand_ins_named(figure: Settings, tables: Tables) -> Settings:
    """The figure with its labels for stand-ins, if all of its tables are."""
    if any(table.attrs["evidence"] != "stand-in" for table in tables.values()):
        return figure
    if not (labels := figure.get("of_stand_ins")):
        return figure
    return {**figure, "columns": {**figure["columns"], **labels}}


def template_of(figure: Settings) -> Any:
    """The module that draws a figure."""
    if figure["template"] == "own":
        return importlib.import_module(f"flatlab.papers.{figure['paper']}.{figure['key']}")
    return importlib.import_module(f"flatlab.plotting.{figure['template']}")


def about(table: xr.Dataset, brief: bool = False) -> str:
    """What a table holds, for the caption, so that no stand-in can pass for the paper's.

    brief: without the accuracy of the networks of a zoo.
    """
    from flatlab.plotting.words import in_words_of, networks_of
    from flatlab.tables.selection import counts, extent

    a = table.attrs
    what = a["extent"]
    if "network" in a:
        names = {"network": networks_of(a["network"]), "data": in_words_of(a["data"])}
        what = extent({**a, **names}, **counts(table))
    elif "data" in a:
        what = what.replace(f" on {a['data']}", f" on {in_words_of(a['data'])}", 1)
    if brief:
        what = "; ".join(part for part in what.split("; ") if "accuracy" not in part)
    return f"{what[0].upper()}{what[1:]}{_instead(a)}."


def caption(figure: Settings, tables: Tables) -> str:
    """What a figure shows, and the networks of each of its tables that it shows."""
    held = [about(shown(figure, table), brief=len(tables) > 2) for table in tables.values()]
    return " ".join([figure["caption"], *held])


def shown(figure: Settings, table: xr.Dataset) -> xr.Dataset:
    """The networks of a table that a figure is about.

    Those of the settings in its `where`; of figures whose template is FOLLOWED, those that were
    measured through training.
    """
    from flatlab.plotting.words import networks_of
    from flatlab.tables.selection import of_settings, only_followed

    where, followed = figure.get("where", {}), hasattr(template_of(figure), "FOLLOWED")
    if not where and not followed:
        return table
    chosen = of_settings(only_followed(table) if followed else table, where)
    if "not_converged" in table.attrs:
        slow = int((chosen["ended"].values == "finished").sum())
        chosen = chosen.assign_attrs(not_converged=slow)
    if "architecture" in where:
        names = ("network", "stands_in_for")
        own = {name: networks_of(table.attrs[name], where["architecture"]) for name in names}
        chosen = chosen.assign_attrs(own)
    return chosen


def _instead(a: Mapping[str, Any]) -> str:
    """What the networks and data stand in for, or that they are fewer or smaller."""
    from flatlab.plotting.words import networks_of

    theirs = networks_of(a["stands_in_for"]) or "experiment"
    if a["evidence"] == "stand-in":
        return f"; they stand in for the paper's {theirs}"
    return f"; reduced from the paper's {theirs}" if a["evidence"] == "reduced" else ""


def _title_and_caption(fig: Any, figure: Settings, tables: Tables) -> None:
    """Both name the scale and the data, so that a demo figure cannot pass for the paper's."""
    from flatlab.plotting.words import in_words_of

    about_all = [table.attrs for table in tables.values()]
    scale, data = (" and ".join(dict.fromkeys(a[k] for a in about_all)) for k in ("scale", "data"))
    inches = figure["size_inches"][0]
    held, width = f"({scale}, {in_words_of(data)})", int(inches * 13.5)
    if len(held) < width / 2:  # on a line
        held = held.replace(" ", NO_BREAK)
    title = f"{figure['cited']}: {figure['title']} {held}"
    title = textwrap.fill(title, width, break_on_hyphens=False).replace(NO_BREAK, " ")
    fig.suptitle(title, fontsize=8, x=0.01, ha="left", weight="bold")
    text = textwrap.fill(caption(figure, tables), int(inches * 20.5), break_on_hyphens=False)
    fig.supxlabel(text, fontsize=6.5, x=0.01, ha="left", color="0.25")


def _render(fig: Any, extension: str) -> bytes:
    """One picture file. It contains no date, so that the same figure has the same bytes.

    A PNG has 256 colours: a third of the size, with no difference that an eye could see.
    """
    from PIL import Image

    buffer, dates = io.BytesIO(), {"pdf": "CreationDate", "svg": "Date"}
    if extension in dates:
        fig.savefig(buffer, format=extension, metadata={dates[extension]: None})
        return buffer.getvalue()
    fig.savefig(full := io.BytesIO(), format="png", pil_kwargs={"compress_level": 0})
    with Image.open(full) as picture:
        method, dither = Image.Quantize.MAXCOVERAGE, Image.Dither.NONE
        colours = picture.convert("RGB").quantize(256, method=method, dither=dither)
        colours.save(buffer, "png", dpi=picture.info["dpi"])
    return buffer.getvalue()
