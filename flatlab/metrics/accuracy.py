"""Losses and accuracies on the whole training and test sets, and the generalization gap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from flatlab.metrics import Measured, Quantity
from flatlab.splits import EVALUATED, Split, Splits

SETTINGS = ["generalization_gap"]
QUANTITIES = {
    "train_loss": Quantity("training loss", "output^2", "chen2026 Sec. 2"),
    "test_loss": Quantity("test loss", "output^2", "chen2026 Sec. 2"),
    "train_accuracy": Quantity("training accuracy", "%", "chen2026 App. H.2"),
    "test_accuracy": Quantity("test accuracy", "%", "chen2026 Fig. 2"),
    "generalization_gap": Quantity(
        "generalization gap", "points, or loss, as declared", "chen2026 App. H.2"
    ),
}


@torch.no_grad()
def measure_splits(model: nn.Module, splits: Splits, settings: Mapping[str, Any]) -> Measured:
    """Mean |f-y|^2/2 and accuracy in % (ties go to the lowest class) of both splits.

    generalization_gap: training minus test accuracy in percentage points (chen2026, as assumed),
    or, where the settings say `loss`, test minus training loss.
    """
    result: dict[str, float] = {}
    for name, split in (("train", splits.train), ("test", splits.test)):
        result[f"{name}_loss"], result[f"{name}_accuracy"] = loss_and_accuracy(model, split)
    by_accuracy = result["train_accuracy"] - result["test_accuracy"]
    by_loss = result["test_loss"] - result["train_loss"]
    gap = by_accuracy if settings["generalization_gap"] == "accuracy" else by_loss
    result["generalization_gap"] = gap
    return Measured({name: np.array(value) for name, value in result.items()})


def loss_and_accuracy(model: nn.Module, split: Split) -> tuple[float, float]:
    """Mean of |f-y|^2/2 over the samples, and the share of right answers in %.

    Without labels there is no right answer: NaN. So is the loss where targets are not known.
    """
    outputs = torch.cat([model(inputs) for inputs in split.inputs.split(EVALUATED)])
    loss = (outputs - split.targets).square().sum(1).mean() / 2
    if not loss.isfinite():
        return float("nan"), float("nan")
    if split.labels is None:
        return float(loss), float("nan")
    right = outputs.argmax(1) == split.labels
    return float(loss), 100 * float(right.double().mean())
