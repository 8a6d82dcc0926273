"""From a declaration and tables to the files of a figure.

A figure has two pure functions. `frame(figure, tables)` asks the networks of its experiments for
what is shown, as claims do, and returns one pandas table, which becomes the figure's CSV.
`draw(fig, frame, figure)` sees nothing but that table. Both are in the module of its template or,
where the declaration says so, in the module of its paper's folder. A picture is for print: title
and caption lie beside it as text, and a badge says what cannot pass for the paper's.
"""

from __future__ import annotations

import functools
import importlib
import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from flatlab.core.schema import PlanError

if TYPE_CHECKING:  # papers' figures.py import this package at plan time, which does without xarray
    import pandas as pd
    import xarray as xr

Settings = Mapping[str, Any]
"""What a figure is: the `settings` of a `plan.Figure`."""

Tables = Mapping[str, "xr.Dataset"]
"""Tables by experiment."""

FORMATS = ("pdf", "svg", "png")
DIGITS = "%.7g"
"""Of the numbers in a CSV."""
DARK = ("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color")
STYLE: dict[str, Any] = {
    **dict.fromkeys(DARK, "0.15"),
    **{"axes.axisbelow": True, "axes.linewidth": 0.5, "axes.titlesize": 7},
    **{"figure.dpi": 100, "savefig.dpi": 160},
    **{"font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"]},  # matplotlib's own font
    **{"font.size": 7, "xtick.labelsize": 6, "ytick.labelsize": 6, "axes.labelsize": 6.5},
    **{"grid.color": "0.8", "legend.frameon": False, "lines.solid_capstyle": "round"},
    **{"mathtext.fontset": "dejavusans", "pdf.fonttype": 42},  # text stays text, as in SVG
    **{"patch.edgecolor": "white", "patch.force_edgecolor": True},
    **{"svg.hashsalt": "flatlab", "svg.fonttype": "none"},  # the same identifiers every time
}
"""Colours and drawing order of seaborn's style "ticks"; importing it takes most of a second."""


def make(figure: Settings, tables: Tables, correlations: Tables | None = None) -> dict[str, bytes]:
    """Draw a figure: the content of its files by extension (pdf, svg, png, csv, txt).

    figure: what is declared.
    tables: of its experiments.
    correlations: their correlation matrices, where a job has computed them.
    """
    figure = completed(figure, tables)
    frame = frame_of(figure, tables, correlations)
    module = importlib.import_module(figure["drawn_by"])

    def page(draw: Callable[..., None], fig: Any) -> None:
        below_badge = fig.subfigures()
        draw(below_badge, frame, figure)
        if text := badge(tables):
            box = {"boxstyle": "round,pad=0.25", "fc": "0.93", "ec": "none"}
            fig.suptitle(text, fontsize=6, x=0.99, ha="right", color="0.35", bbox=box)

    pages: dict[Callable[[Any], None], tuple[float, float]] = {}
    pages[functools.partial(page, module.draw)] = figure["size_inches"]
    if hasattr(module, "supplement") and (second := module.supplement(figure)):
        pages[functools.partial(page, second[0])] = second[1]
    files = files_of(frame, pages)
    return {**files, "txt": f"{title(figure, tables)}\n\n{caption(figure, tables)}\n".encode()}


def files_of(
    frame: pd.DataFrame, draw: Mapping[Callable[[Any], None], tuple[float, float]]
) -> dict[str, bytes]:
    """The files of a picture and of the numbers that it shows, by extension.

    draw: is given the whole figure of a size in inches; a second one draws a page of the PDF.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        pages: list[Any] = []
        for each, size in [*draw.items()][: len(draw) if "pdf" in FORMATS else 1]:
            pages.append(Figure(figsize=size, layout="constrained"))
            each(pages[-1])
            pages[-1].get_layout_engine().execute(pages[-1])
            pages[-1].set_layout_engine()  # laid out once, the same in every format
        pictures = {extension: picture(extension, *pages) for extension in FORMATS}
    return {"csv": frame.to_csv(index=False, float_format=DIGITS).encode(), **pictures}


def frame_of(figure: Settings, tables: Tables, correlations: Tables | None = None) -> pd.DataFrame:
    """What a figure shows. Raises `PlanError` for what a table does not have."""
    from flatlab.lab.tables.networks import NotEligible, ResultTables

    select: Callable[..., pd.DataFrame] = importlib.import_module(figure["selected_by"]).frame
    try:
        return select(figure, ResultTables(tables, correlations))
    except NotEligible as missing:
        raise PlanError("; ".join(filter(None, [str(missing), missing.hint]))) from None


def completed(figure: Settings, tables: Tables) -> dict[str, Any]:
    """A figure with the units of all quantities, and its labels for stand-ins if all tables are."""
    arrays = (item for table in tables.values() for item in table.data_vars.items())
    units = {str(name): array.attrs.get("units", "") for name, array in arrays}
    whole = {**figure, "units": units}
    if all(table.attrs["evidence"] == "stand-in" for table in tables.values()):
        whole["labels"] = {**figure["labels"], **figure.get("of_stand_ins", {})}
    return whole


def badge(tables: Tables) -> str:
    """What the networks of a picture are, if they are not the paper's."""
    about = [table.attrs for table in tables.values()]
    kinds = {"demo" if each["scale"] == "demo" else each["evidence"] for each in about}
    return next((kind for kind in ("demo", "stand-in", "reduced") if kind in kinds), "")


def title(figure: Settings, tables: Tables) -> str:
    """The figure that is shown, with the scale and the data."""
    from flatlab.lab.figures.labels import in_words_of

    about_all = [table.attrs for table in tables.values()]
    scale, data = (" and ".join(dict.fromkeys(a[k] for a in about_all)) for k in ("scale", "data"))
    return f"{figure['cited']}: {figure['title']} ({scale}, {in_words_of(data)})."


def picture(extension: str, fig: Any, *more: Any) -> bytes:
    """One picture file, of a PDF with more pages. The same figure has the same bytes: no date.

    A PNG has 64 colours: less than a third of the size, and figures look the same. Moved to the
    means of what they stand for, they keep the greys of large cells grey.
    """
    from matplotlib.backends.backend_pdf import PdfPages
    from PIL import Image

    buffer = io.BytesIO()
    if extension == "svg":
        fig.savefig(buffer, format=extension, metadata={"Date": None})
        return buffer.getvalue()
    if extension == "pdf":
        with PdfPages(buffer, metadata={"CreationDate": None}) as pages:
            for each in (fig, *more):
                pages.savefig(each)
        return buffer.getvalue()
    fig.savefig(full := io.BytesIO(), format="png", pil_kwargs={"compress_level": 0})
    with Image.open(full) as picture:
        method, dither = Image.Quantize.MAXCOVERAGE, Image.Dither.NONE
        colours = picture.convert("RGB").quantize(64, method=method, dither=dither, kmeans=1)
        colours.save(buffer, "png", dpi=picture.info["dpi"], optimize=True)
    return buffer.getvalue()


def caption(figure: Mapping[str, Any], tables: Mapping[str, xr.Dataset]) -> str:
    """What a figure shows, and the networks of each of its tables that it shows."""
    published, brief = figure["publication"], len(tables) > 2
    held = [about(shown(figure, table), published, brief) for table in tables.values()]
    return " ".join([figure["caption"], *held])


def about(table: xr.Dataset, publication: bool = True, brief: bool = False) -> str:
    """What a table holds, so that no stand-in can pass for the paper's.

    publication: whether the experiment in full is a paper's.
    brief: without the accuracy of the networks of a zoo.
    """
    from flatlab.lab.figures.labels import extent_of, networks_of
    from flatlab.lab.tables.selection import counts, extent

    a = table.attrs
    counted = extent(a, **counts(table)) if "network" in a else a["extent"]
    what = extent_of({**a, "extent": counted})
    if brief:
        what = "; ".join(part for part in what.split("; ") if "accuracy" not in part)
    full = networks_of(a["stands_in_for"])
    full = f"the paper's {full or 'experiment'}" if publication else full or "the full experiment"
    instead = {"stand-in": f"; they stand in for {full}", "reduced": f"; reduced from {full}"}
    return f"{what[0].upper()}{what[1:]}{instead.get(a['evidence'], '')}."


def shown(figure: Mapping[str, Any], table: xr.Dataset) -> xr.Dataset:
    """The networks of a table that a figure is about.

    Those of the settings in its `where`, and of its `seeds`; of a figure through training, those
    that were measured through training.
    """
    from flatlab.lab.figures.labels import of_architecture
    from flatlab.lab.tables.networks import Networks
    from flatlab.lab.tables.selection import with_trajectories

    where, seeds = figure.get("where", {}), figure.get("seeds", ())
    if not where and not seeds and not figure["through_training"]:
        return table
    table = with_trajectories(table) if figure["through_training"] else table
    networks = Networks.of("", table).where(**where, **({"seed": seeds} if seeds else {}))
    chosen = table.isel(run=networks.chosen)
    if "not_converged" in table.attrs:
        slow = int((chosen["ended"].values == "finished").sum())
        chosen = chosen.assign_attrs(not_converged=slow)
    if "architecture" in where:
        names = ("network", "stands_in_for")
        attrs = {name: of_architecture(table.attrs[name], where["architecture"]) for name in names}
        chosen = chosen.assign_attrs(attrs)
    return chosen
