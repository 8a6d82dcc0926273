"""The networks of `mlp-drawn-grid`, whose settings are drawn: correlations over settings to come.

Batch sizes are drawn, and rates within each: whole packs, of one batch size, are the units that
vary by chance. At equal iterations networks are compared at the end, at equal epochs where each has
seen as many samples as those of the smallest batches at the end.
"""

import numpy as np

from flatlab.lab.tables.eligibility import FEWEST_FOR_MEAN, estimates, require
from flatlab.lab.tables.networks import Networks
from flatlab.lab.tables.selection import INTERPOLATES
from flatlab.stats.correlation import Correlations
from flatlab.stats.estimate import Array, Estimate

GRID = "mlp-drawn-grid"
EQUAL = {"iterations": "equal iterations", "epochs": "equal epochs"}


def rhos(networks: Networks, equal: str, *pairs: tuple[str, str]) -> list[Estimate]:
    """Pearson's correlations of pairs of columns over the networks that interpolate.

    equal: what has passed alike when they are compared, a key of `EQUAL`.
    """
    names = [f"rho({x}, {y}); {networks.key}, {EQUAL[equal]}" for x, y in pairs]

    def over_batch_sizes() -> list[Estimate]:
        wanted = dict.fromkeys(name for pair in pairs for name in pair)
        columns, drawn = values(networks, equal, *wanted)
        packs = len(np.unique(drawn))
        require(packs, networks.key, "batch sizes whose networks interpolate", "", "an interval")
        found = Correlations(columns, drawn, None, drawn).rhos(*pairs)
        return [rho.labelled(name) for rho, name in zip(found, names, strict=True)]

    return estimates(names, over_batch_sizes)


def values(networks: Networks, equal: str, *names: str) -> tuple[dict[str, Array], list[str]]:
    """Columns of the networks that interpolate then, and their batch sizes."""
    steps = networks.runs["checkpoint"].values
    sizes = networks.runs["batch_size"].values.astype(float)
    seen = steps.max() * (sizes.min() / sizes if equal == "epochs" else np.ones_like(sizes))
    nearest = np.abs(steps - seen[:, None]).argmin(axis=1)
    rows = np.arange(len(sizes))
    fits = networks.series("train_loss")[rows, nearest] < INTERPOLATES
    require(int(fits.sum()), networks.key, "networks that interpolate", least=FEWEST_FOR_MEAN)
    columns = {name: networks.series(name)[rows, nearest][fits] for name in names}
    return columns, [f"{size:g}" for size in sizes[fits]]
