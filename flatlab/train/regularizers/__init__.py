"""Regularizers: one file each, whose stem stands in `training.regularizer`; + joins several.

Each file has a class `Options`, keys of `training`; `STRENGTH`, the name of the option that
switches the regularizer off where it is 0; and

    uphill(gradients, training, runs)    where a step takes its gradients

which returns a factor for each run, (runs): a step takes its gradients at the parameters plus so
many times the gradients at the parameters themselves, on the same minibatch. gradients: the latter,
(runs, ...) or (runs * channels, ...). Statistics of batch norm are those of the first pass.
"""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from flatlab.plan.registry import imported, joined


def regularizers_of(training: Mapping[str, Any]) -> list[ModuleType]:
    """The regularizers of a training that are not switched off."""
    keys = joined(training.get("regularizer", "none"))
    rules = [imported("train/regularizers", key) for key in keys]
    return [rule for rule in rules if training[rule.STRENGTH]]
