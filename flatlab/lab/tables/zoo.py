"""The table of a zoo: one row per network. Coordinates: network, family, parameters, failure."""

from collections.abc import Iterable, Mapping
from typing import Any

import xarray as xr


def gather(parts: Iterable[xr.Dataset], about: Mapping[str, Any]) -> xr.Dataset:
    """Join the files of a zoo's jobs into a table, sorted by network.

    about: attributes, to which `extent` is added: what the zoo holds and what failed, in words.
    """
    parts = [part.drop_encoding() for part in parts if part.sizes["run"]]
    table = xr.concat(parts, "run").sortby("run")
    failed = int((table["failure"] != "").sum())
    families = len(set(table["family"].values))
    of = f" of {families} families" if families > 1 else ""
    what = "samples" if "hyperparameters" in about else "images"
    training = f", trained here for {about['training']}" if about["training"] else ", pretrained"
    extent = (
        f"{table.sizes['run']} networks{of} on {about['data']}{training}, "
        f"{about['samples']} {what} each{_accuracy(table)}"
    )
    extent += f"; {failed} could not be measured" if failed else ""
    table.attrs = {**about, "extent": extent}
    return table


def _accuracy(table: xr.Dataset) -> str:
    for name, words in (("train_accuracy", "training accuracy"), ("sample_accuracy", "accuracy")):
        if name in table and len(values := table[name].dropna("run").values):
            return f"; {words} {values.min():.0f} to {values.max():.0f} %"
    return ""


def kept(table: xr.Dataset) -> xr.Dataset:
    """The networks that were measured with a standard error within the allowed limit."""
    return table.sel(run=(table["finite"] == 1).values & (table["dropped"] == 0).values)
