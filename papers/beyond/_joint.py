"""The joint grids: every measure of the papers on the same networks, and which pairs are compared.

Networks are those with a training error of at most 1 %; a measure that has no finite value in some
of them is left out of the pairs that these are in.
"""

import functools
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.lab.tables.eligibility import unless_missing
from flatlab.lab.tables.networks import Networks
from flatlab.lab.tables.selection import UNCHANGED
from flatlab.papers.beyond.measures import DEFINITIONS, MEASURES
from flatlab.stats.estimate import Array
from flatlab.stats.ranks import Pairs, Ranks, pairs_of

NETWORKS = {"joint-mlp-grid": "perceptrons", "joint-lenet-grid": "LeNets"}
GRIDS = tuple(NETWORKS)
FITS = 1.0
"""The largest training error of a network that is compared, in %."""

FACTORS = ("lr", "batch_size", "regularizer", "loss")
ALL, SEEDS, RATE = "all", "seeds", "rate"
ESTIMANDS = {
    ALL: "over all networks",
    SEEDS: "within settings",
    "lr": "rate alone",
    "batch_size": "batch size alone",
    "regularizer": "regularizer alone",
    "loss": "loss alone",
}
"""Which pairs of networks are compared: what varies between the two."""


PICTURED: dict[str, str] = {
    **{name: paper for paper in ("chen", "macdonald", "petzka") for name in MEASURES[paper]},
    **dict.fromkeys(DEFINITIONS, "andriushchenko"),
    **dict.fromkeys(MEASURES["jiang"], "jiang"),
}
"""The measures of the figures and their papers; sharpness at the smallest radius."""

DRAWN = {
    *(name for name in DEFINITIONS if name.startswith("average")),
    *("pac_bayes", "pac_bayes_flatness"),
}
"""What is estimated from random changes of the weights, so that it is not known exactly."""

FURTHER = {
    f"{definition}-radius-{radius}": f"sharpness_at_radius[{definition}, {radius}]"
    for definition in DEFINITIONS
    for radius in (1, 2, 3)
}
"""At larger radii, with their columns: in the CSV alone."""

CORRUPTED = "corrupted"
GAPS = ("error_gap", "accuracy_gap", "loss_gap", "absolute_loss_gap")
KNOWN = {
    **{name: name for name in (*PICTURED, *GAPS, "test_error", "test_loss", "train_loss")},
    **{definition: f"sharpness_at_radius[{definition}, 0]" for definition in DEFINITIONS},
    **FURTHER,
    CORRUPTED: f"test_set_error[{CORRUPTED}]",
}
"""The columns of measures and outcomes, by their names here."""


class JointNetworks(Networks):
    """Networks of a joint grid; a column is also a measure, by its name in `KNOWN`."""

    ESTIMANDS: ClassVar = ESTIMANDS

    def values(self, name: str) -> Array:
        """A column: (networks); NaN where a measure was not computed. `RATE` is the rate's rank."""
        if name == RATE:
            return self.factors["lr"].to_numpy(float)
        if name not in KNOWN:
            return super().values(name)
        column = functools.partial(super().values, KNOWN[name])
        return unless_missing(column, lambda _: np.full(self.count, np.nan))

    def known(self, names: Iterable[str]) -> list[str]:
        """Those measures that are finite in some network."""
        return [name for name in names if np.isfinite(self.values(name)).any()]

    @functools.cached_property
    def factors(self) -> pd.DataFrame:
        """Of each network run, setting, architecture and `FACTORS`.

        The rate is its rank among those of the same architecture, loss and regularizer.
        """
        names = ("run", "setting", "architecture", *FACTORS)
        factors = pd.DataFrame({name: self.data[name].values for name in names})
        rates = factors.groupby(["architecture", "loss", "regularizer"])["lr"]
        return factors.assign(lr=rates.rank(method="dense").astype(int))

    def pairs(self, estimand: str) -> Pairs:
        """Pairs of networks that differ in one factor alone, of one setting, or all: pairs of one
        architecture.
        """
        if estimand in (ALL, SEEDS):
            return pairs_of(self.factors["architecture" if estimand == ALL else "setting"])
        others = ["architecture", *(name for name in FACTORS if name != estimand)]
        labels = [" ".join(row) for row in self.factors[others].astype(str).to_numpy()]
        return pairs_of(labels, self.factors[estimand].to_numpy())

    def drawn_ranks(self, estimand: str, names: Iterable[str]) -> Ranks:
        """For figures: as `ranks` over the pairs of an estimand, whatever has converged."""
        columns = {name: self.values(name) for name in names}
        return Ranks(columns, [*self.factors["setting"]], self.pairs(estimand))

    def environments(self) -> Iterator[tuple[str, str, Pairs]]:
        """Pairs of levels of a factor, and the pairs of networks that differ in them alone."""
        for factor in FACTORS:
            alone, levels = self.pairs(factor), self.factors[factor].to_numpy()
            of_two = combinations(sorted(set(levels)), 2)
            for a, b in sorted(of_two, key=lambda pair: pair[::-1]):
                one, other = levels == a, levels == b
                pairs = alone & (np.outer(one, other) | np.outer(other, one))
                yield factor, f"{a} and {b}", pairs

    @property
    def dropped(self) -> int:
        """How many networks of the table are not among these."""
        return self.table.sizes["run"] - self.count

    @property
    def context(self) -> str:
        """What the networks are called in evidence."""
        name = NETWORKS[self.key] + ("" if self.time == "end" else f" at the {self.time}")
        return ", ".join([name, *(level for levels in self.selection.values() for level in levels)])


def networks(
    table: xr.Dataset, first: bool = False, transformation: str = UNCHANGED
) -> JointNetworks:
    """The networks of a joint grid that fit, at the end of training.

    table: of the grid.
    first: instead, when their training error first was at most 1 %.
    transformation: of their weights before they were measured.
    """
    table = with_factors(table)
    every = JointNetworks.of(table.attrs["experiment"], table)
    every = every.at("first fit" if first else "end").after(transformation)
    return every.at_most(train_error=FITS)


def with_factors(table: xr.Dataset) -> xr.Dataset:
    """The table with an architecture, and with weight decay as a regularizer."""
    pairs = zip(table["regularizer"].values, table["weight_decay"].values, strict=True)
    regularizers = ["weight decay" if decay > 0 else str(name) for name, decay in pairs]
    one = "architecture" not in table.coords
    architectures = [""] * len(regularizers) if one else table["architecture"].values
    return table.assign_coords(
        regularizer=("run", regularizers), architecture=("run", architectures)
    )


def relative_change(name: str, before: Array, after: Array) -> Array:
    """|after - before| / |before| of a measure; of the exponential, if it is a logarithm."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if name.startswith("log_"):
            return np.abs(np.expm1(after - before))
        return np.abs(after - before) / np.abs(before)
