"""One view of some networks of a table, for figures, claims and FINDINGS alike."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from flatlab.lab.tables.columns import in_words
from flatlab.lab.tables.curves import Curves
from flatlab.lab.tables.eligibility import (
    FEWEST_FOR_RANKS,
    FEWEST_RANKED,
    estimate,
    estimates,
    instability,
    require,
    require_correlated,
    require_measured,
    require_ranked,
)
from flatlab.lab.tables.network_selection import NetworkSelection
from flatlab.stats.correlation import KINDS, Correlations, Kind
from flatlab.stats.estimate import Array, Estimate, over_seeds, undefined
from flatlab.stats.ranks import Pairs, Ranks
from flatlab.stats.trends import difference, mean

Among = Literal["settings", "pool"]
BESIDE: tuple[Kind, ...] = ("within", "adjusted")


@dataclass(frozen=True, eq=False, repr=False)
class Networks(NetworkSelection):
    """Networks of one experiment, and what is estimated from them.

    Methods that return an `Estimate` hold the rules of `flatlab.lab.tables.eligibility`: what is not
    eligible is undefined, with the reason.
    """

    @property
    def curves(self) -> Curves:
        """Their training curves: of those that were measured more than once, if any was."""
        return Curves(self.key, self.table, self.rows, self.selection)

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

    def minus(self, other: "Networks", name: str) -> Estimate:
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
        beside = {KINDS[kind]: known.rhos(*pairs, kind=kind) for kind in BESIDE if grid}
        return [
            replace(
                rho,
                name=names[place],
                beside={kind: rhos[place] for kind, rhos in beside.items()},
                doubt=instability(known.constant_share(*pairs[place])) if grid else "",
            )
            for place, rho in enumerate(known.rhos(*pairs))
        ]

    def correlations(self, names: Iterable[str]) -> Correlations:
        """Correlations of some columns, if the networks are eligible."""
        networks, grid = self.data, "setting" in self.table.coords
        if grid:
            require_correlated(self.table, networks, self.interpolating)
        else:
            require_measured(self.key, self.count)
        columns = {name: self.column(name) for name in self._ordered(names)}
        labels = [str(label) for label in networks["setting" if grid else "family"].values]
        loss = networks["train_loss"].values if grid else None
        return Correlations(columns, labels, loss, None if grid else labels)

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
            require(count, self.key, what, "", "a rank correlation", FEWEST_FOR_RANKS)
            settings = [str(setting) for setting in self.data["setting"].values[finite]]
        elif count < FEWEST_RANKED:
            return [undefined(label, f"{label}: {count} networks have both") for label in labels]
        ranks = Ranks(dict(zip(names, columns[:, finite], strict=True)), settings)
        taus = [ranks.tau(*pair).called(label) for label, pair in zip(labels, pairs, strict=True)]
        return [require_ranked(tau) for tau in taus]

    def ranks(self, *names: str, pairs: Pairs | None = None) -> Ranks:
        """Rank correlations of columns over some pairs of networks: see `flatlab.stats.ranks`."""
        settings = [str(setting) for setting in self.data["setting"].values]
        return Ranks({name: self.column(name) for name in names}, settings, pairs)
