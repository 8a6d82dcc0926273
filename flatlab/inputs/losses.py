"""The loss of a measurement: by its name, with options and class weights, or a function."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy as torch_cross_entropy

from flatlab.core.errors import MeasureError
from flatlab.core.options import checked
from flatlab.core.registry import check_known, keys_of
from flatlab.core.schema import plain
from flatlab.derivatives.per_sample.probe import graph_of, run
from flatlab.inputs.adapted import Outputs
from flatlab.inputs.arguments import options_in_measurement
from flatlab.inputs.loss_forms import Function, OfFunction, OfPositions
from flatlab.losses import cross_entropy
from flatlab.losses._base import Loss, NoClosedForm, loss_of
from flatlab.measuring.quantity import SampleSet


class Weighted(Loss):
    """The cross-entropy with weights of classes: a weighted mean over the samples, as in torch.

    base: without weights.
    weights: of the classes, (N).
    mean: of those of all samples that are measured.

    With w_k the weight of class k and t the targets, smoothed if they are, the loss of a sample is
    -sum_k w_k t_k log softmax(f)_k / mean. The mean over samples, in batches of any size, is then
    torch's sum over them divided by the sum of their weights.
    """

    weighted = True

    def __init__(self, base: cross_entropy.Loss, weights: Tensor, mean: float = 1.0) -> None:
        self.base, self.weights, self.mean = base, weights, mean

    def values(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return -(self._weighted(targets) * outputs.log_softmax(-1)).sum(-1) / self.mean

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        weighted = self._weighted(targets)
        slopes = outputs.softmax(-1) * weighted.sum(-1, keepdim=True) - weighted
        return slopes / (self.mean * outputs.shape[-2])

    def hessian_product(self, outputs: Tensor, directions: Tensor) -> Tensor:
        raise NoClosedForm(
            "with class weights the second derivative of the loss in the outputs depends on the "
            "class of a sample, which this does not know; name another loss for it with "
            "relative_flatness_loss=, or the other quantities with quantities="
        )

    def curved(self, outputs: Tensor, directions: Tensor, targets: Tensor) -> Tensor:
        weight = self._weighted(targets).sum(-1, keepdim=True)
        return weight * self.base.hessian_product(outputs, directions) / self.mean

    def unfit(self, targets: Tensor) -> str:
        if targets.shape[-1] != len(self.weights):
            return f"there are {len(self.weights)} class weights and {targets.shape[-1]} outputs"
        return self.base.unfit(targets)

    def least(self, targets: Tensor) -> Tensor:
        """-sum_k t_k log(t_k / sum_j t_j), t weighted."""
        weighted = self._weighted(targets)
        total = weighted.sum(-1, keepdim=True)
        return (weighted.xlogy(total) - weighted.xlogy(weighted)).sum(-1) / self.mean

    def within(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """softmax(f) and the weighted targets over their sum; c = their sum / 2 by Pinsker's."""
        weighted = self._weighted(targets)
        total = weighted.sum(-1, keepdim=True)
        excess = (self.values(outputs, targets) - self.least(targets)) * self.mean / total[..., 0]
        return outputs.softmax(-1), weighted / total, (2 * excess.clamp(min=0)).sqrt()

    def like(self, other: Loss) -> Loss:
        if not isinstance(other, cross_entropy.Loss):
            return other
        return Weighted(other, self.weights, self.mean)

    def reference(self, outputs: Tensor, targets: Tensor) -> Tensor:
        weights, smoothing = self.weights.to(outputs), self.base.label_smoothing
        total = torch_cross_entropy(
            outputs, targets, weights, reduction="sum", label_smoothing=smoothing
        )
        return total / (self.mean * len(outputs))

    def _weighted(self, targets: Tensor) -> Tensor:
        return self.base.smoothed(targets) * self.weights.to(targets)


def options_known(loss: str | Function) -> set[str]:
    """The names of the options of a loss; a function has none.

    Raises `PlanError` or `MeasureError` where it is neither the name of a loss nor a function.
    """
    if isinstance(loss, str):
        check_known("losses", loss, "loss")
        return set(options_in_measurement("losses", loss).__struct_fields__)
    if not callable(loss):
        names = ", ".join(keys_of("losses"))
        raise MeasureError(f"loss is {loss!r}: neither a function nor one of {names}")
    return set()


def with_options(loss: str | Function, options: Mapping[str, Any]) -> Loss | Function:
    """A loss by its name with those of the options that are its own; a function as it is."""
    options_known(loss)
    if not isinstance(loss, str):
        return loss
    own = plain(checked(options, options_in_measurement("losses", loss)))
    weights = own.pop("class_weights", None)
    chosen = loss_of({**own, "loss": loss})
    if weights is None:
        return chosen
    assert isinstance(chosen, cross_entropy.Loss)
    return Weighted(chosen, torch.tensor(weights, dtype=torch.float64))


def loss_for(
    loss: Loss | Function,
    model: nn.Module,
    samples: SampleSet,
    outputs: Outputs,
    ignore_index: int,
    elsewhere: Callable[[], Any],
) -> Loss:
    """The loss of the outputs of a network.

    loss: one of this project's; or a function of outputs and targets, which must be the mean of its
        values on single samples, or their sum, or the mean over all positions.
    model: maps samples to vectors.
    outputs: what it returns by itself.
    ignore_index: the class of positions that do not count.
    elsewhere: calls the user's network on other samples.
    """
    if isinstance(loss, Loss):
        return _of_outputs(loss, samples, outputs)
    targets = samples.as_given
    if targets is None:
        raise MeasureError("a loss that is a function needs targets")
    integers = not targets.is_floating_point()
    if samples.kept is not None and not integers:
        raise MeasureError(
            "a loss that is a function takes masks as classes that are ignored, and targets are "
            "values; name a loss"
        )
    counts = None if samples.kept is None else samples.kept.sum(1).double()
    few = torch.arange(min(4, len(targets)), device=targets.device)
    if counts is not None:  # samples that differ in it come first
        few = (counts - counts.mean()).abs().argsort(descending=True)[:4]
    total, values = _tried(loss, model, samples, outputs, targets, few, elsewhere)
    mean, together = sum(values) / len(values), sum(values)
    kinds: list[tuple[float, bool, Any]] = [(mean, False, None), (together, True, None)]
    # the mean over all positions, or over those behind the first
    for first in () if counts is None else (0, 1):

        def counted(targets: Tensor, first: int = first) -> Tensor:
            return (targets[:, first:] != ignore_index).flatten(1).sum(1).double()

        each = counted(targets)
        share = (each[few] / each[few].sum()).tolist()
        by_position = sum(part * value for part, value in zip(share, values, strict=True))
        average = each.mean()
        kinds.append((by_position, False, lambda y, f=counted, a=average: f(y) / a))
    for value, summed, each in kinds:
        if abs(total - value) <= 1e-4 * max(abs(value), 1e-6):
            return OfFunction(loss, integers, summed, outputs.natural, each, outputs.classes)
    raise MeasureError(
        "the loss of a batch is neither the mean nor the sum of those of its samples: "
        f"{total:.6g} for {mean:.6g} or {together:.6g}; class weights are class_weights= of "
        "loss='cross-entropy'"
    )


def _of_outputs(loss: Loss, samples: SampleSet, outputs: Outputs) -> Loss:
    """A loss of this project's for these samples, or for the positions of each."""
    if isinstance(loss, Weighted):
        loss = _of_mean_weight(loss, samples, outputs.classes)
    if not outputs.classes:
        return loss
    count = None if samples.kept is None else float(samples.kept.sum()) / len(samples.kept)
    return OfPositions(loss, outputs.classes, count)


def _of_mean_weight(loss: Weighted, samples: SampleSet, classes: int) -> Weighted:
    """The weighted cross-entropy, divided by the mean weight of these samples."""
    weights = loss.weights.to(samples.inputs.device)
    if samples.labels is not None:
        if (largest := int(samples.labels.max())) >= len(weights):
            raise MeasureError(
                f"label {largest} has no weight: there are {len(weights)} class_weights"
            )
        mean = weights[samples.labels].mean()
    elif samples.targets is None:
        raise MeasureError("class_weights weigh samples by their classes; pass targets")
    else:
        rows = samples.targets.double()
        rows = rows.unflatten(1, (-1, classes)).flatten(0, 1) if classes else rows
        if rows.ndim != 2 or rows.shape[1] != len(weights):
            raise MeasureError(
                f"there are {len(weights)} class_weights for targets {tuple(rows.shape)}"
            )
        mean = (rows[~rows.isnan().any(1)] @ weights).mean()
    if not float(mean) > 0:
        raise MeasureError("class_weights are 0 for the classes of all samples")
    return Weighted(loss.base, weights, float(mean))


def _tried(
    loss: Function,
    model: nn.Module,
    samples: SampleSet,
    outputs: Outputs,
    targets: Tensor,
    few: Tensor,
    elsewhere: Callable[[], Any],
) -> tuple[float, list[float]]:
    """The value of a function on a few samples together, and on each alone.

    Raises `MeasureError` where it is none of the outputs and the targets.
    """
    flat, some = run(model, samples.inputs[few]).detach().requires_grad_(), targets[few]
    try:
        f = outputs.natural(flat)
        whole = loss(f, some)
        elsewhere()
        later = loss(f, some)
        others = loss(outputs.natural(_otherwise(flat, samples, few)), some)
        values = [loss(*pair) for pair in zip(f.split(1), some.split(1), strict=True)]
    except Exception as error:  # whatever the user's function raises
        raise MeasureError(f"the loss raises {type(error).__name__}: {error}") from error
    if not all(isinstance(part, Tensor) and part.numel() == 1 for part in (whole, *values)):
        raise MeasureError("the loss must return one number for a batch of outputs and targets")
    uses = graph_of(whole)[0] if whole.requires_grad else {}
    if (whole.requires_grad and uses.keys() - {id(flat)}) or not torch.allclose(whole, later, 1e-5):
        modules = [each for each in (model, loss) if isinstance(each, nn.Module)]
        named = {id(p): name for each in modules for name, p in each.named_parameters()}
        of = next((f", of {named[key]!r}" for key in uses if key in named), "")
        raise MeasureError(
            f"the loss is a function of more than outputs and targets{of}: leave penalties and "
            "features that a network keeps out, which belong to no sample; "
            "loss.requires_grad_(False) holds parameters of a loss fixed"
        )
    if not torch.allclose(whole, others, rtol=1e-5):
        raise MeasureError(
            "the loss depends on outputs at positions with ignored labels, which do not count; "
            "where it shifts labels itself, shift them before, and take a loss that does not"
        )
    return whole.item(), [value.item() for value in values]


def _otherwise(flat: Tensor, samples: SampleSet, few: Tensor) -> Tensor:
    """Outputs (samples, N) with other numbers at positions that do not count, where they are 0."""
    kept = samples.kept
    if kept is None:
        return flat
    by_position = flat.unflatten(1, (kept.shape[1], -1))
    others = torch.arange(by_position[0].numel()).view_as(by_position[0]).to(flat).cos()
    return torch.where(kept[few][..., None], by_position, others).flatten(1)
