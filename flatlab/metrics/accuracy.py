"""Losses and accuracies on the whole training and test sets, and the generalization gap."""

import math
from typing import Annotated, Literal

import torch
from torch import nn

from flatlab.losses import Loss
from flatlab.metrics import Measured, Settings, chen2026
from flatlab.plan.schema import Strict, means
from flatlab.splits import Split, Splits


class Options(Strict, frozen=True):
    generalization_gap: Annotated[
        Literal["accuracy", "loss"], means("accuracy: train - test, in points; loss: test - train")
    ] = "accuracy"


QUANTITIES = {
    "train_loss": chen2026("training loss", "loss", "Sec. 2"),
    "test_loss": chen2026("test loss", "loss", "Sec. 2"),
    "train_accuracy": chen2026("training accuracy", "%", "App. H.2"),
    "test_accuracy": chen2026("test accuracy", "%", "Fig. 2"),
    "generalization_gap": chen2026(
        "generalization gap", "points, or loss, as declared", "App. H.2"
    ),
}


@torch.no_grad()
def measure_splits(model: nn.Module, splits: Splits, settings: Settings) -> Measured:
    """The mean training loss per sample and the accuracy in %, on both splits.

    generalization_gap: training minus test accuracy in percentage points (an assumption for
    chen2026), or test minus training loss if the options say so.
    """
    train = loss_and_accuracy(model, splits.train, settings.loss)
    test = loss_and_accuracy(model, splits.test, settings.loss)
    by_accuracy = settings.options.generalization_gap == "accuracy"
    gap = train[1] - test[1] if by_accuracy else test[0] - train[0]
    names = ("train_loss", "train_accuracy", "test_loss", "test_accuracy", "generalization_gap")
    return Measured(dict(zip(names, (*train, *test, gap), strict=True)))


def loss_and_accuracy(model: nn.Module, split: Split, loss: Loss) -> tuple[float, float]:
    """The mean loss per sample, and the percentage of samples classified correctly.

    Ties go to the lowest class. The accuracy is NaN without labels, the loss without targets.
    """
    outputs = split.outputs(model)
    mean = float(loss.values(outputs, split.targets).mean())
    if not math.isfinite(mean):
        return math.nan, math.nan
    if split.labels is None:
        return mean, math.nan
    right = outputs.argmax(1) == split.labels
    return mean, 100 * float(right.double().mean())
