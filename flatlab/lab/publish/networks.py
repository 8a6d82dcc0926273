"""The networks of a published table, as FINDINGS.md speaks of them."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from flatlab.core import store
from flatlab.lab import plan
from flatlab.lab.tables import selection
from flatlab.lab.tables.columns import UnknownColumn
from flatlab.lab.tables.eligibility import NotEligible
from flatlab.lab.tables.networks import Networks
from flatlab.lab.tables.times import Time
from flatlab.stats.correlation import KINDS, Correlations
from flatlab.stats.estimate import Array, Estimate
from flatlab.stats.ranks import Ranks, pairs_of


class Interval(NamedTuple):
    """A number with its 95 % interval; NaN where one is not defined."""

    value: float
    low: float
    high: float


class PublishedNetworks:
    """The networks of a published table: numbers as they are, whether a verdict may rest on them.

    path: of the table, for errors.
    networks: the networks.

    Columns and times are those of `flatlab.lab.tables`: "log mls", "weight_norm[fc1]"; at="growth".
    """

    def __init__(self, path: Path, networks: Networks) -> None:
        self.path, self.networks = path, networks

    def where(self, **values: Any) -> "PublishedNetworks":
        """Those with these hyper-parameters, or of this family."""
        for name in values:
            self._check(name, self.networks.table.coords)
        chosen = self.networks.where(**values)
        if not chosen.chosen.any():
            raise store.StoreError(f"{self.path}: no network has {values}")
        return PublishedNetworks(self.path, chosen)

    @property
    def count(self) -> int:
        """How many there are."""
        return self.networks.count

    @property
    def left_out(self) -> int:
        """How many more have diverged, or could not be measured."""
        return int(self.networks.chosen.sum()) - self.count

    @property
    def interpolates(self) -> int:
        """The first checkpoint at which the mean training loss is below 1e-2."""
        step = selection.interpolation_begins(self.networks.curves.runs["train_loss"])
        if math.isnan(step):
            raise store.StoreError(f"{self.path}: these networks do not interpolate")
        return int(step)

    @property
    def layers(self) -> list[str]:
        """The layers, from the first to the last."""
        return [str(layer) for layer in self.networks.table["layer"].values]

    def about(self, name: str) -> Any:
        """An attribute of the table: data, length, ..."""
        self._check(name, self.networks.table.attrs)
        return self.networks.table.attrs[name]

    def different(self, name: str) -> list[Any]:
        """The different values of a coordinate, sorted."""
        self._check(name, self.networks.table.coords)
        return sorted(self.networks.levels(name))

    def mean(self, name: str, at: Time = "end", samples: str = "train") -> float:
        """The mean of a quantity over the networks."""
        return float(np.nanmean(self.values(name, at, samples)))

    def least(self, name: str, at: Time = "end", samples: str = "train") -> float:
        """The least value of a quantity."""
        return float(np.nanmin(self.values(name, at, samples)))

    def most(self, name: str, at: Time = "end", samples: str = "train") -> float:
        """The largest value of a quantity."""
        return float(np.nanmax(self.values(name, at, samples)))

    def spread(self, name: str, at: Time = "end", samples: str = "train") -> float:
        """The standard deviation of a quantity between the seeds of a setting."""
        groups = pd.Series(self.values(name, at, samples)).groupby(self._labels("setting"))
        seeds = groups.count()
        return float(np.sqrt((groups.var() * (seeds - 1)).sum() / (seeds[seeds > 0] - 1).sum()))

    def zero(self, name: str) -> int:
        """How many have a quantity of zero at the end."""
        return int((self.values(name) == 0).sum())

    def peak(self, name: str) -> int:
        """The checkpoint at which the mean of a column is largest."""
        curves = self.networks.curves
        means = np.nanmean(curves.values(name), axis=0)
        return int(curves.runs["checkpoint"].values[np.argmax(means)])

    def rho(
        self, x: str, y: str, kind: Any = "pooled", at: Time = "end", minus: str = ""
    ) -> Interval:
        """Pearson's correlation; `kind` is one of `flatlab.stats.KINDS`, or "families".

        With "families", each family of a zoo counts as one network, with the mean of its networks.
        minus: another quantity, whose correlation with x is subtracted, on Fisher's z.
        """
        if kind not in (*KINDS, "families"):
            raise store.StoreError(f"no kind of correlation {kind!r}; {plan.closest(kind, KINDS)}")
        names = [x, y, *([minus] if minus else []), *(["train_loss"] if kind == "adjusted" else [])]
        columns = {name: self.values(name, at) for name in names}
        grid = "setting" in self.networks.table.coords
        groups = self._labels("setting" if grid else "family")
        if kind == "families":
            columns = {name: _means(values, groups) for name, values in columns.items()}
            kind, groups = "pooled", sorted(set(groups))
        clusters = None if grid else groups  # networks of a family resemble each other
        correlations = Correlations(
            columns, groups, columns.get("train_loss") if kind == "adjusted" else None, clusters
        )
        pairs = [(x, name) for name in (y, minus) if name]
        rho, *others = correlations.rhos(*pairs, kind=kind)
        return interval(rho - others[0] if others else rho)

    def tau(self, x: str, y: str, kind: Literal["pooled", "within"] = "pooled") -> Interval:
        """Kendall's tau over all pairs of networks, or over those of the seeds of each setting."""
        settings = self._labels("setting")
        pairs = pairs_of(settings) if kind == "within" else None
        return interval(Ranks({n: self.values(n) for n in (x, y)}, settings, pairs).tau(x, y))

    def values(self, name: str, at: Time = "end", samples: str = "train") -> Array:
        """A column: (networks)."""
        try:
            return self.networks.at(at).on(samples).values(name)
        except NotEligible as error:
            if not isinstance(missing := error.__cause__, UnknownColumn):
                raise
            what = f"{missing.what} {missing.name!r}".lstrip()
            known = plan.closest(missing.name, missing.known)
            raise store.StoreError(f"{self.path} has no {what}; {known}") from None

    def _labels(self, name: str) -> list[str]:
        return [str(label) for label in self.networks.data[name].values]

    def _check(self, name: str, known: Iterable[Any]) -> None:
        if name not in known:
            raise store.StoreError(f"{self.path} has no {name!r}; {plan.closest(name, known)}")


def interval(estimate: Estimate) -> Interval:
    """An estimate with the ends of its interval."""
    return Interval(estimate.value, *estimate.interval())


def _means(values: Array, groups: list[str]) -> Array:
    """The mean of the values of each group."""
    return np.array([values[np.array(groups) == group].mean() for group in sorted(set(groups))])
