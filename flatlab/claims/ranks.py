"""Pools of networks: Kendall's tau of sharpness with errors, over all of them and within groups."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.claims.eligibility import FEWEST_FOR_MEAN, FEWEST_FOR_RANKS, NotThere, enough_ranked
from flatlab.claims.evidence import Evidence
from flatlab.stats.estimate import Estimate, over_seeds, undefined
from flatlab.stats.trends import mean
from flatlab.stats.verdict import Verdict
from flatlab.tables.ranks import at_radius, eligible, ended, groups_of, rank_correlations

Sharpness = tuple[str, int]
"""A definition, and the number of one of its radii."""

FLATTEST, LOWER = 0.1, 0.25
"""The share of a pool that is the flattest, and the quantile of all errors that is good."""


def ranked(networks: pd.DataFrame, *pairs: tuple[str, str], where: str = "") -> list[Estimate]:
    """Kendall's tau-a of each pair of columns, of as many networks as it needs."""
    return [enough_ranked(tau) for tau in rank_correlations(networks, *pairs, where=where)]


@dataclass(frozen=True)
class Pool:
    """The networks of an experiment that claims compare.

    at_most: only those for which these quantities are at most so large.  by: the hyper-parameters
    whose combinations are groups.
    """

    key: str
    end: xr.Dataset
    at_most: Mapping[str, float]
    by: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        e: Evidence,
        key: str,
        at_most: Mapping[str, float],
        by: Sequence[str] = (),
        only: Mapping[str, Any] = MappingProxyType({}),
    ) -> "Pool":
        """only: hyper-parameters and their values, of all networks of the pool.

        Raises `NotThere` if the sharpness of its networks was not measured.
        """
        end = ended(e.table(key))
        for name in ("sharpness_at_radius", *at_most):
            if name not in end:
                raise NotThere(f"{key} has no {name}")
        for name, value in only.items():
            end = end.sel(run=end[name].values == value)
        return cls(key, end, at_most, by)

    @cached_property
    def about(self) -> pd.DataFrame:
        """Of each network its hyper-parameters and `at_most`, and whether it is `kept`."""
        names = [name for name in (*self.by, *self.at_most, "lr") if name in self.end]
        columns = {name: self.end[name].values for name in names}
        return pd.DataFrame({**columns, "kept": eligible(self.end, self.at_most)})

    def groups(self) -> dict[str, "Pool"]:
        """The pool of each group, by its name."""
        return {
            name: Pool(f"{self.key}, {name}", self.end.isel(run=rows.index), self.at_most)
            for name, rows in self._groups()
        }

    def column(self, what: str | Sharpness) -> tuple[str, np.ndarray]:
        """A name and the values of all networks: of a sharpness, of the error on a test set, or of
        a hyper-parameter.
        """
        if not isinstance(what, str):
            definition, index = what
            if definition not in self.end["definition"].values:
                raise NotThere(f"{self.key} has no {definition}")
            radius = at_radius(self.end, definition, index, "radius")
            name = f"{definition} at {radius[0]:g}" if len(radius) else definition
            return name, at_radius(self.end, definition, index)
        if what in self.about:
            return what, self.about[what].to_numpy()
        if "test_set" not in self.end.dims or what not in self.end["test_set"].values:
            raise NotThere(f"{self.key} has no test set {what}")
        return f"error on {what}", self.end["test_set_error"].sel(test_set=what).values

    def columns(self, *which: str | Sharpness) -> pd.DataFrame:
        """These columns of the networks that are kept, and the hyper-parameters of their groups."""
        found = dict(map(self.column, which))
        return pd.DataFrame({**self.about[list(self.by)], **found})[self.about["kept"]]

    def tau(self, x: str | Sharpness, y: str | Sharpness) -> Estimate:
        """Over all networks that are kept."""
        frame = self.columns(x, y)
        pair = self.column(x)[0], self.column(y)[0]
        return ranked(frame, pair, where=f"; {self.key}")[0]

    def taus(self, x: str | Sharpness, y: str | Sharpness) -> dict[str, Estimate]:
        """Within each group, by its name; one with too few networks says why and what it lacks."""
        found = {}
        for name, group in self.groups().items():
            tau = group.tau(x, y)
            if tau.reason:
                tau = undefined(tau.name, f"{tau.reason}; {group._filtered()}")
            found[name] = tau
        return found

    def beside_all(self, x: str | Sharpness, y: str | Sharpness) -> Iterator[Estimate]:
        """How much tau within each group exceeds that over all: z less z, stratified by group."""
        whole, frame = self.tau(x, y), self.columns(x, y)
        pair = [self.column(each)[0] for each in (x, y)]
        finite = np.isfinite(frame[pair].to_numpy(float)).all(axis=1)
        labels = self._labels()[frame.index.to_numpy()[finite]]
        strata = np.unique(labels, return_inverse=True)[1]
        whole = replace(whole, strata=strata) if not whole.reason else whole
        for name, tau in self.taus(x, y).items():
            if tau.reason or whole.reason:
                yield tau - whole
                continue
            left_out = np.full(len(labels), tau.point)
            left_out[labels == name] = tau.left_out
            yield replace(tau, left_out=left_out, strata=strata) - whole

    def flattest(self, x: Sharpness, test_set: str) -> Estimate:
        """The mean error of the flattest tenth less the lower quartile of all errors.

        Of pools of at least 25 networks; of at least the five networks that a mean needs.
        """
        name, error = self.column(x)[0], self.column(test_set)[0]
        frame = self.columns(x, test_set).dropna().sort_values(name)
        if len(frame) < FEWEST_FOR_RANKS:
            raise NotThere(f"{self.key} has {len(frame)} networks, it needs {FEWEST_FOR_RANKS}")
        lowest = frame[error].to_numpy()[: max(round(FLATTEST * len(frame)), FEWEST_FOR_MEAN)]
        text = f"{error} of the {len(lowest)} flattest by {name} - lower quartile; {self.key}"
        return over_seeds(text, mean, lowest - frame[error].quantile(LOWER))

    def counts(self) -> list[dict[str, Any]]:
        """How many networks are kept, of all and of each group, as entries of the evidence."""
        groups = [("", self.about), *self._groups()]
        limits = " and ".join(f"{name} <= {limit:g}" for name, limit in self.at_most.items())
        return [
            {
                "quantity": f"networks with {limits}; {', '.join(filter(None, [self.key, name]))}",
                "value": int(rows["kept"].sum()),
                "n": len(rows),
            }
            for name, rows in groups
        ]

    def fact(self, quantity: str, value: float, true: bool) -> Verdict:
        """A verdict on these networks as they are: none is drawn, nothing is estimated."""
        entry = {"quantity": f"{quantity}; {self.key}", "value": value}
        entry |= {"claim": "of these networks", "n": int(self.about["kept"].sum())}
        return Verdict("holds" if true else "fails", (), [entry])

    def _groups(self) -> Iterator[tuple[str, pd.DataFrame]]:
        for key, rows in groups_of(self.about, self.by).items():
            words = (f"{name} {value}" for name, value in zip(self.by, key, strict=True))
            yield ", ".join(words), rows

    def _labels(self) -> np.ndarray:
        labels = np.empty(len(self.about), dtype=object)
        for name, rows in self._groups():
            labels[rows.index] = name
        return labels

    def _filtered(self) -> str:
        """What the limits leave of the networks, and what it would take."""
        rows = self.about
        limits = " and ".join(
            f"a {name.replace('_', ' ')} of at most {limit:g} (median {rows[name].median():.3g})"
            for name, limit in self.at_most.items()
        )
        longer = [] if rows["kept"].all() else ["longer training or wider networks"]
        more = ["more of them"] if len(rows) < FEWEST_FOR_RANKS else []
        takes = " and ".join([*more, *longer])
        return (
            f"{rows['kept'].sum()} of its {len(rows)} networks have {limits}: it takes {takes}, "
            f"for at least {FEWEST_FOR_RANKS}"
        )
