"""Networks whose sharpness was measured, and the columns that claims about it compare."""

import numpy as np

from flatlab.lab.tables.eligibility import FEWEST_FOR_MEAN, NotEligible, require
from flatlab.lab.tables.networks import Networks
from flatlab.stats.estimate import Array

FLATTEST = 0.1
"""The share of the networks that are the flattest ones."""


def sharpness(definition: str, radius: int) -> str:
    """The column of a definition at one of its radii, by its number."""
    return f"sharpness_at_radius[{definition}, {radius}]"


def error(test_set: str) -> str:
    """The column of the error on a test set."""
    return f"test_set_error[{test_set}]"


def gap(test_set: str) -> str:
    """The column of that error less the training error."""
    return f"test_set_error_gap[{test_set}]"


def in_words(networks: Networks) -> Networks:
    """The same, with words for columns: "worst-adaptive-linf at 0.002", "error on test"."""
    data = networks.data
    if "sharpness_at_radius" not in data:
        raise NotEligible(f"{networks.key} has no sharpness_at_radius")
    words: dict[str, str] = {}
    for name in data["test_set"].values if "test_set" in data.dims else ():
        words |= {error(name): f"error on {name}", gap(name): f"error on {name} - train_error"}
    for radii in data["sharpness_radius"].isel(run=slice(1)):
        words |= {
            sharpness(name, place): f"{name} at {radius:g}"
            for name in data["definition"].values
            for place, radius in enumerate(radii.sel(definition=name).values)
        }
    return networks.called(networks.name or networks.key, **words)


def complete(
    networks: Networks, *names: str, statistic: str = "a mean", least: int = FEWEST_FOR_MEAN
) -> Array:
    """Columns of the networks for which all are finite: (names, networks).

    networks: as many as a statistic needs.
    names: of the columns.
    statistic, least: what needs how many networks.
    """
    columns = np.array([networks.column(name) for name in names])
    columns = columns[:, np.isfinite(columns).all(axis=0)]
    require(columns.shape[1], networks.context, statistic=statistic, least=least)
    return columns
