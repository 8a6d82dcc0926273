"""Which networks of a table are looked at, when and on which samples, and their columns."""

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from flatlab.lab.tables.columns import Column, UnknownColumn, in_words
from flatlab.lab.tables.curves import series
from flatlab.lab.tables.eligibility import NotEligible, interpolates, require_converged
from flatlab.lab.tables.selection import UNCHANGED, through_training
from flatlab.lab.tables.times import Time, at_time, counted
from flatlab.stats.estimate import Array

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class NetworkSelection:
    """Networks of one experiment: a selection of its table, at one time of training.

    key: the experiment.
    table: its table, all runs.
    chosen: which runs, those that diverged included: (run).
    time: when they are looked at, see `flatlab.lab.tables.times`.
    samples: the sample set that quantities were measured on.
    transformation: of the weights before they were measured.
    selection: the hyper-parameters that were chosen by value.
    left_out: what else was left out, in words.
    interpolating: whether networks that do not interpolate are left out.
    words: what columns are called in evidence, {"hessian_lambda_max": "lambda_max"}.
    name: what the networks are called in evidence; by default the experiment and the selection.
    times: the table at each time that was asked for, shared by all selections.
    """

    key: str
    table: xr.Dataset
    chosen: Mask
    time: Time = "end"
    samples: str = "train"
    transformation: str = UNCHANGED
    selection: Mapping[str, Any] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    interpolating: bool = False
    words: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    times: dict[tuple[Time, str, str], xr.Dataset] = field(default_factory=dict)

    @classmethod
    def of(cls, key: str, table: xr.Dataset) -> Self:
        """All networks of a table, at the end of training."""
        return cls(key, table, np.ones(table.sizes["run"], dtype=bool))

    def __repr__(self) -> str:
        return f"<{self.count} networks of {self.context}, {self.time}>"

    # ---- selections

    def where(self, **levels: Any) -> Self:
        """Those whose hyper-parameters have these values, or one of them: lr=0.1, lr=[0.1, 0.2]."""
        chosen = self.chosen
        for name, value in levels.items():
            chosen = chosen & np.isin(self._levels(name), value)
        return replace(self, chosen=chosen, selection={**self.selection, **levels})

    def below(self, **limits: float) -> Self:
        """Those whose hyper-parameters have smaller values."""
        chosen, left_out = self.chosen, self.left_out
        for name, limit in limits.items():
            chosen = chosen & (self._levels(name) < limit)
            left_out = (*left_out, f"{in_words({name: limit})} left out")
        return replace(self, chosen=chosen, left_out=left_out)

    def at_most(self, **limits: float) -> Self:
        """Those whose quantities, at this time, are at most these: train_error=1."""
        small = [self.column(name) <= limit for name, limit in limits.items()]
        chosen = np.zeros(len(self.chosen), dtype=bool)
        chosen[np.flatnonzero(self.rows)[np.all(small, axis=0)]] = True
        left_out = (f"above {in_words({name: limit})} left out" for name, limit in limits.items())
        return replace(self, chosen=chosen, left_out=(*self.left_out, *left_out))

    def by(self, *names: str) -> dict[Any, Self]:
        """Those of each level of a hyper-parameter, or of each combination of levels of several."""
        groups: dict[Any, Self] = {(): self}
        for name in names:
            groups = {
                (*levels, level): part
                for levels, group in groups.items()
                for level in group.levels(name)
                if (part := group.where(**{name: level})).count
            }
        return {key[0]: group for key, group in groups.items()} if len(names) == 1 else groups

    def levels(self, name: str) -> list[Any]:
        """The values of a hyper-parameter: numbers sorted, words in the order of the table."""
        values = self._levels(name)[self.rows]
        if not len(values):
            raise NotEligible(f"{self.key} has no networks ({in_words(self.selection)})")
        levels = list(dict.fromkeys(values.tolist()))
        return levels if isinstance(levels[0], str) else sorted(levels)

    def of_seeds(self, count: int) -> Self:
        """Those of the first seeds of each setting."""
        return self.among(self.table["seed"].values < count)

    def that_interpolate(self) -> Self:
        """Those whose training loss is below 1e-2 at the end."""
        return replace(self.among(interpolates(self.table).values), interpolating=True)

    def among(self, mask: Mask) -> Self:
        """Those for which a mask over all runs of the table is true."""
        return replace(self, chosen=self.chosen & mask)

    def at(self, time: Time) -> Self:
        """The same at another time: "first fit", "start", "growth", an iteration."""
        return replace(self, time=time)

    def on(self, samples: str) -> Self:
        """The same on other samples."""
        return replace(self, samples=samples)

    def after(self, transformation: str) -> Self:
        """The same after a transformation of their weights."""
        return replace(self, transformation=transformation)

    def called(self, name: str = "", **words: str) -> Self:
        """The same by another name in evidence.

        name: of the networks.
        words: of columns, by their names: jacobian_norm="J".
        """
        return replace(self, name=name or self.name, words={**self.words, **words})

    def with_table(self, change: Callable[..., xr.Dataset], *arguments: Any) -> Self:
        """The same in a table that is made of theirs: change(table, ...), with the same runs."""
        return replace(self, table=change(self.table, *arguments), times={})

    # ---- what they are

    @property
    def rows(self) -> Mask:
        """Which runs of the table count: (run). Those that diverged do not."""
        return self.chosen & counted(self.table)

    @property
    def count(self) -> int:
        """How many networks count."""
        return int(self.rows.sum())

    @functools.cached_property
    def data(self) -> xr.Dataset:
        """Their part of the table, without checkpoints and sample sets."""
        key = self.time, self.samples, self.transformation
        if key not in self.times:
            try:
                self.times[key] = at_time(self.table, *key)
            except UnknownColumn as missing:
                raise NotEligible(f"{self.key} {missing}") from missing
        return self.times[key].isel(run=np.flatnonzero(self.chosen[counted(self.table)]))

    @property
    def runs(self) -> xr.Dataset:
        """Their part of the table, at all checkpoints and on all sample sets."""
        chosen = self.table.isel(run=np.flatnonzero(self.chosen))
        return through_training(chosen, None, False, self.transformation)

    def series(self, name: str) -> Array:
        """A column at all checkpoints: (networks, checkpoints)."""
        require_converged(self.key, self.table, Column.of(name).quantity)
        return series(self.key, self.runs, name, self.samples)

    def column(self, name: str) -> Array:
        """A column, see `flatlab.lab.tables.columns`: (networks). An eigenvalue must have converged."""
        require_converged(self.key, self.table, Column.of(name).quantity)
        return self.values(name)

    def values(self, name: str) -> Array:
        """A column, whether it has converged or not, for figures."""
        try:
            return Column.of(name).values(self.data)
        except UnknownColumn as missing:
            raise NotEligible(f"{self.key} {missing}") from missing

    # ---- words

    def word(self, name: str) -> str:
        """What a column is called in evidence."""
        return self.words.get(name, name)

    @property
    def context(self) -> str:
        """What the networks are called in evidence."""
        parts = (self.key, in_words(self.selection), *self.left_out)
        return self.name or "; ".join(filter(None, parts))

    def _levels(self, name: str) -> NDArray[Any]:
        if name not in self.table.coords:
            raise NotEligible(f"{self.key} has no {name}")
        return self.table[name].values

    def _ordered(self, names: Iterable[str]) -> list[str]:
        """Names of columns, each once, in the order of the table: sums do not depend on a claim."""
        order = {str(name): place for place, name in enumerate(self.data.data_vars)}
        columns = {name: Column.of(name) for name in names}
        return sorted(
            columns,
            key=lambda name: (columns[name].function != "", order.get(columns[name].quantity, -1)),
        )
