"""Networks and samples as users have them, made ready for the families."""

import copy
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.core.schema import closest
from flatlab.derivatives.checks.isolation import preserving_state
from flatlab.inputs.adapted import ATTENTION, Layout, Outputs, Structure, adapted, outputs_of
from flatlab.inputs.batches import collected, like, of_samples, tensor_of, tensors
from flatlab.inputs.samples import samples_of
from flatlab.measuring.quantity import Samples


@dataclass(frozen=True)
class Prepared:
    """What families measure.

    model: maps (samples, ...) to (samples, N).
    samples: the sample set.
    outputs: what the network returns by itself.
    given: the targets of these samples as they were given, several of them side by side; None:
        there are none.
    parts: how several targets lie side by side; None: there is one.
    ignore_index: the class of positions that do not count.
    ignored: samples that were left out.
    mixed: whether inputs are numbers and integers side by side, so that |x| means nothing.
    """

    model: nn.Module
    samples: Samples
    outputs: Outputs
    given: Tensor | None
    parts: Layout | None
    ignore_index: int
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
    loss_takes_parts: bool = False,
) -> Prepared:
    """A network and its samples.

    model, inputs, targets: those of `flatlab.measure`.
    dtype: of the arithmetic.
    limit: samples to take.
    output: which output is meant.
    ignore_index: the class of samples, or positions, that are left out.
    tokens: whether inputs may be integers.
    loss_takes_parts: whether all that is in a batch, and no argument of the network, is for the
        loss, a function.
    """
    model = network_of(model, dtype)
    weight = next(p for p in model.parameters() if p.is_floating_point())
    taken = arguments_of(model) if loss_takes_parts else None
    parts, targets = collected(inputs, targets, limit, ignore_index, taken, loss_takes_parts)
    layout, of_targets = None, None
    if isinstance(targets, dict | tuple):
        of_targets, targets = _side_by_side(targets, weight, loss_takes_parts)
    if isinstance(parts, Tensor):
        x = parts
    else:
        parts = _typed(parts, weight)
        _check_names(model, parts)
        layout = Layout.of(parts)
        x = layout.packed(parts)
    # Twice: what targets must be depends on the outputs, and these on the converted inputs.
    x = samples_of(x, None, weight, tokens, ignore_index).inputs
    with preserving_state(model):
        outputs = outputs_of(model, x, layout, output)
    samples = samples_of(
        x, targets, weight, tokens, ignore_index, outputs.classes, of_targets is not None
    )
    mixed = layout is not None and layout.mixed
    if not outputs.classes:
        ignored = len(x) - len(samples.inputs)
        network = adapted(model, layout, outputs)
        given = samples.targets if samples.labels is None else samples.labels
        given = given if samples.packed is None else samples.packed
        return Prepared(network, samples, outputs, given, of_targets, ignore_index, ignored, mixed)
    given = None if targets is None else tensor_of(targets, "targets").to(x.device)
    given = given if samples.packed is None else samples.packed
    typed = x if isinstance(parts, Tensor) else parts
    samples, layout, given, ignored = _at_positions(
        samples, outputs, typed, layout, given, ignore_index
    )
    network = adapted(model, layout, outputs)
    return Prepared(network, samples, outputs, given, of_targets, ignore_index, ignored, mixed)


def _side_by_side(targets: Structure, weight: Tensor, taken: bool) -> tuple[Layout, Tensor]:
    """Several targets in one tensor of real numbers, which holds their integers exactly.

    taken: whether the loss takes several.
    """
    layout = Layout.of(targets)
    if not taken:
        names = f" ({', '.join(layout.names)})" if layout.names else ""
        raise MeasureError(
            f"there are {len(layout.shapes)} targets{names}: a loss by name takes one; a loss that "
            "is a function of outputs and targets takes all of them"
        )
    most = int(2 / torch.finfo(weight.dtype).eps)
    for part in tensors(targets):
        if part.is_complex():
            raise MeasureError("targets are not all finite real numbers")
        if part.is_floating_point() or not part.numel():
            continue
        if max(int(part.long().max()), -int(part.long().min())) > most:
            remedy = "" if weight.dtype == torch.float64 else "; pass dtype='float64'"
            raise MeasureError(
                f"a target has integers beyond {most}, which {weight.dtype} does not hold{remedy}"
            )
    return layout, layout.packed(like(targets, [part.double() for part in tensors(targets)]))


def _at_positions(
    samples: Samples,
    outputs: Outputs,
    parts: Structure,
    layout: Layout | None,
    given: Tensor | None,
    ignore_index: int,
) -> tuple[Samples, Layout | None, Tensor | None, int]:
    """Samples of positions that count, their layout and targets, and how many samples have none.

    parts: the inputs.  given: targets as they were given.
    """
    attended = parts.get(ATTENTION) if isinstance(parts, dict) else None
    kept = _kept(samples, outputs, attended)
    some = kept.any(1)
    if not bool(some.any()):
        raise MeasureError("no position of any sample counts: all are masked or ignored")
    if not bool(kept.all()):
        parts, kept = of_samples(parts, some), kept[some]
        layout = Layout.of(parts, kept.shape[1])
        x = layout.packed(parts, kept)
        samples = _masked(samples, x, some, kept, layout, attended)
        if given is not None:
            given = given[some]
            if not given.is_floating_point():
                given = given.long().masked_fill(~kept.view_as(given), ignore_index)
    if given is not None and not given.is_floating_point():
        labels = given.long().flatten(1)
        labels = labels.masked_fill(labels == ignore_index, -1)
        samples = replace(samples, position_labels=labels)
    return samples, layout, given, int((~some).sum())


def _kept(samples: Samples, outputs: Outputs, attended: Tensor | None) -> Tensor:
    """Positions that are neither padding nor without a target: (samples, positions)."""
    positions = torch.Size(outputs.shape).numel() // outputs.classes
    kept = torch.ones(len(samples.inputs), positions, dtype=torch.bool)
    kept = kept.to(samples.inputs.device)
    if samples.targets is not None:
        if samples.targets.shape[1] != positions * outputs.classes:
            return kept  # a family says so, if it needs them
        kept = ~samples.targets.unflatten(1, (positions, outputs.classes)).isnan().any(2)
    if attended is not None and not bool(attended.bool().all()):
        if attended.shape != kept.shape:
            raise MeasureError(
                f"{ATTENTION} is {tuple(attended.shape)}, for outputs at {positions} positions of "
                "each sample"
            )
        kept = kept & attended.bool()
    return kept


def _masked(
    samples: Samples,
    inputs: Tensor,
    some: Tensor,
    kept: Tensor,
    layout: Layout,
    attended: Tensor | None,
) -> Samples:
    """The samples of which some position counts, with masks among their inputs.

    inputs, kept: of these samples.  some: which they are.
    """
    targets = samples.targets
    if targets is not None and targets.shape[1] % kept.shape[1] == 0:
        by_position = targets[some].unflatten(1, (kept.shape[1], -1))
        targets = by_position.masked_fill(~kept[..., None], torch.nan).flatten(1)
    padded = attended is not None and not bool(attended.bool().all())
    return Samples(inputs, targets, kept=kept, masks=layout.masks, padded=padded)


def _check_names(model: nn.Module, parts: tuple[Tensor, ...] | dict[str, Tensor]) -> None:
    """Refuse inputs under names that are no arguments of the network."""
    taken = arguments_of(model)
    if not isinstance(parts, dict) or taken is None:
        return
    if unknown := [name for name in parts if name not in taken]:
        raise MeasureError(
            f"inputs are called {', '.join(parts)}, and the network takes no argument "
            f"{unknown[0]!r}, but {', '.join(taken)}: several inputs have the names of arguments"
        )


def arguments_of(model: nn.Module) -> list[str] | None:
    """The names of the arguments of a network; None: it takes any."""
    taken = inspect.signature(model.forward).parameters
    kinds = {parameter.kind for parameter in taken.values()}
    return None if inspect.Parameter.VAR_KEYWORD in kinds else [*taken]


def _typed(
    parts: tuple[Tensor, ...] | dict[str, Tensor], weight: Tensor
) -> tuple[Tensor, ...] | dict[str, Tensor]:
    """Several inputs on the device of a parameter, and real numbers in its precision."""

    def typed(part: Tensor) -> Tensor:
        return part.to(weight if part.is_floating_point() else weight.device)

    if isinstance(parts, dict):
        return {name: typed(part) for name, part in parts.items()}
    return tuple(map(typed, parts))


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
            raise MeasureError(f"parameters={pattern!r} matches no trainable parameter; {hint}")
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
