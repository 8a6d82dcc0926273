"""Networks and samples as users have them, made ready for the families.

Inputs keep their names on the way: `inputs` and `targets` as a user has them, in whatever form;
one tensor of each (`collected`); of the type and on the device of the network, several inputs side
by side (`_as_one`); and `samples`, a sample set of what counts, as families take it.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from flatlab.core.errors import MeasureError
from flatlab.core.schema import closest
from flatlab.derivatives.checks.differences import copy_in
from flatlab.derivatives.per_sample.probe import graph_of, run
from flatlab.inputs.adapted import ATTENTION, Layout, Outputs, Structure, adapted, outputs_of
from flatlab.inputs.arguments import Arguments
from flatlab.inputs.batches import collected, of_each, of_samples, tensors_of
from flatlab.inputs.loss_forms import Function
from flatlab.inputs.losses import loss_for
from flatlab.losses._base import Loss
from flatlab.measuring.quantity import SampleSet

WRAPPERS = nn.DataParallel, nn.parallel.DistributedDataParallel, torch.optim.swa_utils.AveragedModel


@dataclass(frozen=True)
class Ready:
    """What families measure.

    model: maps (samples, ...) to (samples, N).
    samples: the sample set, with targets as the loss takes them.
    loss: of a sample.
    outputs: what the network returns by itself.
    ignored: samples that were left out.
    held: inputs that are integers beside real ones, with respect to which nothing is derived.
    """

    model: nn.Module
    samples: SampleSet
    loss: Loss
    outputs: Outputs
    ignored: int
    held: list[str]

    @cached_property
    def targets(self) -> Tensor:
        """Targets (samples, N) of the loss; `MeasureError` where there are none."""
        return self.samples.targets_for(torch.Size(self.outputs.shape).numel(), self.loss)


def made_ready(
    model: nn.Module,
    inputs: Any,
    targets: Any,
    loss: Loss | Function,
    how: Arguments,
    tokens: bool = True,
) -> Ready:
    """A network and its samples, made ready.

    model, inputs, targets: those of `flatlab.measure`.
    loss: an object, or a function of outputs and targets.
    how: the arguments of the measurement.
    tokens: whether inputs may be integers.

    Call it inside `preserving_state`. Raises `MeasureError` for what no family takes.
    """
    given, model = unwrapped(model), network_of(model, how.dtype)
    given = model if next(given.parameters()).is_inference() else given
    weight = next(p for p in model.parameters() if p.is_floating_point())
    inputs, targets = collected(inputs, targets, how.samples)
    two = of_samples(inputs, slice(2))
    inputs, x, layout = _as_one(model, inputs, weight, tokens)
    targets = None if targets is None else _checked(targets, x, weight)
    reference = _called(given, two, x[:2])

    def elsewhere(count: int = 1) -> Any:
        return _called(given, of_samples(two, slice(count)), x[:count])

    outputs = outputs_of(reference, how.output, targets, how.class_axis)
    as_given, classes, named = targets, targets, isinstance(loss, Loss)
    if targets is not None:
        targets = _classes_or_values(targets, outputs, weight, named, how.ignore_index)
        if targets.is_floating_point() and not bool(targets.isnan().any()):
            as_given = targets  # torch's losses take real numbers where targets are values
    network = adapted(model, layout, outputs)
    _check_same(given, network, partial(elsewhere, 2), reference, x[:2], outputs)
    if outputs.classes:
        samples, layout = _at_positions(
            inputs, x, targets, as_given, layout, outputs, weight, how.ignore_index
        )
        network = adapted(model, layout, outputs)
    else:
        samples = _labelled(x, targets, as_given, classes, how.ignore_index)
    ignored, held = len(x) - len(samples.inputs), [*map(str, layout.beside)] if layout else []
    loss = loss_for(loss, network, samples, outputs, how.ignore_index, elsewhere)
    if not named:  # a function takes targets as they are
        samples = replace(samples, targets=samples.as_given)
    return Ready(network, samples, loss, outputs, ignored, held)


def _called(model: nn.Module, inputs: Structure, x: Tensor) -> Any:
    """What a user's network returns for samples as they are given, or else in its precision.

    x: the samples in one tensor, of which an error tells the shape.

    Raises `MeasureError` where the network changes its parameters.
    """
    before = {name: _norm(p) for name, p in model.named_parameters()}
    kind = next(p for p in model.parameters() if p.is_floating_point())

    def called(kinds: torch.dtype | None) -> Any:
        def part(given: Tensor) -> Tensor:
            return given.to(kind.device, kinds if given.is_floating_point() else None, copy=True)

        parts = of_each(part, inputs)
        if isinstance(parts, dict):
            return run(lambda _: model(**parts), x)
        return run(lambda _: model(*tensors_of(parts)), x)

    with torch.random.fork_rng(devices=[kind.device] if kind.is_cuda else []):
        try:
            raw = called(None)
        except MeasureError as error:
            if "type" not in str(error):
                raise
            raw = called(kind.dtype)
    for name, parameter in model.named_parameters():
        if _norm(parameter) != before[name]:
            module = model.get_submodule(name.rpartition(".")[0])
            raise MeasureError(
                f"{type(module).__name__} changes the parameter {name!r} when it is called, so "
                "there is no function to measure; switch that off, as by max_norm=None"
            )
    return raw


def _norm(parameter: Tensor) -> str:
    """In words, where not a number equals itself: a copy of the weights would take longer."""
    return str(float(torch.linalg.vector_norm(parameter.detach())))


def _check_same(
    model: nn.Module,
    network: nn.Module,
    again: Callable[[], Any],
    reference: Any,
    x: Tensor,
    outputs: Outputs,
) -> None:
    """Refuse a network that is measured in place of the user's if it is another function.

    model: the user's.  reference: what it returns for two samples.  again: calls it once more.
    network: what is measured.  x: the samples as it takes them.
    """
    theirs = outputs.flat(outputs.meant(reference))
    if not theirs.numel():  # a family says so
        return
    with torch.random.fork_rng(devices=[x.device] if x.is_cuda else []):
        ours = run(network, x)
    inside = [p for p in model.parameters() if p.is_floating_point()]
    eps = max(torch.finfo(each.dtype).eps for each in (ours, theirs, *inside))
    share = 100 * eps if ours.dtype == theirs.dtype else max(1e-3, 20 * eps)
    size = theirs.detach().abs().max().to(ours)
    off = float((ours - theirs.to(ours)).detach().abs().nan_to_num().max() / size.clamp(min=1e-30))
    if off > max(share, 1e-9):
        other = outputs.flat(outputs.meant(again()))
        if torch.equal(other.isfinite(), theirs.isfinite()) and torch.allclose(other, theirs, 1e-5):
            raise MeasureError(
                f"what would be measured is not the network: in {str(ours.dtype)[6:]} its outputs "
                f"differ by {off:.0e} of the largest, as inputs or weights lose digits; try "
                "dtype='float64', or make inputs smaller numbers"
            )
    if ours.requires_grad and theirs.requires_grad and network is not model:
        lost = _used(model, theirs) - _used(network, ours)
        if lost:
            raise MeasureError(
                f"a copy of the network does not use its own parameters, such as {min(lost)!r}: "
                "its forward belongs to the original; define it in a class, or measure a network "
                "that has the precision already"
            )


def _used(model: nn.Module, outputs: Tensor) -> set[str]:
    """The names of the parameters that outputs depend on."""
    uses, _ = graph_of(outputs)
    return {name for name, parameter in model.named_parameters() if uses[id(parameter)]}


def _as_one(
    model: nn.Module, inputs: Structure, weight: Tensor, tokens: bool
) -> tuple[Structure, Tensor, Layout | None]:
    """Inputs in the precision and on the device of the network; and in one tensor.

    weight: a parameter of the network.
    tokens: whether inputs may be integers.
    """

    def typed(part: Tensor) -> Tensor:
        if part.is_complex():
            raise MeasureError(
                f"inputs are {part.dtype}; pass their real and imaginary parts as numbers"
            )
        return _exactly(part, weight, "inputs")

    inputs = of_each(typed, inputs)
    if isinstance(inputs, Tensor):
        x, layout = inputs, None
    else:
        _check_names(model, inputs)
        layout = Layout.of(inputs)
        x = layout.packed(inputs)
    if not len(x):
        raise MeasureError("there are no samples")
    if not x.is_floating_point() and not tokens:
        raise MeasureError(
            f"inputs are {x.dtype}: derivatives with respect to them need real numbers; "
            "for tokens measure the part of the network behind the embedding"
        )
    return inputs, x, layout


def _check_names(model: nn.Module, inputs: tuple[Tensor, ...] | dict[str, Tensor]) -> None:
    """Refuse inputs under names that are no arguments of the network."""
    taken = inspect.signature(model.forward).parameters
    any_name = inspect.Parameter.VAR_KEYWORD in {each.kind for each in taken.values()}
    if not isinstance(inputs, dict) or any_name:
        return
    if unknown := [name for name in inputs if name not in taken]:
        raise MeasureError(
            f"inputs are called {', '.join(inputs)}, and the network takes no argument "
            f"{unknown[0]!r}, but {', '.join(taken)}: several inputs have the names of arguments"
        )


def _checked(targets: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """Targets of the inputs, on their device, and real numbers in the precision of the network."""
    if targets.ndim < 1 or len(targets) != len(x):
        count = len(targets) if targets.ndim else "one number for"
        raise MeasureError(f"there are {len(x)} inputs and {count} targets")
    if targets.is_complex() or not bool(targets.isfinite().all()):
        raise MeasureError("targets are not all finite real numbers")
    return _exactly(targets, weight, "targets")


def _exactly(numbers: Tensor, weight: Tensor, what: str) -> Tensor:
    """Integers as they are, and real numbers in the precision of the network, on its device.

    `MeasureError` where samples differ by less than that precision can tell.
    """
    if not numbers.is_floating_point():
        return numbers.to(weight.device)
    kept = numbers.to(weight)
    if len(numbers) and numbers.dtype.itemsize > kept.dtype.itemsize:
        low, high = numbers.aminmax(dim=0)
        least, size = 1e-12 * torch.maximum(low.abs(), high.abs()), high - low
        lost = (numbers - kept.to(numbers)).abs()
        if bool(((lost.amax(0) > 1e-3 * size) & (size > least)).any()):
            raise MeasureError(
                f"{what} are {numbers.dtype} and differ in digits that {kept.dtype} does not hold; "
                "subtract what they share, or pass dtype='float64'"
            )
    return kept


def _classes_or_values(
    targets: Tensor, outputs: Outputs, weight: Tensor, named: bool, ignore_index: int
) -> Tensor:
    """Integers where targets are classes, real numbers where they are values.

    named: whether the loss is no function, which may do with whole real numbers what it wants.

    Of several outputs, one whole number for each sample, or position, is its class. Of one output
    it is a value, and NaN where it is an integer that is left out.
    """
    width = torch.Size(outputs.shape).numel()
    each = outputs.classes or width
    one = targets[0].numel() * each == width
    if one and each > 1:
        whole = not targets.is_floating_point() or (
            named and bool((targets == targets.round()).all())
        )
        return targets.long() if whole else targets
    if targets.is_floating_point():
        return targets
    values = _exactly(targets.double(), weight, "targets")
    return values.masked_fill(targets == ignore_index, torch.nan) if each == 1 else values


def _labelled(
    inputs: Tensor,
    targets: Tensor | None,
    given: Tensor | None,
    classes: Tensor | None,
    ignore_index: int,
) -> SampleSet:
    """Samples with values (samples, N), or with classes, without those that are left out.

    given: targets as a loss takes them.
    classes: targets as a user has them; of one output, integers are values and classes.
    """
    if targets is None or given is None or classes is None:
        return SampleSet(inputs)
    values = targets.is_floating_point()
    left_out = targets.isnan() if values else targets == ignore_index
    kept = ~left_out.reshape(len(inputs), -1).any(1)
    if not bool(kept.any()):
        raise MeasureError(f"all labels are {ignore_index}, the class that is left out")
    if not bool(kept.all()):
        inputs, targets, given, classes = (t[kept] for t in (inputs, targets, given, classes))
    if values:
        one_hot = targets.ndim == 2 and targets.shape[1] > 1 and bool((targets >= 0).all())
        one_hot = one_hot and bool(((targets.amax(1) == 1) & (targets.sum(1) == 1)).all())
        labels = targets.argmax(1) if one_hot else None
        whole = not classes.is_floating_point() and classes[0].numel() == 1
        if whole and bool((classes >= 0).all()):
            targets, labels = targets.reshape(-1, 1), classes.long().flatten()
        return SampleSet(inputs, targets, labels, as_given=given)
    labels = targets.flatten()
    if (least := int(labels.min())) < 0:
        raise MeasureError(
            f"label {least}: classes are counted from 0; ignore_index={least} leaves it out"
        )
    return SampleSet(inputs, None, labels, as_given=given)


def _at_positions(
    inputs: Structure,
    x: Tensor,
    targets: Tensor | None,
    given: Tensor | None,
    layout: Layout | None,
    outputs: Outputs,
    weight: Tensor,
    ignore_index: int,
) -> tuple[SampleSet, Layout | None]:
    """Samples of which some position counts, with masks among their inputs where not all do.

    inputs: as the network takes them.
    x: in one tensor.
    given: targets as a user has them; a loss takes `ignore_index` where a position does not count.

    A position counts if it is neither padding nor without a target.
    """
    values, labels = None, None
    if targets is not None:
        values, labels = _of_positions(targets, outputs, ignore_index, weight)
    attended = _attended(inputs, torch.Size(outputs.shape).numel() // outputs.classes)
    padded = attended is not None and not bool(attended.bool().all())
    kept = _kept(x, values, outputs, attended if padded else None)
    some = kept.any(1)
    if not bool(some.any()):
        raise MeasureError("no position of any sample counts: all are masked or ignored")
    if bool(kept.all()):
        return SampleSet(x, values, position_labels=labels, as_given=given), layout
    inputs, kept = of_samples(inputs, some), kept[some]
    if given is not None:
        given = given[some]
        if not given.is_floating_point() and given[0].numel() == kept.shape[1]:
            given = given.masked_fill(~kept.view(given.shape), ignore_index)
    layout = Layout.of(inputs, kept.shape[1])
    if values is not None:
        values = values[some]
        if values.shape[1] % kept.shape[1] == 0:
            values = values.unflatten(1, (kept.shape[1], -1))
            values = values.masked_fill(~kept[..., None], torch.nan).flatten(1)
    labels = None if labels is None else labels[some].masked_fill(~kept, -1)
    how: dict[str, Any] = {"masks": layout.masks, "padded": padded, "position_labels": labels}
    how["as_given"] = given
    return SampleSet(layout.packed(inputs, kept), values, kept=kept, **how), layout


def _attended(inputs: Structure, positions: int) -> Tensor | None:
    """The mask of outputs; that of a source, beside tokens for the outputs, is but an input."""
    if not isinstance(inputs, dict) or ATTENTION not in inputs:
        return None
    mask, *others = inputs[ATTENTION], *(p.shape for n, p in inputs.items() if n != ATTENTION)
    of_outputs = mask.shape[1:] == (positions,) or (len(mask), positions) not in others
    return mask if of_outputs or mask.shape not in others else None


def _kept(x: Tensor, targets: Tensor | None, outputs: Outputs, attended: Tensor | None) -> Tensor:
    """Positions that are neither padding nor without a target: (samples, positions)."""
    positions = torch.Size(outputs.shape).numel() // outputs.classes
    kept = torch.ones(len(x), positions, dtype=torch.bool, device=x.device)
    if targets is not None:
        if targets.shape[1] != positions * outputs.classes:
            return kept  # a family says so, if it needs them
        kept = ~targets.unflatten(1, (positions, outputs.classes)).isnan().any(2)
    if attended is None:
        return kept
    if attended.shape != kept.shape:
        raise MeasureError(
            f"{ATTENTION} is {tuple(attended.shape)}, for outputs at {positions} positions of "
            "each sample"
        )
    return kept & attended.bool()


def _of_positions(
    targets: Tensor, outputs: Outputs, ignore_index: int, weight: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Targets (samples, positions * classes), the classes of a position side by side; and labels.

    They are NaN, and the labels (samples, positions) -1, where the label is `ignore_index`.
    """
    classes = outputs.classes
    if targets.ndim < 2:
        raise MeasureError(
            "targets are (samples,), and the network has outputs at several positions of each "
            "sample; pass a class for each position"
        )
    if targets.is_floating_point():
        maps = tuple(targets.shape[1:]) == outputs.shape
        return (outputs.flat(targets) if maps else targets.flatten(1)).to(weight), None
    labels = targets.long().flatten(1)
    ignored = labels == ignore_index
    if bool(ignored.all()):
        raise MeasureError(f"all labels are {ignore_index}, the class that is left out")
    low, high = map(int, labels[~ignored].aminmax())
    if low < 0 or high >= classes:
        raise MeasureError(
            f"label {low if low < 0 else high} is out of range: there are {classes} outputs for "
            f"each position (labels 0 to {classes - 1})"
        )
    wanted = one_hot(labels.masked_fill(ignored, 0), classes).to(weight)
    wanted = wanted.masked_fill(ignored[..., None], torch.nan).flatten(1)
    return wanted, labels.masked_fill(ignored, -1)


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


def unwrapped(model: nn.Module) -> nn.Module:
    """What is compiled, averaged, or spread over devices, as it is without that."""
    while True:
        held = "module" if isinstance(model, WRAPPERS) else "_orig_mod"  # of torch.compile
        if not isinstance(inside := getattr(model, held, None), nn.Module):
            return model
        model = inside


def network_of(model: nn.Module, dtype: str | torch.dtype | None) -> nn.Module:
    """The network, unwrapped, in the precision of the measurement, a copy where it has another."""
    model = unwrapped(model)
    kinds = {p.dtype for p in model.parameters() if p.is_floating_point()}
    if not kinds:
        raise MeasureError("the network has no parameters")
    if any(p.is_complex() for p in model.parameters()):
        raise MeasureError("the network has complex parameters; its quantities are of real ones")
    precisions = {"float64": torch.float64, "float32": torch.float32}
    widest = max(kinds, key=lambda kind: kind.itemsize)
    wanted = precisions.get(str(widest if dtype is None else dtype).removeprefix("torch."))
    if wanted is None and dtype is None:
        wanted = torch.float32  # half precision has too few digits for derivatives
    if wanted is None:
        raise MeasureError(f"dtype={dtype!r} is unknown; known: {', '.join(precisions)}")
    if kinds != {wanted} or any(p.is_inference() for p in model.parameters()):
        model = copy_in(model, wanted)
    return model
