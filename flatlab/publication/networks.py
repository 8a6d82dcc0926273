"""The networks of a published table, as FINDINGS.md speaks of them."""

import functools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from flatlab import plan, store
from flatlab.stats.correlation import KINDS, Correlations
from flatlab.stats.estimate import Array, Estimate
from flatlab.tables import selection
from flatlab.tables.zoo import kept


class Interval(NamedTuple):
    """A number with its 95 % interval; NaN where one is not defined."""

    value: float
    low: float
    high: float


class Networks:
    """The networks of a table that did not diverge.

    Quantities are those of the table, `root_<name>` and `log <name>`.
    at: "end" (of training), "most" (the largest value in training), "growth" (that over the value
    at the first checkpoint), "increase" (that less it), "first fit" (when the training error of a
    network first was small, for grids with `checkpoints.fitted`), or an iteration.
    where: coordinates of a quantity with more dimensions, norm="kernel". Of a quantity per layer,
    the last layer is taken if none is named.
    """

    def __init__(self, path: Path, dataset: xr.Dataset) -> None:
        self.path, self.dataset = path, dataset
        if "diverged" in dataset.coords:
            self.runs = dataset.sel(run=~dataset["diverged"].values)
        else:
            self.runs = kept(dataset)

    def where(self, **values: Any) -> "Networks":
        """Those with these hyper-parameters, or of this family."""
        chosen = self.dataset
        for name, value in values.items():
            self._check(name, chosen.coords)
            chosen = chosen.sel(run=np.isin(chosen[name].values, value))
        if not chosen.sizes["run"]:
            raise store.StoreError(f"{self.path}: no network has {values}")
        return Networks(self.path, chosen)

    @property
    def count(self) -> int:
        """How many there are."""
        return self.runs.sizes["run"]

    @property
    def left_out(self) -> int:
        """How many more have diverged, or could not be measured."""
        return self.dataset.sizes["run"] - self.count

    @property
    def interpolates(self) -> int:
        """The first checkpoint at which the mean training loss is below 1e-2."""
        step = selection.interpolation_begins(selection.through_training(self.runs)["train_loss"])
        if math.isnan(step):
            raise store.StoreError(f"{self.path}: these networks do not interpolate")
        return int(step)

    @property
    def layers(self) -> list[str]:
        """The layers, from the first to the last."""
        return [str(layer) for layer in self.runs["layer"].values]

    def about(self, name: str) -> Any:
        """An attribute of the table: data, length, ..."""
        self._check(name, self.dataset.attrs)
        return self.dataset.attrs[name]

    def different(self, name: str) -> list[Any]:
        """The different values of a coordinate, sorted."""
        self._check(name, self.runs.coords)
        return sorted(set(self.runs[name].values.tolist()))

    def mean(self, name: str, at: int | str = "end", **where: str) -> float:
        """The mean of a quantity over the networks."""
        return float(np.nanmean(self.values(name, at, **where)))

    def least(self, name: str, at: int | str = "end", **where: str) -> float:
        """The least value of a quantity."""
        return float(np.nanmin(self.values(name, at, **where)))

    def most(self, name: str, at: int | str = "end", **where: str) -> float:
        """The largest value of a quantity."""
        return float(np.nanmax(self.values(name, at, **where)))

    def spread(self, name: str, at: int | str = "end", **where: str) -> float:
        """The standard deviation of a quantity between the seeds of a setting."""
        groups = pd.Series(self.values(name, at, **where)).groupby(self.runs["setting"].values)
        seeds = groups.count()
        return float(np.sqrt((groups.var() * (seeds - 1)).sum() / (seeds[seeds > 0] - 1).sum()))

    def zero(self, name: str) -> int:
        """How many have a quantity of zero at the end."""
        return int((self.values(name) == 0).sum())

    def peak(self, name: str) -> int:
        """The checkpoint at which the mean of a quantity is largest."""
        curves = selection.through_training(self.runs)
        self._check(name, curves)
        means = curves[name].sel(samples="train").mean("run").values
        return int(curves["checkpoint"].values[np.argmax(means)])

    def rho(
        self,
        x: str,
        y: str,
        kind: Any = "pooled",
        at: int | str = "end",
        minus: str = "",
        **where: str,
    ) -> Interval:
        """Pearson's correlation; `kind` is one of `flatlab.stats.KINDS`, or "families".

        With "families", each family of a zoo counts as one network, with the mean of its networks.
        minus: another quantity, whose correlation with x is subtracted, on Fisher's z.
        """
        if kind not in (*KINDS, "families"):
            raise store.StoreError(f"no kind of correlation {kind!r}; {plan.closest(kind, KINDS)}")
        names = [x, y, *([minus] if minus else []), *(["train_loss"] if kind == "adjusted" else [])]
        columns = {name: self.values(name, at, **where) for name in names}
        grid = "setting" in self.runs.coords
        groups = [str(name) for name in self.runs["setting" if grid else "family"].values]
        if kind == "families":
            columns = {name: _means(values, groups) for name, values in columns.items()}
            kind, groups = "pooled", sorted(set(groups))
        clusters = None if grid else groups  # networks of a family resemble each other
        found = Correlations(
            columns, groups, columns.get("train_loss") if kind == "adjusted" else None, clusters
        )
        pairs = [(x, name) for name in (y, minus) if name]
        rho, *others = found.rhos(*pairs, kind=kind)
        return interval(rho - others[0] if others else rho)

    def values(
        self, name: str, at: int | str = "end", samples: str = "train", **where: str
    ) -> Array:
        """A quantity of each network: (runs)."""
        chosen = self._at(at, samples)
        for prefix, function in (("root_", np.sqrt), ("log ", np.log)):
            if name not in chosen and name.startswith(prefix):
                return function(self.values(name.removeprefix(prefix), at, samples, **where))
        self._check(name, chosen)
        for key in where:
            self._check(key, chosen.dims)
        array = chosen[name]
        for dim in array.dims[1:]:
            label = where.get(str(dim), array[dim].values[-1] if dim == "layer" else "")
            if label not in array[dim].values:
                known = plan.closest(label, map(str, array[dim].values))
                raise store.StoreError(f"{self.path}: {name} with {dim} {label!r}; {known}")
            array = array.sel({dim: label})
        return array.values.astype(float)

    @functools.cache  # noqa: B019 - rendering ends the process
    def _at(self, at: int | str, samples: str) -> xr.Dataset:
        """The quantities of each network, without checkpoints and sample sets."""
        if "checkpoint" not in self.runs.dims:
            return self.runs
        if "samples" in self.runs.dims and samples not in self.runs["samples"].values:
            raise store.StoreError(f"{self.path} has no {samples} samples")
        if at == "end":
            return selection.end_of_training(self.runs, samples).transpose("run", ...)
        if at == "first fit":
            self._check("fitted", self.runs.coords)
            return selection.at_first_fit(self.runs, samples).transpose("run", ...)
        curves = selection.of_samples(self.runs, samples).transpose("run", ...)
        if at in ("most", "growth", "increase"):
            most, first = curves.max("checkpoint"), curves.isel(checkpoint=0)
            return {"most": most, "growth": most / first, "increase": most - first}[at]
        if at not in curves["checkpoint"].values:
            steps = ", ".join(f"{step}" for step in curves["checkpoint"].values)
            raise store.StoreError(f"{self.path} has no checkpoint {at!r}; there are {steps}")
        return curves.sel(checkpoint=at)

    def _check(self, name: str, known: Iterable[Any]) -> None:
        if name not in known:
            raise store.StoreError(f"{self.path} has no {name!r}; {plan.closest(name, known)}")


def interval(estimate: Estimate) -> Interval:
    """An estimate with the ends of its interval."""
    return Interval(estimate.value, *estimate.interval())


def _means(values: Array, groups: list[str]) -> Array:
    """The mean of the values of each group."""
    return np.array([values[np.array(groups) == group].mean() for group in sorted(set(groups))])
