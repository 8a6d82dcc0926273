"""The table of an experiment: the metric files of its networks as one xarray dataset.

Of a grid, its dimensions are run, checkpoint (iteration), samples (sample set) and layer.
Coordinates of a run: setting, seed, the hyper-parameters of its setting, `steps` (the iterations it
took), `ended` (finished, stopped or diverged), `diverged` (whether it is left out) and, for grids
with `checkpoints.fitted`, `fitted` (the iteration at which its training error first was small; NaN
if never).

Of networks that a study builds, it has what that of a grid has: one checkpoint, 1, the trained
network; one sample set, train; and the coordinates file, parameters and failure (why a network
could not be measured). Of a zoo, it has a row for each network, with the coordinates network,
family, parameters and failure.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from flatlab.core.run_records import RunRecords
from flatlab.core.store import as_strings
from flatlab.lab.tables.selection import counts, extent
from flatlab.measuring.dataset import Row, stacked

PERFORMANCE = ("train_", "test_", "error_gap", "loss_gap")
"""How quantities of whole training and test sets begin; others are of a sample set."""


def of_grid(parts: Iterable[xr.Dataset], settings: Mapping[str, Any]) -> xr.Dataset:
    """Join metric files (one per pack and family) into a table.

    settings: `runs` (the order of the rows), `diverged_below` (training accuracy in %, or
    None), `converged_only` (whether runs that were not stopped are flagged, too), and `about`, the
    attributes of the table, to which `extent` and, of such runs, `not_converged` are added.
    """
    by_pack: dict[str, list[xr.Dataset]] = {}
    for part in parts:
        # Without the chunks and number types of its file, which xarray would write a table in: tens
        # of thousands of chunks, and a rate of 0.5 cut to 0 where the first file has whole numbers.
        by_pack.setdefault(str(part.run.values[0]), []).append(part.drop_encoding())
    packs = [_merged(families) for families in by_pack.values()]
    packs = [pack.assign_coords(diverged=("run", _diverged(pack, settings))) for pack in packs]
    # Runs that were kept at fewer checkpoints have missing values at the others.
    checkpoints = sorted({int(step) for pack in packs for step in pack["checkpoint"].values})
    packs = [pack.reindex(checkpoint=checkpoints) for pack in packs]
    packs = _with_all_layers(_with_all_hyperparameters(packs))
    table = xr.concat(packs, "run", join="exact", coords="minimal", compat="equals")
    table = table.sel(run=list(settings["runs"]))
    about = dict(settings["about"])
    if settings.get("converged_only"):
        about["not_converged"] = int((table["ended"].values == "finished").sum())
    table.attrs = {**about, "extent": extent(about, **counts(table))}
    return table


def _merged(families: list[xr.Dataset]) -> xr.Dataset:
    """The files of one pack; a quantity that several families have is that of the first.

    Families that are measured at the end alone have missing values at the other checkpoints.
    """
    known: set[str] = set()
    checkpoints = max(([*map(int, part["checkpoint"].values)] for part in families), key=len)
    parts = []
    for part in families:
        names = {str(name) for name in part.data_vars}
        steps = {*map(int, part["checkpoint"].values)}
        if checkpoints[-1] in steps < {*checkpoints}:
            part = part.reindex(checkpoint=checkpoints)
        parts.append(part.drop_vars(names & known))
        known |= names
    return xr.merge(parts, join="exact", compat="equals")


def _with_all_hyperparameters(packs: list[xr.Dataset]) -> list[xr.Dataset]:
    """The same; one that only the settings of some packs name is empty, or NaN, in the others."""
    known = {
        name: as_strings([""]) if value.dtype.kind in "OTU" else np.array([np.nan])
        for pack in packs
        for name, value in pack.coords.items()
        if value.dims == ("run",)
    }

    def lacking(pack: xr.Dataset) -> dict[Any, Any]:
        names = [name for name in known if name not in pack.coords]
        return {name: ("run", known[name].repeat(pack.sizes["run"])) for name in names}

    return [pack.assign_coords(lacking(pack)) for pack in packs]


def _with_all_layers(packs: list[xr.Dataset]) -> list[xr.Dataset]:
    """The same; of several architectures, each lacks the values of the layers of the others."""
    layers = [tuple(pack["layer"].values) for pack in packs if "layer" in pack.dims]
    if len({*layers}) < 2:
        return packs
    known = as_strings(list(dict.fromkeys(itertools.chain(*layers))))
    return [pack.reindex(layer=known) if "layer" in pack.dims else pack for pack in packs]


def _diverged(pack: xr.Dataset, settings: Mapping[str, Any]) -> np.ndarray:
    """Whether each run of a pack ended without a finite loss or without what the grid demands."""
    end = pack.isel(checkpoint=-1)
    diverged = ~np.isfinite(end["train_loss"].values)
    if settings["diverged_below"] is not None:
        diverged |= ~(end["train_accuracy"].values >= settings["diverged_below"])
    if settings.get("converged_only"):
        diverged |= pack["ended"].values != "stopped"
    return diverged


def of_zoo(parts: Iterable[xr.Dataset], about: Mapping[str, Any]) -> xr.Dataset:
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
        f"{about['samples']} {what} each{_accuracies(table)}"
    )
    extent += f"; {failed} could not be measured" if failed else ""
    table.attrs = {**about, "extent": extent}
    return table


def _accuracies(table: xr.Dataset) -> str:
    for name, words in (("train_accuracy", "training accuracy"), ("sample_accuracy", "accuracy")):
        if name in table and len(values := table[name].dropna("run").values):
            return f"; {words} {values.min():.0f} to {values.max():.0f} %"
    return ""


def of_networks(
    rows: Sequence[tuple[int, Row]], records: RunRecords, about: Mapping[str, Any]
) -> xr.Dataset:
    """Join rows to a table.

    rows: each behind the place of its network in the records. A quantity that several rows of one
        network have is that of the first.
    records: hyper-parameters and outcomes; these go before measured quantities of the same name.
    about: attributes, to which `extent` is added: what the table holds, and what failed, in words.
    """
    count = len(records.files)
    described = {name: each for _, row in rows for name, each in row.about["described"].items()}
    dims = {name: (*_samples_of(name), *each["dims"]) for name, each in described.items()}
    placed = [((place, 0), _with_samples(row)) for place, row in rows]
    found, labels = stacked(placed, {"run": count, "checkpoint": 1}, dims)
    variables: dict[str, Any] = {
        name: (*variable, {k: v for k, v in described[name].items() if k != "dims"})
        for name, variable in found.items()
    }
    outcomes = [dict(each) for each in records.outcomes]
    for place, row in rows:
        outcomes[place] = {**row.about.get("outcomes", {}), **outcomes[place]}
    for name in dict.fromkeys(name for each in outcomes for name in each):
        given = np.array([[each.get(name, np.nan)] for each in outcomes], float)
        words = {"long_name": f"{name.replace('_', ' ')}, as given", "units": "", "source": ""}
        variables[name] = (("run", "checkpoint"), given, words)
    if "train_loss" not in variables:  # where there are no targets, or nothing could be measured
        variables["train_loss"] = ("run", "checkpoint"), np.full((count, 1), np.nan)
    table = xr.Dataset(variables, {**labels, **_coordinates(rows, records)})
    table = table.assign_coords(diverged=("run", _not_measured(rows, table)))
    samples = max(row.about["samples"] for _, row in rows)
    failed = int((table["failure"].values != "").sum())
    extent = f"{count} networks of {about['model']} on {samples} samples of {about['data']}"
    extent += f", trained {about['trained']}"
    more = {
        "hyperparameters": [*records.hyperparameters[0]],
        "outcomes": list(dict.fromkeys(name for each in outcomes for name in each)),
        "extent": f"{extent}; {failed} could not be measured" if failed else extent,
        "samples": samples,
        "loss": next((row.about["loss"] for _, row in rows if "loss" in row.about), ""),
    }
    return table.assign_attrs({"stands_in_for": "", "differs": [], "left_out": 0, **about, **more})


def _not_measured(rows: Sequence[tuple[int, Row]], table: xr.Dataset) -> np.ndarray:
    """Whether nothing of a network could be measured, or its training loss is not finite."""
    measured = {place for place, row in rows if row.values}
    nothing = np.array([place not in measured for place in range(table.sizes["run"])])
    loss = table["train_loss"].values[:, 0]
    told = np.isfinite(loss).any()  # without targets it is known of none
    return nothing | ~np.isfinite(loss) if told else nothing


def _samples_of(name: str) -> tuple[str, ...]:
    return () if name.startswith(PERFORMANCE) else ("samples",)


def _with_samples(row: Row) -> Row:
    """The same with an axis for the sample set."""
    values = {n: each[None] if _samples_of(n) else each for n, each in row.values.items()}
    return row._replace(values=values)


def _coordinates(rows: Sequence[tuple[int, Row]], records: RunRecords) -> dict[str, Any]:
    count = len(records.files)
    failures: list[list[str]] = [[] for _ in range(count)]
    for place, row in rows:
        if row.about["failure"] not in ("", *failures[place]):
            failures[place].append(row.about["failure"])
    words = {
        "run": records.names,
        "setting": records.settings,
        "file": [str(file) for file in records.files],
        "failure": ["; ".join(each) for each in failures],
        "ended": ["finished"] * count,
    }
    found: dict[str, Any] = {name: ("run", as_strings(each)) for name, each in words.items()}
    found |= {"checkpoint": [1], "samples": as_strings(["train"])}
    found["seed"] = "run", np.array(records.seeds, np.int64)
    found["steps"] = "run", np.ones(count, np.int64)
    sizes = {place: row.about["parameters"] for place, row in rows}
    found["parameters"] = "run", np.array([sizes.get(n, 0) for n in range(count)], np.int64)
    for name in records.hyperparameters[0]:
        found[name] = "run", _column([values[name] for values in records.hyperparameters])
    return found


def _column(values: list[Any]) -> np.ndarray:
    """Numbers, or words where one of them is no number."""
    if all(isinstance(value, int | float | np.number) for value in values):
        return np.array(values, float)
    return as_strings([str(value) for value in values])
