"""Losses and accuracies on the whole training and test sets, and what a grid asks for beyond them.

Training samples are clean, also where training changes them at random, and batch norm uses its
running statistics. The loss is that of training, with label smoothing and without weight decay.
"""

import math
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import nn

from flatlab.core.schema import Strict, means
from flatlab.data._tensors import EVALUATED, Split, Splits
from flatlab.derivatives.per_sample.probe import run
from flatlab.derivatives.second_order.hessian_products import trainable
from flatlab.losses._base import Loss
from flatlab.measuring.quantity import Measured, Quantity, Settings, chen2026


class Options(Strict, frozen=True):
    generalization_gap: Annotated[
        Literal["accuracy", "loss"], means("accuracy: train - test, in points; loss: test - train")
    ] = "accuracy"
    more: Annotated[
        tuple[Literal["errors", "gaps", "excess-losses", "gradient-norm"], ...],
        means(
            "further quantities; gaps: as each paper defines it; excess-losses: without the "
            "entropy of smoothed labels; gradient-norm: of the training loss"
        ),
    ] = ()


SETS, SHIFTED = ("test_set",), "andriushchenko2023 Sec. 5.1"
QUANTITIES = {
    "train_loss": chen2026("training loss", "loss", "Sec. 2", label="training loss"),
    "test_loss": chen2026("test loss", "loss", "Sec. 2"),
    "train_accuracy": chen2026("training accuracy", "%", "App. H.2", label="training accuracy (%)"),
    "test_accuracy": chen2026("test accuracy", "%", "Fig. 2", label="test accuracy (%)"),
    "generalization_gap": chen2026(
        "generalization gap", "points, or loss, as declared", "App. H.2"
    ),
    "train_error": Quantity(
        "training error", "%", "andriushchenko2023 Fig. 2", label="training error"
    ),
    "test_error": Quantity("test error", "%", "andriushchenko2023 Fig. 2"),
    "accuracy_gap": chen2026("training accuracy - test accuracy", "points", "App. H.2"),
    "absolute_loss_gap": Quantity("|training loss - test loss|", "loss", "macdonald2023 Sec. 6"),
    "loss_gap": Quantity("test loss - training loss", "loss", "petzka2021 Sec. 1"),
    "error_gap": Quantity("test error - training error", "1", "andriushchenko2023 App. B"),
    "train_excess_loss": Quantity(
        "training loss - its smallest value, the entropy of the labels",
        "loss",
        "macdonald2023 Fig. 1",
        label="loss less label entropy",
    ),
    "test_excess_loss": Quantity(
        "test loss - its smallest value, the entropy of the labels", "loss", "macdonald2023 Fig. 1"
    ),
    "gradient_norm": Quantity(
        "norm of the gradient of the training loss, all parameters", "loss/parameter", ""
    ),
    "test_set_loss": Quantity("loss on each test set", "loss", SHIFTED, SETS),
    "test_set_error": Quantity("error on each test set", "%", SHIFTED, SETS),
    "test_set_error_gap": Quantity(
        "error on each test set - training error", "1", "andriushchenko2023 App. B", SETS
    ),
}


CHECKS = ()


class Evaluated(NamedTuple):
    """A network on some samples: means over them; NaN where the loss is not finite.

    loss: that of training.
    accuracy: in %; NaN without labels. Ties go to the lowest class.
    wrong: the fraction that is misclassified; NaN without labels.
    excess: the loss less its smallest value for these targets.
    """

    loss: float
    accuracy: float = math.nan
    wrong: float = math.nan
    excess: float = math.nan


@torch.no_grad()
def measure_splits(model: nn.Module, splits: Splits, settings: Settings) -> Measured:
    """The mean training loss per sample and the accuracy in %, on both splits, and more.

    generalization_gap: training minus test accuracy in percentage points (an assumption for
    chen2026), or test minus training loss if the options say so.
    """
    options: Options = settings.options
    train, test = (evaluated(model, each, settings.loss) for each in (splits.train, splits.test))
    by_accuracy = options.generalization_gap == "accuracy"
    gaps = {"accuracy_gap": train.accuracy - test.accuracy, "loss_gap": test.loss - train.loss}
    values: dict[str, Any] = {
        "train_loss": train.loss,
        "train_accuracy": train.accuracy,
        "test_loss": test.loss,
        "test_accuracy": test.accuracy,
        "generalization_gap": gaps["accuracy_gap" if by_accuracy else "loss_gap"],
    }
    if "errors" in options.more:
        values |= {"train_error": 100 * train.wrong, "test_error": 100 * test.wrong}
    if "gaps" in options.more:
        gaps["absolute_loss_gap"] = abs(train.loss - test.loss)
        values |= {**gaps, "error_gap": test.wrong - train.wrong}
    if "excess-losses" in options.more:
        values |= {"train_excess_loss": train.excess, "test_excess_loss": test.excess}
    if "gradient-norm" in options.more:
        values["gradient_norm"] = gradient_norm(model, splits.train, settings.loss)
    if not splits.further:
        return Measured(values)
    more = [evaluated(model, each, settings.loss) for each in splits.further.values()]
    values["test_set_loss"] = [each.loss for each in (test, *more)]
    values["test_set_error"] = [100 * each.wrong for each in (test, *more)]
    if "gaps" in options.more:
        values["test_set_error_gap"] = [each.wrong - train.wrong for each in (test, *more)]
    return Measured(values, {"test_set": ["test", *splits.further]})


def evaluated(model: nn.Module, split: Split, loss: Loss) -> Evaluated:
    """A network on all samples of a split."""
    outputs = split.outputs(model)
    values = loss.values(outputs, split.targets)
    mean = float(values.mean())
    if not math.isfinite(mean):
        return Evaluated(math.nan)
    excess = float((values - loss.least(split.targets)).mean())
    if split.labels is None:
        return Evaluated(mean, excess=excess)
    right = outputs.argmax(1) == split.labels
    wrong = float((~right).double().mean())
    return Evaluated(mean, 100 * float(right.double().mean()), wrong, excess)


def gradient_norm(model: nn.Module, split: Split, loss: Loss) -> float:
    """The Euclidean norm of the gradient of the loss of a whole split, in all parameters.

    As in training, it is the mean over the samples, or the sum for a loss that is one.
    """
    theta = trainable(model)
    total = [torch.zeros_like(parameter) for parameter in theta]
    with torch.enable_grad():
        chunks = (each.split(EVALUATED["cpu"]) for each in (split.inputs, split.targets))
        for inputs, targets in zip(*chunks, strict=True):
            part = loss.values(run(model, inputs), targets).sum() * loss.share(1, len(split))
            gradient = torch.autograd.grad(part, theta, materialize_grads=True)
            total = [sum_ + more for sum_, more in zip(total, gradient, strict=True)]
    norm = float(torch.stack([sum_.double().square().sum() for sum_ in total]).sum().sqrt())
    return norm if math.isfinite(norm) else math.nan
