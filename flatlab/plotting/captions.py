"""Captions: sentences that several figures share, and what the tables of a figure hold.

The sentences become part of a figure's settings when it is planned. What is added for the page of a
figure alone is its `details`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # declarations import this module at plan time, which does without xarray
    import xarray as xr

LEARNING_RATES = "Batch size 20."
BATCH_SIZES = "Learning rate 0.1."
CENTRAL = "Learning rate 0.1, batch size 20."

OVER_SEEDS = "Thin lines: networks; bold: their median."
MARKS = "Dashed vertical: the mean training loss falls below 0.01."

TRAINING_SAMPLES = "Sharpness and compression are means over fixed training samples."
WITH_BOUNDS = "Sharpness, compression and bounds are means over fixed training samples."
G = "G is the mean squared Frobenius norm of the input-output Jacobian."
BEGINS = (
    "Interpolation begins at the first checkpoint where the mean training loss of a setting is "
    "below 0.01; a setting without a mark does not reach it."
)

MISCLASSIFIED = "Test samples, and those that a network misclassifies at the time."
MISCLASSIFIED_DETAILS = (
    "Losses are computed on the whole sets; the other quantities are means over fixed test "
    "samples, and over those that a network misclassifies at that checkpoint. A network that "
    "misclassifies none is left out of the median; a gap means that no network misclassifies any."
)
CHAIN_OF_BOUNDS = "A is the maximum local sensitivity (MLS), which B, C and D bound in turn."

AT_THE_END = "A point is a network at the end of training."
FOUR_SEEDS = "A point is a network at the end of training, seeds 0-3 of every setting."
MATRIX = (
    "Above the diagonal: Pearson's correlation over all networks, its 95 % interval, and in grey "
    "the correlation within settings, in italics where it has the other sign."
)
INTERVALS = (
    "Intervals: jackknife over the seeds of each setting, on Fisher's z. Within settings, each "
    "network enters as its deviation from the mean of its setting."
)
TAU = "τ is Kendall's, with its 95 % interval."
BETWEEN_NETWORKS = "Kendall's tau-a; intervals: jackknife over networks, on Fisher's z."
GAP = (
    "The gap is training minus test accuracy, in percentage points; relative flatness, which is "
    "large where it is sharp, is that of the last layer."
)


def caption(figure: Mapping[str, Any], tables: Mapping[str, xr.Dataset]) -> str:
    """What a figure shows, and the networks of each of its tables that it shows."""
    held = [about(shown(figure, table), brief=len(tables) > 2) for table in tables.values()]
    return " ".join([figure["caption"], *held])


def about(table: xr.Dataset, brief: bool = False) -> str:
    """What a table holds, so that no stand-in can pass for the paper's.

    brief: without the accuracy of the networks of a zoo.
    """
    from flatlab.plotting.labels import extent_of, networks_of
    from flatlab.tables.selection import counts, extent

    a = table.attrs
    counted = extent(a, **counts(table)) if "network" in a else a["extent"]
    what = extent_of({**a, "extent": counted})
    if brief:
        what = "; ".join(part for part in what.split("; ") if "accuracy" not in part)
    theirs = networks_of(a["stands_in_for"]) or "experiment"
    instead = {
        "stand-in": f"; they stand in for the paper's {theirs}",
        "reduced": f"; reduced from the paper's {theirs}",
    }
    return f"{what[0].upper()}{what[1:]}{instead.get(a['evidence'], '')}."


def shown(figure: Mapping[str, Any], table: xr.Dataset) -> xr.Dataset:
    """The networks of a table that a figure is about.

    Those of the settings in its `where`; of a figure through training, those that were measured
    through training.
    """
    from flatlab.plotting.labels import of_architecture
    from flatlab.tables.selection import of_settings, only_followed

    where = figure.get("where", {})
    if not where and not figure["through_training"]:
        return table
    chosen = of_settings(only_followed(table) if figure["through_training"] else table, where)
    if "not_converged" in table.attrs:
        slow = int((chosen["ended"].values == "finished").sum())
        chosen = chosen.assign_attrs(not_converged=slow)
    if "architecture" in where:
        names = ("network", "stands_in_for")
        own = {name: of_architecture(table.attrs[name], where["architecture"]) for name in names}
        chosen = chosen.assign_attrs(own)
    return chosen
