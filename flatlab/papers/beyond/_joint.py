"""The joint grids: every measure of the papers on the same networks, and which pairs are compared.

Networks are those with a training error of at most 1 %; a measure that has no finite value in some
of them is left out of the pairs that these are in.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.papers.beyond.measures import DEFINITIONS, MEASURES
from flatlab.stats.estimate import Array
from flatlab.stats.ranks import Pairs, Ranks, pairs_of
from flatlab.tables.selection import at_first_fit, end_of_training

NETWORKS = {"joint-mlp-grid": "perceptrons", "joint-lenet-grid": "LeNets"}
GRIDS = tuple(NETWORKS)
FITS = 1.0
"""The largest training error of a network that is compared, in %."""

FACTORS = ("lr", "batch_size", "regularizer", "loss")
ALL, SEEDS = "all", "seeds"
ESTIMANDS = {
    ALL: "over all networks",
    SEEDS: "within settings",
    "lr": "rate alone",
    "batch_size": "batch size alone",
    "regularizer": "regularizer alone",
    "loss": "loss alone",
}
"""Which pairs of networks are compared: what varies between the two."""


class Measure(NamedTuple):
    """Where a measure comes from.

    paper: whose it is.
    quantity: in a table.
    part: the labels or places of its dimensions.
    """

    paper: str
    quantity: str
    part: Mapping[str, str | int] = {}


LAST = {"layer": -1}
_PER_LAYER = ("kappa_trace", "normalized_kappa_trace", "normalized_kappa_max")


def _sharpness(definition: str, radius: int) -> Measure:
    part: dict[str, str | int] = {"definition": definition, "radius_index": radius}
    return Measure("andriushchenko", "sharpness_at_radius", part)


def _of(*papers: str) -> dict[str, Measure]:
    return {
        name: Measure(paper, name, LAST if name in _PER_LAYER else {})
        for paper in papers
        for name in MEASURES[paper]
    }


PICTURED: dict[str, Measure] = {
    **_of("chen", "macdonald", "petzka"),
    **{definition: _sharpness(definition, 0) for definition in DEFINITIONS},
    **_of("jiang"),
}
"""The measures of the figures; sharpness at the smallest radius of each definition."""

DRAWN = {
    *(name for name in DEFINITIONS if name.startswith("average")),
    *("pac_bayes", "pac_bayes_flatness"),
}
"""What is estimated from random changes of the weights, so that it is not known exactly."""

FURTHER = {
    f"{definition}-radius-{radius}": _sharpness(definition, radius)
    for definition in DEFINITIONS
    for radius in (1, 2, 3)
}
"""At larger radii: in the CSV alone."""

CORRUPTED = "corrupted"
GAPS = ("error_gap", "accuracy_gap", "loss_gap", "absolute_loss_gap")
OUTCOMES = {
    name: Measure("", name) for name in (*GAPS, "test_error", "test_loss", "train_loss")
} | {CORRUPTED: Measure("", "test_set_error", {"test_set": CORRUPTED})}
KNOWN = PICTURED | FURTHER | OUTCOMES


@dataclass(frozen=True, eq=False)
class Networks:
    """Networks at one time of their training, and their factors: rows of `about`.

    name: what they are called.  columns: quantity -> (networks); NaN where it was not computed.
    about: run, setting, architecture and `FACTORS`, where the rate is its rank among those of the
    same architecture, loss and regularizer.  dropped: how many networks of the table fit too
    little, or diverged.
    """

    name: str
    columns: dict[str, Array]
    about: pd.DataFrame
    dropped: int

    def pairs(self, estimand: str) -> Pairs:
        """Pairs of networks that differ in one factor alone, of one setting, or all: pairs of one
        architecture.
        """
        if estimand == ALL:
            return pairs_of(self.about["architecture"].to_numpy())
        if estimand == SEEDS:
            return pairs_of(self.about["setting"].to_numpy())
        others = ["architecture", *(name for name in FACTORS if name != estimand)]
        return pairs_of(_joined(self.about, others), self.about[estimand].to_numpy())

    def ranks(self, estimand: str, names: Iterable[str]) -> Ranks:
        """Rank correlations of some quantities over the pairs of an estimand."""
        columns = {name: self.columns[name] for name in names}
        return Ranks(columns, list(self.about["setting"]), self.pairs(estimand))

    def where(self, **levels: Iterable[str]) -> "Networks":
        """Those with some levels of factors."""
        kept = np.all([self.about[name].isin(chosen) for name, chosen in levels.items()], axis=0)
        columns = {name: values[kept] for name, values in self.columns.items()}
        name = ", ".join([self.name, *(level for chosen in levels.values() for level in chosen)])
        return Networks(name, columns, self.about[kept].reset_index(drop=True), self.dropped)

    def environments(self) -> Iterator[tuple[str, str, Pairs]]:
        """Pairs of levels of a factor, and the pairs of networks that differ in them alone."""
        for factor in FACTORS:
            alone, levels = self.pairs(factor), self.about[factor].to_numpy()
            known = sorted(set(levels))
            for place, b in enumerate(known):
                for a in known[:place]:
                    one, other = levels == a, levels == b
                    pairs = alone & (np.outer(one, other) | np.outer(other, one))
                    yield factor, f"{a} and {b}", pairs

    def there(self, names: Iterable[str]) -> list[str]:
        """Those quantities that are finite in some network."""
        return [name for name in names if np.isfinite(self.columns[name]).any()]


def networks(table: xr.Dataset, first: bool = False, **which: str) -> Networks:
    """The networks of a joint grid that fit, at the end of training.

    first: instead, when their training error first was at most 1 %.  which: the `transformation` of
    their weights before they were measured.
    """
    used = ["train_error", *dict.fromkeys(measure.quantity for measure in KNOWN.values())]
    part = table[[name for name in used if name in table]]
    chosen = at_first_fit(part) if first else end_of_training(part, **which)
    chosen = chosen.sel(run=(chosen["train_error"] <= FITS).values)
    columns = {name: _values(chosen, measure) for name, measure in KNOWN.items()}
    name = NETWORKS[table.attrs["experiment"]] + (" at the first fit" if first else "")
    return Networks(name, columns, _about(chosen), table.sizes["run"] - chosen.sizes["run"])


def _values(chosen: xr.Dataset, measure: Measure) -> Array:
    """A measure of each network; NaN where the table does not have it."""
    try:
        array = chosen[measure.quantity]
        for dim, place in measure.part.items():
            select = array.isel if isinstance(place, int) else array.sel
            array = select({dim: place})
    except (KeyError, IndexError):
        return np.full(chosen.sizes["run"], np.nan)
    return np.asarray(array.values, dtype=float)


def relative_change(name: str, before: Array, after: Array) -> Array:
    """|after - before| / |before| of a measure; of the exponential, if it is a logarithm."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if name.startswith("log_"):
            return np.abs(np.expm1(after - before))
        return np.abs(after - before) / np.abs(before)


def _about(chosen: xr.Dataset) -> pd.DataFrame:
    """Run, setting and the levels of the factors of each network."""
    names = ("run", "setting", "loss", "batch_size", "regularizer", "lr")
    about = pd.DataFrame({name: chosen[name].values for name in names})
    one = "architecture" not in chosen.coords
    about["architecture"] = "" if one else chosen["architecture"].values
    decay = chosen["weight_decay"].values > 0
    about["regularizer"] = np.where(decay, "weight decay", about["regularizer"].astype(str))
    by = about.groupby(["architecture", "loss", "regularizer"])["lr"]
    about["lr"] = by.rank(method="dense").astype(int)
    return about


def _joined(about: pd.DataFrame, names: Iterable[str]) -> np.ndarray:
    """One label per network of several factors."""
    return np.array([" ".join(row) for row in about[list(names)].astype(str).to_numpy()])
