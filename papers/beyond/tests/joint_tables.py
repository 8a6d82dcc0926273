"""Synthetic tables of a joint grid: every measure of the papers on the same made-up networks."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import xarray as xr

from flatlab.papers.beyond import _joint as joint

GRIDS = joint.GRIDS
REGULARIZERS = (("none", 0.0), ("none", 5e-4), ("sam", 0.0), ("mixup", 0.0))
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


def columns(made, settings, seeds):
    """Values (networks) around 10 by quantity."""
    generator = np.random.default_rng(0)
    rows = [setting for setting in settings for _ in range(seeds)]
    loss, lr, batch, regularizer, decay = map(np.array, zip(*rows, strict=True))
    traits = generator.normal(size=(2, len(rows)))
    found = {}
    for name, how in made.items():
        value = how.lr * np.searchsorted(RATES, lr) + how.batch_size * np.searchsorted(
            BATCHES, batch
        )
        value = value + how.decay * (decay > 0) + how.half_mse * (loss == "half-mse")
        value = value + how.sam * (regularizer == "sam") + how.mixup * (regularizer == "mixup")
        value = value + how.seed * traits[0] + how.other * traits[1]
        found[name] = 30 + value + how.noise * generator.normal(size=len(rows))
    return found


def table(grid=GRIDS[0], changes=None, default=FLAT, seeds=SEEDS, transformed=True, settings=None):
    """A table of 48 settings.  changes: the quantities that are not made as `default`."""
    product_of = product(("half-mse", "cross-entropy"), RATES, BATCHES, REGULARIZERS)
    chosen = settings or [(loss, lr, b, *regularizer) for loss, lr, b, regularizer in product_of]
    names = {name for name in joint.KNOWN}
    made = {name: (changes or {}).get(name, default) for name in sorted(names)}
    values = columns(made, chosen, seeds)
    rows = [setting for setting in chosen for _ in range(seeds)]
    fitted = np.where(np.arange(len(rows)) % 3 == 0, STEPS[0], STEPS[1])
    kinds = ["none", "layers", "neurons"] if transformed else []
    variables = {}
    for name in joint.KNOWN:
        how, of_paper = made[name], name in joint.PICTURED or name in joint.FURTHER
        steps = np.stack(
            [np.where(fitted == step, values[name] / how.longer, np.nan) for step in STEPS[:2]]
        )
        every = np.concatenate([steps, values[name][None]]).T[:, :, None]  # runs, checkpoints, 1
        after = {
            "none": every,
            "layers": (1 + how.layers) * every,
            "neurons": (1 + how.neurons) * every,
        }
        if of_paper and transformed:
            stack = np.stack([after[kind] for kind in kinds], axis=-1)
            stack[:, :2, :, 1:] = np.nan
            dims = ("run", "checkpoint", "samples", "transformation")
        else:
            stack = every if of_paper else every[:, :, 0]  # outcomes have no sample sets
            dims = ("run", "checkpoint", "samples")[: stack.ndim]
        variables[name] = (dims, stack)
    return _as_measured(xr.Dataset(variables), grid, rows, seeds, fitted, kinds)


def _as_measured(made, grid, rows, seeds, fitted, kinds):
    """The table as a grid has it: layers, definitions, radii, test sets, and coordinates."""
    definitions = [
        xr.concat(
            [made[name] for name in (d, *(f"{d}-radius-{r}" for r in (1, 2, 3)))], "radius_index"
        )
        for d in joint.DEFINITIONS
    ]
    found = made.drop_vars([*joint.DEFINITIONS, *joint.FURTHER, joint.CORRUPTED])
    for name in ("kappa_trace", "normalized_kappa_trace", "normalized_kappa_max"):
        found[name] = xr.concat([-made[name], made[name]], "layer")
    found["sharpness_at_radius"] = xr.concat(definitions, "definition")
    found["test_set_error"] = made[joint.CORRUPTED].expand_dims(test_set=[joint.CORRUPTED])
    found["train_error"] = xr.where(made["test_error"].notnull(), 0.5, np.nan)
    loss, lr, batch, regularizer, decay = zip(*rows, strict=True)
    seed = np.tile(np.arange(seeds), len(rows) // seeds)
    settings = ["-".join(map(str, row)) for row in rows]
    of_runs = {
        "run": [f"{name}-s{n}" for name, n in zip(settings, seed, strict=True)],
        **{"setting": settings, "seed": seed, "loss": list(loss), "lr": list(lr)},
        **{"batch_size": list(batch), "regularizer": list(regularizer)},
        **{"weight_decay": list(decay), "fitted": fitted.astype(float)},
        "diverged": np.zeros(len(rows), dtype=bool),
    }
    about = {
        **{"experiment": grid, "scale": "demo", "evidence": "own", "differs": [], "left_out": 0},
        **{"name": grid, "data": "made-up", "extent": f"{len(rows)} networks", "stands_in_for": ""},
        "hyperparameters": ["loss", "lr", "batch_size", "regularizer", "weight_decay"],
    }
    coordinates = {name: ("run", values) for name, values in of_runs.items()}
    coordinates |= {"checkpoint": list(STEPS), "samples": ["train"]}
    coordinates |= {"transformation": kinds} if kinds else {}
    coordinates |= {"definition": list(joint.DEFINITIONS), "radius_index": list("0123")}
    return found.assign_coords(coordinates).assign_attrs(about)


def both(changes=None, **which):
    """The same made-up networks in both grids."""
    first = table(GRIDS[0], changes, **which)
    return {GRIDS[0]: first, GRIDS[1]: first.assign_attrs(experiment=GRIDS[1], name=GRIDS[1])}
