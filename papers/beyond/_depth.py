"""The networks of `mlp-depth-grid`: what one doubling of a rate does, in the lower and upper half.

Rates are 0.05, 0.1 and 0.2 for each half. With the same seed all nine networks start alike and see
the same data in the same order, so that effects are taken for each seed. The effect of one half is
half the difference between its highest and its lowest rate, mean over the rates of the other half:
the slope over the binary logarithm of its rate.
"""

from typing import Literal

import numpy as np

from flatlab.lab.tables.eligibility import estimate, require
from flatlab.lab.tables.networks import Networks
from flatlab.stats.estimate import Array, Estimate, over_seeds
from flatlab.stats.trends import mean

GRID = "mlp-depth-grid"
RATES = (0.05, 0.1, 0.2)
Half = Literal["lower", "upper"]
LOGARITHMS = {
    "MLS": "log mls",
    "log volume": "log_volume",
    "NMLS": "log nmls",
    "sharpness": "log root_sharpness",
}
"""What effects are on: logarithms, by the papers' words."""


def effects(networks: Networks, column: str) -> tuple[Array, Array]:
    """Of the lower and of the upper half, for each seed whose nine networks interpolate."""
    cells = cells_of(networks, column)
    lower = (cells[2] - cells[0]).mean(axis=0) / 2
    upper = (cells[:, 2] - cells[:, 0]).mean(axis=0) / 2
    return lower, upper


def cells_of(networks: Networks, column: str) -> Array:
    """A column by the rates of the halves and the seed: (3, 3, seeds)."""
    chosen = networks.that_interpolate()
    about, values = chosen.data, chosen.values(column)
    rates = about["lr"].values, about["lr"].values * about["upper_factor"].values
    places = [np.abs(np.log(rate[:, None] / RATES)).argmin(axis=1) for rate in rates]
    seeds = sorted(set(about["seed"].values.tolist()))
    cells = np.full((3, 3, len(seeds)), np.nan)
    cells[(*places, [seeds.index(seed) for seed in about["seed"].values])] = values
    whole = np.isfinite(cells).all(axis=(0, 1))
    require(int(whole.sum()), networks.key, "seeds of which all nine networks interpolate")
    return cells[:, :, whole]


def combined(networks: Networks, column: str, lower: float, upper: float, what: str) -> Estimate:
    """A weighted sum of the two effects, mean over the seeds.

    lower, upper: the weights.  what: its name.
    """
    name = f"{what} on {column}; {networks.key}"

    def over_the_seeds() -> Estimate:
        first, second = effects(networks, column)
        return over_seeds(name, mean, lower * first + upper * second)

    return estimate(name, over_the_seeds)


def effect(networks: Networks, column: str, half: Half) -> Estimate:
    """That of one half."""
    weights = (1.0, 0.0) if half == "lower" else (0.0, 1.0)
    return combined(networks, column, *weights, f"effect of the {half} rate")


def difference(networks: Networks, column: str, larger: Half) -> Estimate:
    """The effect of one half less that of the other."""
    weights, other = ((1.0, -1.0), "upper") if larger == "lower" else ((-1.0, 1.0), "lower")
    return combined(networks, column, *weights, f"effect of the {larger} rate - of the {other}")


def total(networks: Networks, column: str) -> Estimate:
    """The sum of both effects."""
    return combined(networks, column, 1.0, 1.0, "sum of the effects of both rates")


def rhos(networks: Networks) -> dict[str, Estimate]:
    """Of log MLS and log S(W_1), over the networks as they are and with W_1 drawn anew."""
    chosen = networks.that_interpolate()
    pairs = {
        "as trained": ("log mls", "log sharpness_per_layer[0]"),
        "W_1 drawn anew": ("log redrawn_mls[0]", "log redrawn_first_sharpness[0]"),
    }
    return {name: chosen.rho(*pair) for name, pair in pairs.items()}
