"""One view of some networks of a table, for figures, claims and FINDINGS alike.

Which networks, when and on which samples; their columns; and what is estimated from these.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from flatlab.core.registry import experiment_files
from flatlab.core.schema import EVIDENCE, closest
from flatlab.lab.tables import eligibility
from flatlab.lab.tables.columns import Column, Time, at_time, counted, in_words
from flatlab.lab.tables.curves import Curves, series
from flatlab.lab.tables.eligibility import NotEligible, estimate, estimates, instability, require
from flatlab.lab.tables.selection import UNCHANGED, counts, one_per_run, through_training
from flatlab.stats.correlation import KINDS, Correlations, Kind
from flatlab.stats.estimate import Array, Estimate, over_seeds, strata_of, undefined
from flatlab.stats.ranks import Pairs, Ranks
from flatlab.stats.trends import contrast, difference, mean
from flatlab.stats.verdict import LEVEL

Mask = NDArray[np.bool_]
Among = Literal["settings", "pool"]
BESIDE: tuple[Kind, ...] = ("within", "adjusted")
"""The kinds of correlation that are told beside the one over all networks."""


@dataclass(frozen=True, eq=False, repr=False)
class Networks:
    """Networks of one experiment: a selection of its table, at one time of training.

    Methods that return an `Estimate` hold the rules of `eligibility`: what is not eligible is
    undefined, with the reason.

    key: the experiment.
    table: its table, all runs.
    chosen: which runs, those that diverged included: (run).
    time: when they are looked at, see `flatlab.lab.tables.columns`.
    samples: the sample set that quantities were measured on.
    transformation: of the weights before they were measured.
    selection: the hyper-parameters that were chosen by value.
    exclusions: what else was left out, in words.
    interpolating: whether networks that do not interpolate are left out.
    words: what columns are called in evidence, {"hessian_lambda_max": "lambda_max"}.
    name: what the networks are called in evidence; by default the experiment and the selection.
    times: the table at each time that was asked for, and through training, shared by all
        selections.
    """

    key: str
    table: xr.Dataset
    chosen: Mask
    time: Time = "end"
    samples: str = "train"
    transformation: str = UNCHANGED
    selection: Mapping[str, Any] = field(default_factory=dict)
    exclusions: tuple[str, ...] = ()
    interpolating: bool = False
    words: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    times: dict[Any, xr.Dataset] = field(default_factory=dict)

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
        chosen, exclusions = self.chosen, self.exclusions
        for name, limit in limits.items():
            chosen = chosen & (self._levels(name) < limit)
            exclusions = (*exclusions, f"{in_words({name: limit})} left out")
        return replace(self, chosen=chosen, exclusions=exclusions)

    def at_most(self, **limits: float) -> Self:
        """Those whose quantities, at this time, are at most these: train_error=1."""
        small = [self.column(name) <= limit for name, limit in limits.items()]
        chosen = np.zeros(len(self.chosen), dtype=bool)
        chosen[np.flatnonzero(self.rows)[np.all(small, axis=0)]] = True
        exclusions = (f"above {in_words({name: limit})} left out" for name, limit in limits.items())
        return replace(self, chosen=chosen, exclusions=(*self.exclusions, *exclusions))

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

    def that_interpolate(self) -> Self:
        """Those whose training loss is below 1e-2 at the end."""
        return replace(self.among(eligibility.interpolates(self.table)), interpolating=True)

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

    def labelled(self, name: str = "", **words: str) -> Self:
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
        return self._at_time.isel(run=self._places)

    @property
    def _places(self) -> NDArray[np.int_]:
        return np.flatnonzero(self.chosen[counted(self.table)])

    @property
    def _at_time(self) -> xr.Dataset:
        """All networks of the table that count, of which one column is read faster than a part."""
        key = self.time, self.samples, self.transformation
        if key not in self.times:
            self.times[key] = at_time(self.table, *key)
        return self.times[key]

    @property
    def runs(self) -> xr.Dataset:
        """Their part of the table, at all checkpoints and on all sample sets."""
        chosen = self.table.isel(run=np.flatnonzero(self.chosen))
        return through_training(chosen, False, self.transformation)

    def series(self, name: str) -> Array:
        """A column at all checkpoints: (networks, checkpoints)."""
        eligibility.require_converged(self.key, self.table, Column.of(name).quantity)
        return series(self.key, self.runs, name, self.samples)

    def column(self, name: str) -> Array:
        """A column, see `tables.columns`: (networks). An eigenvalue must have converged."""
        eligibility.require_converged(self.key, self.table, Column.of(name).quantity)
        return self.values(name)

    def values(self, name: str) -> Array:
        """A column, whether it has converged or not, for figures."""
        return Column.of(name).values(self._at_time)[self._places]

    def labels(self, name: str) -> NDArray[Any]:
        """A hyper-parameter, whose values may be words, or a column: (networks)."""
        coordinates = self._at_time.coords
        return coordinates[name].values[self._places] if name in coordinates else self.values(name)

    # ---- words

    def word(self, name: str) -> str:
        """What a column is called in evidence."""
        return self.words.get(name, name)

    @property
    def context(self) -> str:
        """What the networks are called in evidence."""
        parts = (self.key, in_words(self.selection), *self.exclusions)
        return self.name or "; ".join(filter(None, parts))

    def _levels(self, name: str) -> NDArray[Any]:
        if name not in self.table.coords:
            known = [*self.table.attrs.get("hyperparameters", []), *map(str, self.table.coords)]
            raise NotEligible(f"{self.key} has no {name}", closest(name, known))
        return self.table[name].values

    def _ordered(self, names: Iterable[str]) -> list[str]:
        """Names of columns, each once, in the order of the table: sums do not depend on a claim."""
        order = {str(name): place for place, name in enumerate(self._at_time.data_vars)}
        columns = {name: Column.of(name) for name in names}
        return sorted(
            columns,
            key=lambda name: (columns[name].function != "", order.get(columns[name].quantity, -1)),
        )

    # ---- curves

    @property
    def curves(self) -> Curves:
        """Their training curves: of those that were measured more than once, if any was."""
        return Curves(self.key, self.table, self.rows, self.selection, self.times)

    # ---- means

    def seeds(self, name: str) -> Array:
        """The finite values of a column, as many as a mean needs: (networks)."""
        values = self.column(name)
        values = values[np.isfinite(values)]
        where = in_words(self.selection)
        what = f"networks with {name}" + (f" ({where})" if where else "")
        require(len(values), self.name or self.key, what)
        return values

    def mean(self, name: str) -> Estimate:
        """The mean of a column over the networks."""
        label = f"{self.word(name)}; {self.context}"
        return estimate(label, lambda: over_seeds(label, mean, self.seeds(name)))

    def mean_of(self, name: str, values: Array) -> Estimate:
        """The mean of a number of each network; settings are fixed, and their seeds vary by chance.

        name: what it is called.  values: (networks), of which only those that are finite count.
        """
        finite = np.isfinite(values)
        require(int(finite.sum()), self.key, f"networks with {name}")
        strata = strata_of(self.data["setting"].values[finite])
        groups = [values[finite][strata == stratum] for stratum in np.unique(strata)]
        return contrast(name, groups, [len(group) / finite.sum() for group in groups])

    def minus(self, other: Self, name: str) -> Estimate:
        """How much larger the mean of a column is than over other networks."""
        mine, others = (in_words(networks.selection) for networks in (self, other))
        label = f"{self.word(name)}({mine}) - ({others}); {self.key}"
        return estimate(label, lambda: difference(label, self.seeds(name), other.seeds(name)))

    def steps(self, name: str, along: str, levels: Sequence[Any] = ()) -> list[Estimate]:
        """From each level of a hyper-parameter to the next: how much larger a column becomes."""
        at = [self.where(**{along: level}) for level in levels or self.levels(along)]
        return [larger.minus(smaller, name) for smaller, larger in pairwise(at)]

    # ---- correlations

    def rho(self, x: str, y: str) -> Estimate:
        """Pearson's correlation of two columns, over all networks."""
        return self.rhos((x, y))[0]

    def rhos(self, *pairs: tuple[str, str]) -> list[Estimate]:
        """Pearson's correlations of pairs of columns, to be compared: over the same networks.

        Beside each are those within settings and adjusted for the training loss. Networks of a zoo
        resemble each other within their family: there families are the units that vary by chance.
        """
        names = [f"rho({self.word(x)}, {self.word(y)}); {self.context}" for x, y in pairs]
        return estimates(names, lambda: self._rhos(names, pairs))

    def _rhos(self, names: list[str], pairs: Sequence[tuple[str, str]]) -> list[Estimate]:
        known = self.correlations(name for pair in pairs for name in pair)
        grid = known.clusters is None
        alternatives = {KINDS[kind]: known.rhos(*pairs, kind=kind) for kind in BESIDE if grid}
        return [
            replace(
                rho,
                name=names[place],
                alternatives={kind: rhos[place] for kind, rhos in alternatives.items()},
                instability=instability(known.constant_share(*pairs[place])) if grid else "",
            )
            for place, rho in enumerate(known.rhos(*pairs))
        ]

    def correlations(self, names: Iterable[str]) -> Correlations:
        """Correlations of some columns, if the networks are eligible."""
        if "setting" in self.table.coords:
            eligibility.require_correlated(self.table, self.data, self.interpolating)
        else:
            eligibility.require_measured(self.key, self.count)
        ordered = self._ordered(names)
        for name in ordered:
            eligibility.require_converged(self.key, self.table, Column.of(name).quantity)
        return self.drawn_correlations(ordered)

    @property
    def quantities(self) -> list[str]:
        """All columns that need no label.

        Correlated together with what a figure shows they make the last digit of a number
        independent of what else is shown.
        """
        return one_per_run(self._at_time)

    def drawn_correlations(self, names: Iterable[str]) -> Correlations:
        """For figures: as `correlations`, however few networks, whatever has converged."""
        grid = "setting" in self.table.coords
        values = {name: self.values(name) for name in names}
        labels = [str(label) for label in self.labels("setting" if grid else "family")]
        loss = self.values("train_loss") if "train_loss" in self._at_time and grid else None
        return Correlations(values, labels, loss, None if grid else labels)

    def correlation_matrices(self, names: Iterable[str]) -> xr.Dataset:
        """`drawn_correlations` of all pairs: rho, low and high of (kind, x, y).

        kind: pooled, within and between settings, adjusted for the training loss.
        """
        columns = [*dict.fromkeys(names)]
        correlations = self.drawn_correlations(columns)
        matrices = zip(*(correlations.matrix(kind) for kind in KINDS), strict=True)
        variables = {
            name: (("kind", "x", "y"), np.stack(parts))
            for name, parts in zip(("rho", "low", "high"), matrices, strict=True)
        }
        labels = {"kind": list(KINDS), "x": columns, "y": columns}
        coordinates = {dim: np.array(values, dtype=object) for dim, values in labels.items()}
        attrs = {**self.table.attrs, **counts(self.table), "level": LEVEL}
        return xr.Dataset(variables, coords=coordinates, attrs=attrs)

    def tau(self, x: str, y: str, among: Among = "settings") -> Estimate:
        """Kendall's tau-a of two columns, see `taus`."""
        return self.taus((x, y), among=among)[0]

    def taus(
        self, *pairs: tuple[str, str], among: Among = "settings", where: str | None = None
    ) -> list[Estimate]:
        """Kendall's tau-a of pairs of columns, to be compared: over the same networks.

        among: "settings", which are fixed, and whose seeds vary by chance; or "pool", of which all
            networks vary by chance.
        where: what evidence says behind "tau(x, y)"; by default what the networks are called.
        """
        where = f"; {self.context}" if where is None else where
        labels = [f"tau({self.word(x)}, {self.word(y)}){where}" for x, y in pairs]
        return estimates(labels, lambda: self._taus(labels, pairs, among))

    def _taus(
        self, labels: list[str], pairs: Sequence[tuple[str, str]], among: Among
    ) -> list[Estimate]:
        names = sorted({name for pair in pairs for name in pair})
        columns = np.array([self.column(name) for name in names])
        finite = np.isfinite(columns).all(axis=0)
        count, settings = int(finite.sum()), None
        if among == "settings":
            what = f"networks ({in_words(self.selection) or 'in all'})"
            require(count, self.key, what, "", "a rank correlation", eligibility.FEWEST_FOR_RANKS)
            settings = [str(setting) for setting in self.labels("setting")[finite]]
        elif count < eligibility.FEWEST_RANKED:
            return [undefined(label, f"{label}: {count} networks have both") for label in labels]
        ranks = Ranks(dict(zip(names, columns[:, finite], strict=True)), settings)
        taus = [ranks.tau(*pair).labelled(label) for label, pair in zip(labels, pairs, strict=True)]
        return [eligibility.require_ranked(tau) for tau in taus]

    def ranks(self, *names: str, pairs: Pairs | None = None) -> Ranks:
        """Rank correlations of columns over some pairs of networks: see `flatlab.stats.ranks`."""
        settings = [str(setting) for setting in self.labels("setting")]
        return Ranks({name: self.column(name) for name in names}, settings, pairs)


class ResultTables:
    """What figures and claims are given: the networks of experiments, by key, and their tables.

    tables: the tables.
    matrices: correlation matrices, where a job has computed them.
    used: the experiments whose tables were asked for.

    `NotEligible` is raised for an experiment that is not among them.
    """

    def __init__(
        self, tables: Mapping[str, xr.Dataset], matrices: Mapping[str, xr.Dataset] | None = None
    ) -> None:
        self.tables = tables
        self.matrices = matrices or {}
        self.used: set[str] = set()
        self._networks: dict[str, Networks] = {}

    def table(self, key: str) -> xr.Dataset:
        """The table of an experiment."""
        if key not in self.tables:
            unknown = "" if key in experiment_files() else f"; {closest(key, self.tables)}"
            raise NotEligible(f"{key} is not among the tables{unknown}")
        self.used.add(key)
        return self.tables[key]

    def __getitem__(self, key: str) -> Networks:
        """The networks of an experiment, at the end of training."""
        table = self.table(key)
        if key not in self._networks:
            self._networks[key] = Networks.of(key, table)
        return self._networks[key]

    def items(self) -> Iterator[tuple[str, Networks]]:
        """The networks of all of them."""
        return ((key, self[key]) for key in self.tables)

    def correlations(self, key: str, columns: Iterable[str]) -> xr.Dataset:
        """The correlation matrices of an experiment, of which a job computes those of quantities.

        columns: those that are asked for, among others; of a label or a logarithm, too.
        """
        networks, columns = self[key], [*columns]
        known = self.matrices.get(key)
        if known is None or not {*columns} <= {*known["x"].values}:
            known = networks.correlation_matrices([*networks.quantities, *columns])
        return known

    @property
    def fidelity(self) -> str:
        """The worst among the tables that were used: own, reduced, stand-in; "" if none was."""
        levels = [self.tables[key].attrs["evidence"] for key in self.used]
        return max(levels, key=EVIDENCE.index, default="")

    @property
    def differs(self) -> list[str]:
        """What differs from the paper's experiments in the tables that were used."""
        by_key = {key: self.tables[key].attrs["differs"] for key in sorted(self.used)}
        return [f"{key}: {what}" for key, differs in by_key.items() for what in differs]
