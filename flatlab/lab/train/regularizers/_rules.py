"""The regularizers that a training names."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from flatlab.core.registry import imported, joined


def regularizers_of(training: Mapping[str, Any]) -> dict[str, ModuleType]:
    """The regularizers of a training by key, but those that are switched off."""
    keys = joined(training.get("regularizer", "none"))
    files = {key: imported("train/regularizers", key) for key in keys}
    return {key: file for key, file in files.items() if training[file.STRENGTH]}


def ascent_rules(training: Mapping[str, Any]) -> list[ModuleType]:
    """The regularizers that evaluate the gradient at perturbed weights, as SAM does."""
    return [file for file in regularizers_of(training).values() if hasattr(file, "uphill")]
