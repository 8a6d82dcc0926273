"""Figures: one file each, a literal declaration and two pure functions.

`frame(tables, correlations)` selects what is shown, as one pandas table: it becomes the figure's
CSV. `draw(fig, frame)` draws that table and sees nothing else, so that the CSV is exactly what is
drawn. Title, caption and what the networks were are added here, the same for every figure.
"""

from __future__ import annotations

import importlib
import io
import textwrap
from collections.abc import Mapping
from typing import Any

import xarray as xr

from flatlab.plan import figures

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
    target: str, tables: Mapping[str, xr.Dataset], correlations: Mapping[str, xr.Dataset]
) -> dict[str, bytes]:
    """Draw a figure: the content of its files by extension (pdf, svg, png, csv).

    target: as in `chen2026_figH8`.  tables: by grid or study.  correlations: by grid.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    figure = next(f for f in figures() if f.target == target)
    module = importlib.import_module(f"flatlab.papers.{figure.paper}.{figure.key}")
    frame = module.frame(tables, correlations)
    files = {"csv": frame.to_csv(index=False).encode()}
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        fig = Figure(figsize=figure.size_inches, layout="constrained")
        module.draw(fig.subfigures(), frame)  # below the title, above the caption
        shown = [*correlations.values(), *(t for t in tables.values() if "study" in t.attrs)]
        scale, data = (
            " and ".join(dict.fromkeys(c.attrs[key] for c in shown)) for key in ("scale", "data")
        )
        title = f"{figure.paper} {figure.key} ({scale} on {data}): {figure.title}"
        fig.suptitle(title, fontsize=12, x=0.01, ha="left")
        text = " ".join([figure.caption, f"Scale {scale}:", *map(about, shown)])
        width = int(figure.size_inches[0] * 16)
        text = textwrap.fill(text, width, break_on_hyphens=False)
        fig.supxlabel(text, fontsize=8, x=0.01, ha="left", color="0.25")
        fig.draw_without_rendering()
        fig.set_layout_engine()  # none any more: laid out once, the same in every format
        for extension in FORMATS:
            files[extension] = _render(fig, extension)
    return files


def about(table: xr.Dataset) -> str:
    """What a figure shows, so that no stand-in can pass for the paper's.

    table: the correlations of a grid, whose attributes tell its networks, or the table of a study.
    """
    a = table.attrs
    if "study" in a:
        return f"{a['study']}, {a['extent']}."
    stands_in = f" It stands in for the paper's {a['stands_in_for']}." if a["stands_in_for"] else ""
    return (
        f"{a['grid']} of {a['runs']} {a['network']} networks on {a['data']}, "
        f"{a['length']} each; {a['diverged']} diverged and left out{not_trained(a)}.{stands_in}"
    )


def not_trained(attributes: Mapping[str, Any]) -> str:
    """How much of the grid a table lacks, in words; nothing where it is complete."""
    count = attributes["left_out"]
    return f"; {count} more of the grid are not trained" if count else ""


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
