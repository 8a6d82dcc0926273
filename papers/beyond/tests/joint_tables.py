"""Synthetic tables of a joint grid: every measure of the papers on the same made-up networks."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import xarray as xr

from flatlab.papers.beyond import _joint as joint
from tests.synthetic.tables import table as synthetic

GRIDS = joint.GRIDS
REGULARIZERS = (("none", 0.0), ("none", 5e-4), ("sam", 0.0), ("mixup", 0.0))
HYPERPARAMETERS = ("loss", "lr", "batch_size", "regularizer", "weight_decay")
RATES, BATCHES, SEEDS = (0.02, 0.04, 0.08), (32, 128), 4
STEPS = (100, 200, 1_000)
"""Some runs first fit at 100, the others at 200; all end at 1,000."""


@dataclass(frozen=True)
class Made:
    """How a quantity depends on the factors, on two traits of a network, and on nothing.

    lr, batch_size: per level.  decay, sam, mixup, half_mse: added there.  seed, other: of two
    independent normal traits of each network.  noise: of its own.  layers, neurons: the relative
    change when these are rescaled.  longer: the factor from the first fit to the end.
    """

    lr: float = 0.0
    batch_size: float = 0.0
    decay: float = 0.0
    sam: float = 0.0
    mixup: float = 0.0
    half_mse: float = 0.0
    seed: float = 0.0
    other: float = 0.0
    noise: float = 0.3
    layers: float = 0.0
    neurons: float = 0.0
    longer: float = 1.2


FLAT = Made(lr=-1, batch_size=0.5, sam=-1, seed=1)
"""Sharpness that falls with the rate."""


def table(grid=GRIDS[0], changes=None, default=FLAT, seeds=SEEDS, transformed=True, settings=None):
    """A table of 48 settings.  changes: the quantities that are not made as `default`."""
    product_of = product(("half-mse", "cross-entropy"), RATES, BATCHES, REGULARIZERS)
    chosen = settings or [(loss, lr, b, *regularizer) for loss, lr, b, regularizer in product_of]
    made = {name: (changes or {}).get(name, default) for name in sorted(joint.KNOWN)}
    generator, count = np.random.default_rng(0), len(chosen) * seeds
    traits = generator.normal(size=(2, count))
    fitted = np.where(np.arange(count) % 3 == 0, STEPS[0], STEPS[1])

    def rule(how):
        def values(c):
            value = how.lr * np.searchsorted(RATES, c["lr"]) + how.decay * (c["weight_decay"] > 0)
            value = value + how.batch_size * np.searchsorted(BATCHES, c["batch_size"])
            value = value + how.half_mse * (c["loss"] == "half-mse")
            value = value + how.sam * (c["regularizer"] == "sam")
            value = value + how.mixup * (c["regularizer"] == "mixup")
            value = value + how.seed * traits[0] + how.other * traits[1]
            end = 30 + value + how.noise * generator.normal(size=count)
            first = [np.where(fitted == step, end / how.longer, np.nan) for step in STEPS[:2]]
            return np.stack([*first, end], axis=1)

        return values

    found = synthetic(
        *(grid, [dict(zip(HYPERPARAMETERS, each, strict=True)) for each in chosen]),
        {name: rule(how) for name, how in made.items()},
        **{"seeds": seeds, "steps": STEPS, "data": "made-up", "extent": f"{count} networks"},
        coordinates={"fitted": lambda _: fitted.astype(float)},
        stands_in_for="",
    )
    for name, how in made.items():
        if name not in {*joint.PICTURED, *joint.FURTHER}:  # outcomes have no sample sets
            found[name] = found[name].isel(samples=0, drop=True, missing_dims="ignore")
        elif transformed:
            factors = [1, 1 + how.layers, 1 + how.neurons]
            after = xr.DataArray(factors, [("transformation", ["none", "layers", "neurons"])])
            known = (after["transformation"] == "none") | (found["checkpoint"] == STEPS[-1])
            found[name] = (found[name] * after).where(known)
    return _as_measured(found)


def _as_measured(made):
    """The table as a grid has it: layers, definitions, radii and test sets."""
    definitions = [
        xr.concat(
            [made[name] for name in (d, *(f"{d}-radius-{r}" for r in (1, 2, 3)))], "radius_index"
        )
        for d in joint.DEFINITIONS
    ]
    found = made.drop_vars([*joint.DEFINITIONS, *joint.FURTHER, joint.CORRUPTED, "layer"])
    for name in ("kappa_trace", "normalized_kappa_trace", "normalized_kappa_max"):
        found[name] = xr.concat([-made[name], made[name]], "layer")
    found["sharpness_at_radius"] = xr.concat(definitions, "definition")
    found["test_set_error"] = made[joint.CORRUPTED].expand_dims(test_set=[joint.CORRUPTED])
    found["train_error"] = xr.where(made["test_error"].notnull(), 0.5, np.nan)
    return found.assign_coords(definition=list(joint.DEFINITIONS), radius_index=list("0123"))


def both(changes=None, **which):
    """The same made-up networks in both grids."""
    first = table(GRIDS[0], changes, **which)
    return {GRIDS[0]: first, GRIDS[1]: first.assign_attrs(experiment=GRIDS[1], name=GRIDS[1])}
