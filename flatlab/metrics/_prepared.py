"""Networks and samples as users have them, made ready for the families."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.derivatives.errors import MeasureError
from flatlab.derivatives.isolation import preserving_state
from flatlab.losses import _function, _positions
from flatlab.losses._base import Loss
from flatlab.metrics._adapted import Layout, adapted
from flatlab.metrics._batches import collected
from flatlab.metrics._quantity import Samples
from flatlab.metrics._samples import samples_of
from flatlab.plan.schema import closest


@dataclass(frozen=True)
class Prepared:
    """What families measure.

    model: maps (samples, ...) to (samples, N).
    samples: the sample set.
    classes: outputs for each position, where samples have positions; otherwise 0.
    ignored: samples that were left out.
    mixed: whether inputs are numbers and integers side by side, so that |x| means nothing.
    """

    model: nn.Module
    samples: Samples
    classes: int
    ignored: int
    mixed: bool


def prepared(
    model: nn.Module,
    inputs: Any,
    targets: Any,
    *,
    dtype: str | torch.dtype | None,
    limit: int | None,
    output: str | int | None,
    ignore_index: int,
    tokens: bool,
) -> Prepared:
    """A network and its samples.

    model, inputs, targets: those of `flatlab.measure`.
    dtype: of the arithmetic.
    limit: samples to take.
    output: which output is meant.
    ignore_index: the class of samples that are left out.
    tokens: whether inputs may be integers.
    """
    model = network_of(model, dtype)
    weight = next(p for p in model.parameters() if p.is_floating_point())
    parts, targets = collected(inputs, targets, limit)
    layout = None
    if not isinstance(parts, Tensor):
        typed = _typed(parts, weight)
        layout = Layout.of(typed)
        parts = layout.packed(typed)
    mixed = layout is not None and layout.mixed
    x = samples_of(parts, None, weight, tokens, ignore_index).inputs
    with preserving_state(model):
        model, classes = adapted(model, x, layout, output)
    samples = samples_of(x, targets, weight, tokens, ignore_index, classes)
    return Prepared(model, samples, classes, len(x) - len(samples.inputs), mixed)


def _typed(
    parts: tuple[Tensor, ...] | dict[str, Tensor], weight: Tensor
) -> tuple[Tensor, ...] | dict[str, Tensor]:
    """Several inputs on the device of a parameter, and real numbers in its precision."""

    def typed(part: Tensor) -> Tensor:
        return part.to(weight if part.is_floating_point() else weight.device)

    if isinstance(parts, dict):
        return {name: typed(part) for name, part in parts.items()}
    return tuple(map(typed, parts))


def loss_for(
    loss: Loss | Callable[[Tensor, Tensor], Tensor], ready: Prepared
) -> tuple[Loss, Samples]:
    """The loss of the outputs of a network, and the samples with the targets that it takes.

    loss: one of this project's; or a function of outputs and targets, which must be the mean of its
        values on single samples, or their sum.
    ready: the network and its samples.
    """
    samples = ready.samples
    if isinstance(loss, Loss):
        return (_positions.Loss(loss, ready.classes) if ready.classes else loss), samples
    targets = samples.targets if samples.labels is None else samples.labels
    if targets is None:
        raise MeasureError("a loss that is a function needs targets")
    few = slice(0, 4)
    with preserving_state(ready.model), torch.no_grad():
        outputs, some = ready.model(samples.inputs[few].clone()), targets[few]
        try:
            whole = loss(outputs, some)
            each = [loss(f, y) for f, y in zip(outputs.split(1), some.split(1), strict=True)]
        except Exception as error:  # whatever the user's function raises
            raise MeasureError(f"the loss raises {type(error).__name__}: {error}") from error
    if not all(isinstance(part, Tensor) and part.numel() == 1 for part in (whole, *each)):
        raise MeasureError("the loss must return one number for a batch of outputs and targets")
    total = sum(float(part) for part in each)
    sums = {False: total / len(each), True: total}
    for summed, value in sums.items():
        if abs(float(whole) - value) <= 1e-4 * max(abs(value), 1e-6):
            function = _function.Loss(loss, not targets.is_floating_point(), summed)
            return function, Samples(samples.inputs, targets, None)
    raise MeasureError(
        "the loss of a batch is neither the mean nor the sum of those of its samples: "
        f"{float(whole):.6g} for {sums[False]:.6g} or {total:.6g}"
    )


@contextmanager
def only(model: nn.Module, parameters: str | Sequence[str] | None) -> Iterator[None]:
    """Let some of the parameters that require gradients be all that do.

    parameters: their names, those of modules, or patterns such as `*.weight`; None: all.
    """
    if parameters is None:
        yield
        return
    patterns = [parameters] if isinstance(parameters, str) else list(parameters)
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}

    def chosen(name: str, pattern: str) -> bool:
        return fnmatchcase(name, pattern) or name.startswith(f"{pattern}.")

    for pattern in patterns:
        if not any(chosen(name, pattern) for name in named):
            hint = closest(pattern, [*named, *(name for name, _ in model.named_modules() if name)])
            raise MeasureError(f"parameters: {pattern!r} is none that requires gradients; {hint}")
    others = [p for n, p in named.items() if not any(chosen(n, pattern) for pattern in patterns)]
    try:
        for parameter in others:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in others:
            parameter.requires_grad_(True)


def network_of(model: nn.Module, dtype: str | torch.dtype | None) -> nn.Module:
    """The network in the precision of the measurement, a copy where it has another.

    What is compiled, or spread over devices, is measured as it is without that.
    """
    if not isinstance(model, nn.Module):
        raise MeasureError(f"the network is {type(model).__name__}, not a torch Module")
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    if isinstance(model, nn.DataParallel):
        model = model.module
    first = next((p for p in model.parameters() if p.is_floating_point()), None)
    if first is None:
        raise MeasureError("the network has no parameters")
    if any(p.is_complex() for p in model.parameters()):
        raise MeasureError("the network has complex parameters; its quantities are of real ones")
    if any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers())):
        raise MeasureError(
            "the network is on the meta device, where tensors have no numbers; call "
            "model.to_empty(device='cpu') and load its weights"
        )
    precisions = {"float64": torch.float64, "float32": torch.float32}
    wanted = precisions.get(str(first.dtype if dtype is None else dtype).removeprefix("torch."))
    if wanted is None and dtype is None:
        wanted = torch.float32  # half precision has too few digits for derivatives
    if wanted is None:
        raise MeasureError(f"dtype={dtype!r} is unknown; known: {', '.join(precisions)}")
    if any(p.dtype != wanted for p in model.parameters() if p.is_floating_point()):
        with torch.inference_mode(False):
            model = copy.deepcopy(model).to(wanted)
    return model
