"""Regularizers: one file each, whose stem stands in `training.regularizer`; + joins several.

Each file has a class `Options`, keys of `training`; `STRENGTH`, the name of the option that
switches the regularizer off where it is 0; and a class `Change` (see `flatlab.train.changes`), or

    uphill(gradients, training, runs)    where a step takes its gradients

which returns a factor for each run, (runs): a step takes its gradients at the parameters plus so
many times the gradients at the parameters themselves, on the same minibatch. gradients: the latter,
(runs, ...) or (runs * channels, ...). Statistics of batch norm are those of the first pass.
"""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from flatlab.plan.registry import imported, joined


def regularizers_of(training: Mapping[str, Any]) -> dict[str, ModuleType]:
    """The regularizers of a training by key, but those that are switched off."""
    keys = joined(training.get("regularizer", "none"))
    files = {key: imported("train/regularizers", key) for key in keys}
    return {key: file for key, file in files.items() if training[file.STRENGTH]}


def climbs_of(training: Mapping[str, Any]) -> list[ModuleType]:
    """Those of them that say where a step takes its gradients."""
    return [file for file in regularizers_of(training).values() if hasattr(file, "uphill")]
