"""What each job depends on beside its inputs: the `settings` and the `code` in its params."""

from __future__ import annotations

from typing import Any

import msgspec

from flatlab.plan.fingerprint import fingerprint
from flatlab.plan.grids import Grid, Pack
from flatlab.plan.registry import joined, layers_of, module_of, scales_of, settings_of
from flatlab.plan.schema import Strict, refuse_unknown


def train_settings(pack: Pack) -> dict[str, Any]:
    """What a training job depends on, beside its code and its data."""
    return {
        "data": _plain(pack.data),
        "network": _plain(pack.network),
        "outputs": pack.outputs,
        "training": _plain(pack.training),
        "checkpoints": msgspec.to_builtins(pack.dense),
        "curves": msgspec.to_builtins(pack.curves),
        "seeds": list(pack.seeds),
        "runs": pack.runs,
    }


def measure_settings(grid: Grid, pack: Pack, family: str) -> dict[str, Any]:
    """What a measuring job depends on, beside its code, its data and the weights.

    Of the keys of `measure` these are the precision and those that the family names in `SETTINGS`,
    where it can also name keys of `training`, such as the loss.
    """
    used = settings_of(family)
    known = _plain(pack.training) | _plain(grid.measure)
    refuse_unknown(dict.fromkeys(used), known, f"metrics/{family}: SETTINGS")
    return {
        "family": family,
        "data": _plain(pack.data),
        "network": _plain(pack.network),
        "outputs": pack.outputs,
        "measure": {key: known[key] for key in ("precision", *used)},
        "setting": pack.setting,
        "hyperparameters": pack.hyperparameters,
        "seeds": list(pack.seeds),
    }


def train_roots(pack: Pack) -> list[str]:
    """The modules that train a pack: the engine, and what the pack names of each registry.

    The mode `loop` trains by torch's own modules, without stacked layers.
    """
    network, training = pack.network, pack.training
    layers = []
    if training.mode != "loop":
        layers = layers_of(network.name, network.activation, network.options)
    return [
        "flatlab.train",
        module_of("networks", network.name),
        module_of("train/optimizers", training.optimizer),
        module_of("train/initializations", network.initialization),
        *(module_of("train/layers", key) for key in layers),
    ]


def train_code(pack: Pack) -> str:
    """What trains a pack: the fingerprint of `train_roots`."""
    return fingerprint(*train_roots(pack))


def measure_code(family: str, *networks: str) -> str:
    """What measures them: the fingerprint of the family, or those joined, and the architectures."""
    measures = (module_of("metrics", name) for name in joined(family))
    models = (module_of("networks", name) for name in networks)
    return fingerprint("flatlab.metrics", *measures, *models)


def table_settings(grid: Grid, published: Grid) -> dict[str, Any]:
    """What the table of a grid depends on, beside its code and the metric files.

    published: the same grid at the paper's scale, to say what stands in for what.
    """
    network, data = " and ".join(grid.networks), " and ".join(grid.data_sets)
    pairs = {
        network: " and ".join(published.networks),
        data: " and ".join(published.data_sets),
    }
    replaced = [theirs for ours, theirs in pairs.items() if ours != theirs]
    return {
        "runs": grid.runs,
        "diverged_below": grid.measure.diverged_below,
        "about": {
            "scale": grid.scale,
            "grid": grid.key,
            "title": grid.title,
            "network": network,
            "data": data,
            "length": " or ".join(dict.fromkeys(p.training.length for p in grid.packs.values())),
            "stands_in_for": " on ".join(replaced),
            "left_out": grid.left_out,
            "hyperparameters": list(
                dict.fromkeys(key for pack in grid.packs.values() for key in pack.hyperparameters)
            ),
        },
    }


def study_settings(key: str, scale: str) -> dict[str, Any]:
    """What the table of a study depends on, beside its code."""
    scales = scales_of(key)
    return {**scales["paper"], **scales[scale]}


def study_code(key: str) -> str:
    """What the table of a study is computed with."""
    return fingerprint("flatlab.simulations", module_of("simulations", key))


def _plain(record: Strict) -> dict[str, Any]:
    """A record as dictionaries, lists and numbers, fit for a job's params."""
    return msgspec.to_builtins(record)
