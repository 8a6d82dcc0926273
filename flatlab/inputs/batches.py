"""Inputs and targets of all samples, from whatever yields them in batches."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from flatlab.core.errors import MeasureError
from flatlab.inputs.adapted import ATTENTION, Structure

TARGETS = ("labels", "label", "targets", "target", "y")
"""Keys and attributes of a batch under which targets lie."""
_ARRAYS = (Tensor, np.ndarray)
BATCH = 256
"""Samples that are read from a dataset at a time."""


def collected(
    inputs: Any,
    targets: Any,
    limit: int | None,
    ignore_index: int = -100,
    taken: Container[str] | None = None,
    several: bool = False,
) -> tuple[Structure, Any]:
    """The inputs of all samples, a tensor or several, and their targets.

    inputs: a tensor or an array (samples, ...); a list of one for each sample; a tuple of several,
        or a dictionary of them; a dataset; or a loader, any iterable of batches.
    targets: of the samples; a tuple of several, or a dictionary of them; None where batches bring
        them, or there are none.
    limit: samples to take, the first ones; None: all.
    ignore_index: the class of positions that are added to sequences of unequal length.
    taken: names of inputs; all that has another name belongs to the targets. None: any name.
    several: whether each sample may have several targets; a tuple of as many tensors as there are
        samples is otherwise one target for each.

    A batch is a tensor; a tuple or list whose last part are the targets; or a dictionary or an
    object with `labels` or `targets`. Batches of sequences with an `attention_mask` are padded
    to the longest. Raises `MeasureError` where that is not so.
    """
    if limit is not None and limit < 1:
        raise MeasureError(f"samples={limit} is not a positive number")
    if isinstance(inputs, Tensor | np.ndarray):
        inputs = tensor_of(inputs, "inputs")
        if inputs.ndim < 1:
            raise MeasureError("inputs must be a tensor (samples, ...)")
        if inputs.layout != torch.strided:
            raise MeasureError("inputs are sparse; pass inputs.to_dense()")
    elif isinstance(inputs, tuple):
        inputs = tuple(tensor_of(part, "inputs") for part in inputs)
    elif isinstance(inputs, Mapping):
        inputs, targets = _from_mapping(inputs, targets, taken)
    elif isinstance(inputs, list) and all(map(_is_number_like, inputs)):
        inputs = tensor_of([np.asarray(part) for part in inputs], "inputs")
    else:
        if targets is not None:
            raise MeasureError("batches bring their targets; leave the argument targets out")
        return _gathered(_batches(inputs), limit, ignore_index, taken, several)
    _check_lengths(inputs)
    targets = in_parts(targets, len(_some(inputs)), several)
    return of_samples(inputs, slice(limit)), _cut(targets, limit)


def _is_number_like(part: Any) -> bool:
    return isinstance(part, Tensor | np.ndarray | float | int)


def _batches(inputs: Any) -> Iterator[Any]:
    if isinstance(inputs, Dataset) and not isinstance(inputs, IterableDataset):
        inputs = DataLoader(inputs, BATCH)
    if isinstance(inputs, str) or not isinstance(inputs, Iterable):
        raise MeasureError(f"inputs must be a tensor or batches, not {type(inputs).__name__}")
    return iter(inputs)


def _gathered(
    batches: Iterator[Any],
    limit: int | None,
    ignore_index: int,
    taken: Container[str] | None,
    several: bool,
) -> tuple[Structure, Any]:
    """All batches one after the other, until there are as many samples as wanted."""
    parts: list[tuple[Structure, Any]] = []
    count = 0
    for batch in batches:
        of_batch, targets = _of_batch(batch, taken)
        if isinstance(targets, list):
            targets = tuple(targets)  # as the loaders of torch collate tuples
        parts.append((of_batch, in_parts(targets, len(_some(of_batch)), several)))
        count += len(_some(parts[-1][0]))
        if limit is not None and count >= limit:
            break
    if not parts:
        raise MeasureError("there are no samples: nothing came from the loader")
    structures, of_batches = zip(*_of_one_length(parts, ignore_index), strict=True)
    lacking = sum(part is None for part in of_batches)
    if lacking not in (0, len(parts)):
        raise MeasureError("some batches have targets and others have none")
    joined = _joined(structures)
    _check_lengths(joined)
    whole = None if lacking else _joined([_of_parts(part) for part in of_batches])
    return of_samples(joined, slice(limit)), whole if whole is None else _cut(whole, limit)


def _of_one_length(
    parts: list[tuple[Structure, Any]], ignore_index: int
) -> list[tuple[Structure, Any]]:
    """Batches of sequences, padded to the longest; others as they are."""
    masks = [inputs.get(ATTENTION) if isinstance(inputs, dict) else None for inputs, _ in parts]
    if any(mask is None or mask.ndim != 2 for mask in masks):
        return parts
    lengths = [mask.shape[1] for mask in masks if mask is not None]
    longest = max(lengths)

    def padded(part: Tensor, length: int, value: int) -> Tensor:
        if part.ndim < 2 or part.shape[1] != length:
            return part
        shape = (len(part), longest - length, *part.shape[2:])
        return torch.cat([part, part.new_full(shape, value)], 1)

    result: list[tuple[Structure, Any]] = []
    for (inputs, targets), length in zip(parts, lengths, strict=True):
        assert isinstance(inputs, dict)
        longer = {name: padded(part, length, 0) for name, part in inputs.items()}
        if targets is not None:
            targets = _of_parts(targets)
            longer_parts = [
                padded(part, length, 0 if part.is_floating_point() else ignore_index)
                for part in tensors(targets)
            ]
            targets = like(targets, longer_parts)
        result.append((longer, targets))
    return result


def _of_batch(batch: Any, taken: Container[str] | None) -> tuple[Structure, Any]:
    if isinstance(batch, Tensor | np.ndarray):
        return tensor_of(batch, "inputs"), None
    if isinstance(batch, Mapping):
        return _from_mapping(batch, None, taken)
    if isinstance(batch, Sequence) and not isinstance(batch, str) and batch:
        *inputs, targets = batch if len(batch) > 1 else (*batch, None)
        if len(inputs) == 1 and isinstance(inputs[0], Mapping):
            return _from_mapping(inputs[0], targets, taken)
        tensors = tuple(tensor_of(part, "inputs") for part in inputs)
        return tensors[0] if len(tensors) == 1 else tensors, targets
    if hasattr(batch, "__dict__") and vars(batch):
        return _from_mapping(vars(batch), None, taken)
    raise MeasureError(f"a batch is {type(batch).__name__}: neither tensors nor a dictionary")


def _from_mapping(
    batch: Mapping[str, Any], targets: Any, taken: Container[str] | None
) -> tuple[dict[str, Tensor], Any]:
    """Inputs by name, and the targets among them unless these are given.

    taken: as for `collected`.
    """
    others = [name for name in batch if taken is not None and name not in taken]
    if targets is None and {*others} - {*TARGETS}:
        name = next((name for name in TARGETS if name in batch), None)
        parts = {key: value for key, value in batch.items() if key in others or key == name}
        targets, batch = parts, {k: v for k, v in batch.items() if k not in parts}
    elif targets is None:
        name = next((name for name in TARGETS if name in batch), None)
        if name is not None:
            targets = batch[name]
            batch = {key: value for key, value in batch.items() if key != name}
    tensors = {str(key): tensor_of(value, f"input {key!r}") for key, value in batch.items()}
    if not tensors:
        raise MeasureError("a batch has no inputs")
    return tensors, targets


def in_parts(targets: Any, count: int, several: bool) -> Any:
    """Several targets as tensors, in a tuple or a dictionary; others as they are.

    count: samples.
    several: as for `collected`.
    """
    if isinstance(targets, Mapping):
        return {str(key): tensor_of(part, f"target {key!r}") for key, part in targets.items()}
    if not isinstance(targets, tuple):
        return targets
    arrays = all(isinstance(each, _ARRAYS) and each.ndim for each in targets)
    if not targets or not arrays:
        return list(targets)
    of_all = several and all(len(each) == count for each in targets)
    if len(targets) == count and not of_all:
        return list(targets)  # one for each sample
    return tuple(tensor_of(part, "targets") for part in targets)


def _of_parts(targets: Any) -> Structure:
    return targets if isinstance(targets, dict | tuple) else tensor_of(targets, "targets")


def tensors(parts: Structure) -> list[Tensor]:
    """All tensors of a structure, in order."""
    if isinstance(parts, Tensor):
        return [parts]
    return [*parts.values()] if isinstance(parts, dict) else [*parts]


def like(parts: Structure, tensors: list[Tensor]) -> Structure:
    """Other tensors in a structure of the same kind."""
    if isinstance(parts, Tensor):
        return tensors[0]
    return dict(zip(parts, tensors, strict=True)) if isinstance(parts, dict) else tuple(tensors)


def _joined(structures: Sequence[Structure]) -> Structure:
    first = structures[0]
    try:
        if isinstance(first, Tensor):
            return torch.cat(list(structures))  # type: ignore[arg-type]
        if isinstance(first, dict):
            return {key: torch.cat([part[key] for part in structures]) for key in first}  # type: ignore[call-overload,index]
        return tuple(torch.cat(parts) for parts in zip(*structures, strict=True))
    except (RuntimeError, TypeError, KeyError, ValueError) as error:
        raise MeasureError(f"batches do not fit together: {str(error).splitlines()[0]}") from None


def _some(inputs: Structure) -> Tensor:
    return tensors(inputs)[0]


def of_samples(inputs: Structure, which: slice | Tensor) -> Structure:
    """The inputs of some samples.  which: a slice, or whether each is one of them."""
    if isinstance(inputs, Tensor):
        return inputs[which]
    if isinstance(inputs, dict):
        return {key: part[which] for key, part in inputs.items()}
    return tuple(part[which] for part in inputs)


def _cut(targets: Any, limit: int | None) -> Any:
    if isinstance(targets, dict | tuple) and all(isinstance(t, Tensor) for t in tensors(targets)):
        _check_lengths(targets, "targets")
        return of_samples(targets, slice(limit))
    if limit is None or targets is None:
        return targets
    return targets[:limit] if isinstance(targets, _ARRAYS) else list(islice(targets, limit))


def _check_lengths(inputs: Structure, what: str = "inputs") -> None:
    parts = tensors(inputs)
    if len({len(part) if part.ndim else -1 for part in parts}) > 1:
        shapes = ", ".join(str(tuple(part.shape)) for part in parts)
        raise MeasureError(f"{what} have different numbers of samples: {shapes}")


def tensor_of(values: Any, what: str) -> Tensor:
    """A tensor of a tensor, an array, or a list of numbers; `MeasureError` of what has none."""
    if isinstance(values, Tensor):
        return values
    if isinstance(values, np.ndarray | Sequence) and not isinstance(values, str):
        try:
            return torch.as_tensor(np.asarray(values))
        except (TypeError, ValueError) as error:
            raise MeasureError(f"{what} are no numbers: {error}") from None
    raise MeasureError(f"{what} must be a tensor or an array, not {type(values).__name__}")
