"""Reports of `flatlab measure`, without a declaration: quantities by layer, a line per report."""

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from flatlab.plan.labels import labels_of
from flatlab.plan.schema import PlanError, closest
from flatlab.plotting.labels import title_of
from flatlab.plotting.render import FORMATS, STYLE

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
        size = (7.1, 1.0 + 2.2 * -(-len(names) // 3))
        fig: Any = Figure(figsize=size, layout="constrained")
        across = min(3, len(names))
        axes = fig.subplots(-(-len(names) // across), across, squeeze=False)
        for ax, name in zip(axes.flat, names, strict=False):
            for report, rows in frame[frame["quantity"] == name].groupby("report", sort=False):
                ax.plot(rows["layer"], rows["value"], marker="o", ms=3, lw=0.9, label=report)
            ax.set_title(title_of(words, name), loc="left")
            if (frame.loc[frame["quantity"] == name, "value"] > 0).all():
                ax.set_yscale("log")
            ax.tick_params(axis="x", rotation=30)
        for ax in axes.flat[len(names) :]:
            ax.set_axis_off()
        axes[0, 0].legend()
        fig.suptitle(title or first.attrs.get("title", ""), fontsize=8, x=0.01, ha="left")
        return {"csv": frame.to_csv(index=False).encode(), **_pictures(fig)}


def _pictures(fig: Any) -> dict[str, bytes]:
    """The picture files, without a date, so that equal figures have equal bytes."""
    dates = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    found = {}
    for extension in FORMATS:
        fig.savefig(buffer := io.BytesIO(), format=extension, metadata=dates.get(extension))
        found[extension] = buffer.getvalue()
    return found


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
