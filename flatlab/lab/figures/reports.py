"""Reports of `flatlab measure`, without a declaration: quantities by layer, a line per report."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from flatlab.core.schema import PlanError, closest
from flatlab.lab.figures.labels import title_of
from flatlab.lab.figures.panels import colored, legend, panels
from flatlab.lab.figures.render import FORMATS, STYLE, picture
from flatlab.lab.plan.declarations import labels_of

if TYPE_CHECKING:
    import xarray as xr

COLUMNS = ["report", "quantity", "layer", "value"]


def by_layer(
    reports: Mapping[str, "xr.Dataset"], names: Sequence[str], title: str = ""
) -> dict[str, bytes]:
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


def _frame(reports: Mapping[str, "xr.Dataset"], names: Sequence[str]) -> pd.DataFrame:
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
