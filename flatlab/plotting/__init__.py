"""Figures: what a paper's figures.py declares, drawn by the template that it names.

A template is a module of this folder; a figure of its own kind is one in its paper's folder. Both
have two pure functions. `frame(figure, tables, correlations)` selects what is shown, as one pandas
table, which becomes the figure's CSV. `draw(fig, frame, figure)` draws that table and sees nothing
else, so that the CSV is exactly what is drawn. Title, caption and what the tables hold are added
here, the same for every figure. Templates are imported by name, so that an edit to one redraws its
own figures alone.
"""

from __future__ import annotations

import importlib
import io
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # papers' figures.py import this package at plan time, which does without
    import xarray as xr

FORMATS = ("pdf", "svg", "png")
STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "0.15",
    "axes.labelcolor": "0.15",
    "axes.linewidth": 0.6,
    "axes.titlesize": 9,
    "figure.dpi": 100,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same everywhere
    "font.size": 8,
    "grid.color": "0.8",
    "legend.frameon": False,
    "lines.solid_capstyle": "round",
    "mathtext.fontset": "dejavusans",
    "patch.edgecolor": "white",
    "patch.force_edgecolor": True,
    "pdf.fonttype": 42,  # text stays text
    "savefig.dpi": 200,
    "svg.hashsalt": "flatlab",  # identifiers that repeat
    "text.color": "0.15",
    "xtick.color": "0.15",
    "xtick.labelsize": 6,
    "ytick.color": "0.15",
    "ytick.labelsize": 6,
}
"""Colours and order of drawing as in seaborn's style "ticks", which takes a second to load."""


def make(
    figure: Mapping[str, Any],
    tables: Mapping[str, xr.Dataset],
    correlations: Mapping[str, xr.Dataset],
) -> dict[str, bytes]:
    """Draw a figure: the content of its files by extension (pdf, svg, png, csv).

    figure: the `settings` of a `plan.Figure`.  tables: by experiment.  correlations: those that the
    figure reads, by experiment.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    template = template_of(figure)
    frame = template.frame(figure, tables, correlations)
    files = {"csv": frame.to_csv(index=False).encode()}
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        fig = Figure(figsize=figure["size_inches"], layout="constrained")
        template.draw(fig.subfigures(), frame, figure)  # below the title, above the caption
        shown = [table.attrs for table in tables.values()]
        scale, data = (
            " and ".join(dict.fromkeys(a[key] for a in shown)) for key in ("scale", "data")
        )
        title = f"{figure['paper']} {figure['key']} ({scale} on {data}): {figure['title']}"
        fig.suptitle(title, fontsize=12, x=0.01, ha="left")
        text = " ".join([figure["caption"], f"Scale {scale}:", *map(about, tables.values())])
        text = textwrap.fill(text, int(figure["size_inches"][0] * 16), break_on_hyphens=False)
        fig.supxlabel(text, fontsize=8, x=0.01, ha="left", color="0.25")
        fig.draw_without_rendering()
        fig.set_layout_engine()  # none any more: laid out once, the same in every format
        for extension in FORMATS:
            files[extension] = _render(fig, extension)
    return files


def template_of(figure: Mapping[str, Any]) -> Any:
    """The module that draws a figure."""
    if figure["template"] == "own":
        return importlib.import_module(f"flatlab.papers.{figure['paper']}.{figure['key']}")
    return importlib.import_module(f"flatlab.plotting.{figure['template']}")


def about(table: xr.Dataset) -> str:
    """What a table holds, for the caption: no stand-in can pass for the paper's."""
    a = table.attrs
    stands_in = f" It stands in for the paper's {a['stands_in_for']}." if a["stands_in_for"] else ""
    return f"{a['name']}, {a['extent']}.{stands_in}"


def _render(fig: Any, extension: str) -> bytes:
    buffer = io.BytesIO()
    no_date = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}[extension]
    fig.savefig(buffer, format=extension, metadata=no_date)
    return _with_palette(buffer) if extension == "png" else buffer.getvalue()


def _with_palette(picture: io.BytesIO) -> bytes:
    """A PNG of 256 colours: a third of the size, and no colour that an eye could tell from it."""
    from PIL import Image

    with Image.open(picture) as full:
        colours = full.convert("RGB").quantize(
            256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
        buffer = io.BytesIO()
        colours.save(buffer, "png", dpi=full.info["dpi"])
    return buffer.getvalue()
