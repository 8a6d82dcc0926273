"""Inputs and targets of all samples, from whatever yields them in batches."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.data import DataLoader, Dataset, IterableDataset

from flatlab.core.errors import MeasureError
from flatlab.inputs.adapted import ATTENTION, Structure, by_name, in_form

TARGETS = ("labels", "label", "targets", "target", "y")
"""Keys and attributes of a batch under which targets lie."""
_ARRAYS = (Tensor, np.ndarray)
_NUMBERS = (*_ARRAYS, float, int)
BATCH = 256
"""Samples that are read from a dataset at a time."""


def collected(inputs: Any, targets: Any, limit: int | None) -> tuple[Structure, Tensor | None]:
    """The inputs of all samples, a tensor or several, and their targets.

    inputs: a tensor or an array (samples, ...); a list of one for each sample; a tuple of several,
        or a dictionary of them; a dataset; or a loader, any iterable of batches.
    targets: of the samples; None where batches bring them, or there are none.
    limit: samples to take, the first ones; None: all.

    A batch is a tensor; a tuple or list whose last part are the targets; or a dictionary or an
    object with `labels` or `targets`. Batches of sequences with an `attention_mask` are padded
    to the longest. Raises `MeasureError` where that is not so.
    """
    if isinstance(inputs, Tensor | np.ndarray):
        inputs = tensor_of(inputs, "inputs")
        if inputs.ndim < 1:
            raise MeasureError("inputs must be a tensor (samples, ...)")
        if inputs.layout != torch.strided:
            raise MeasureError("inputs are sparse; pass inputs.to_dense()")
    elif isinstance(inputs, tuple):
        inputs = tuple(tensor_of(part, "inputs") for part in inputs)
    elif isinstance(inputs, Mapping):
        inputs, targets = _from_mapping(inputs, targets)
    elif isinstance(inputs, list) and all(isinstance(part, _NUMBERS) for part in inputs):
        if targets is None and inputs and np.ndim(inputs[0]) > 1:
            raise MeasureError(
                "a list of tensors without targets may be samples or batches; pass "
                "torch.stack(inputs) of samples, torch.cat(inputs) of batches"
            )
        inputs = tensor_of([np.asarray(part) for part in inputs], "inputs")
    else:
        if targets is not None:
            raise MeasureError("batches bring their targets; leave the argument targets out")
        return _gathered(_batches(inputs), limit)
    _check_lengths(inputs)
    targets = _one_tensor(targets, len(tensors_of(inputs)[0]))
    return of_samples(inputs, slice(limit)), targets if targets is None else targets[:limit]


def _batches(inputs: Any) -> Iterator[Any]:
    if isinstance(inputs, Dataset) and not isinstance(inputs, IterableDataset):
        inputs = DataLoader(inputs, BATCH)
    if isinstance(inputs, str) or not isinstance(inputs, Iterable):
        raise MeasureError(f"inputs must be a tensor or batches, not {type(inputs).__name__}")
    return iter(inputs)


def _gathered(batches: Iterator[Any], limit: int | None) -> tuple[Structure, Tensor | None]:
    """All batches one after the other, until there are as many samples as wanted."""
    parts: list[tuple[Structure, Tensor | None]] = []
    count = 0
    for batch in batches:
        inputs, targets = _of_batch(batch)
        here = len(tensors_of(inputs)[0])
        parts.append((inputs, _one_tensor(targets, here)))
        count += here
        if limit is not None and count >= limit:
            break
    if not parts:
        raise MeasureError("there are no samples: nothing came from the loader")
    structures, of_batches = zip(*_of_one_length(parts), strict=True)
    lacking = sum(part is None for part in of_batches)
    if lacking not in (0, len(parts)):
        raise MeasureError("some batches have targets and others have none")
    joined = _joined(structures)
    _check_lengths(joined)
    return of_samples(joined, slice(limit)), None if lacking else _joined(of_batches)[:limit]


def _of_one_length(
    parts: list[tuple[Structure, Tensor | None]],
) -> list[tuple[Structure, Tensor | None]]:
    """Batches of sequences, padded to the longest with what the mask leaves out; others as is."""
    masks = [inputs.get(ATTENTION) if isinstance(inputs, dict) else None for inputs, _ in parts]
    if any(mask is None or mask.ndim != 2 for mask in masks):
        return parts
    lengths = [mask.shape[1] for mask in masks if mask is not None]
    longest = max(lengths)

    def padded(part: Tensor, length: int) -> Tensor:
        if part.ndim < 2 or part.shape[1] != length:
            return part
        return pad(part, (0, 0) * (part.ndim - 2) + (0, longest - length))

    result: list[tuple[Structure, Tensor | None]] = []
    for (inputs, targets), length in zip(parts, lengths, strict=True):
        assert isinstance(inputs, dict)
        targets = None if targets is None else padded(targets, length)
        result.append(({name: padded(part, length) for name, part in inputs.items()}, targets))
    return result


def _of_batch(batch: Any) -> tuple[Structure, Any]:
    if isinstance(batch, Tensor | np.ndarray):
        return tensor_of(batch, "inputs"), None
    if isinstance(batch, Mapping):
        return _from_mapping(batch, None)
    if isinstance(batch, Sequence) and not isinstance(batch, str) and batch:
        *inputs, targets = batch if len(batch) > 1 else (*batch, None)
        if len(inputs) == 1 and isinstance(inputs[0], Mapping):
            return _from_mapping(inputs[0], targets)
        tensors = tuple(tensor_of(part, "inputs") for part in inputs)
        return tensors[0] if len(tensors) == 1 else tensors, targets
    if hasattr(batch, "__dict__") and vars(batch):
        return _from_mapping(vars(batch), None)
    raise MeasureError(f"a batch is {type(batch).__name__}: neither tensors nor a dictionary")


def _from_mapping(batch: Mapping[str, Any], targets: Any) -> tuple[dict[str, Tensor], Any]:
    """Inputs by name, and the targets among them unless these are given."""
    if targets is None and (name := next((name for name in TARGETS if name in batch), None)):
        targets = batch[name]
        batch = {key: value for key, value in batch.items() if key != name}
    tensors = {str(key): tensor_of(value, f"input {key!r}") for key, value in batch.items()}
    if not tensors:
        raise MeasureError("a batch has no inputs")
    return tensors, targets


def _one_tensor(targets: Any, count: int) -> Tensor | None:
    """The targets of some samples, a tensor; `MeasureError` where there are several for each.

    count: samples.
    """
    if targets is None:
        return None
    several = isinstance(targets, Mapping)
    if isinstance(targets, tuple | list) and len(targets) != count:
        several = bool(targets) and all(isinstance(t, _ARRAYS) and t.ndim for t in targets)
    if several:
        names = f" ({', '.join(map(str, targets))})" if isinstance(targets, Mapping) else ""
        raise MeasureError(
            f"there are {len(targets)} targets{names}: lay them side by side in one tensor, and "
            "pass a loss that is a function of the outputs and that tensor and takes it apart"
        )
    return tensor_of(targets, "targets")


def _joined(structures: Sequence[Structure]) -> Any:
    batches = [by_name(each) for each in structures]
    try:
        if len({*map(len, batches)}) > 1:
            raise ValueError("they have different numbers of inputs")
        whole = {name: torch.cat([each[name] for each in batches]) for name in batches[0]}
    except (RuntimeError, TypeError, KeyError, ValueError) as error:
        raise MeasureError(f"batches do not fit together: {str(error).splitlines()[0]}") from None
    return in_form(structures[0], whole)


def tensors_of(parts: Structure) -> list[Tensor]:
    """All tensors of a structure, in order."""
    return [*by_name(parts).values()]


def of_each(function: Callable[[Tensor], Tensor], inputs: Structure) -> Structure:
    """What a function returns for each input, under the same name or at the same place."""
    found: Structure = in_form(inputs, {n: function(part) for n, part in by_name(inputs).items()})
    return found


def of_samples(inputs: Structure, which: slice | Tensor) -> Structure:
    """The inputs of some samples.  which: a slice, or whether each is one of them."""
    return of_each(lambda part: part[which], inputs)


def _check_lengths(inputs: Structure) -> None:
    parts = tensors_of(inputs)
    if len({len(part) if part.ndim else -1 for part in parts}) > 1:
        shapes = ", ".join(str(tuple(part.shape)) for part in parts)
        raise MeasureError(f"inputs have different numbers of samples: {shapes}")


def tensor_of(values: Any, what: str) -> Tensor:
    """A tensor of a tensor, an array, or a list of numbers; `MeasureError` of what has none.

    What was made in inference mode is copied, as it can have no derivatives.
    """
    if not isinstance(values, Tensor | np.ndarray | Sequence) or isinstance(values, str):
        raise MeasureError(f"{what} must be a tensor or an array, not {type(values).__name__}")
    if isinstance(values, Tensor):
        tensor = values.clone() if values.is_inference() else values
    else:
        try:
            array = np.asarray(values, order="C")
            if array.dtype.kind not in "fiubc":
                raise TypeError(f"they are {array.dtype}")
            wide = array.dtype.kind == "f" and array.dtype.itemsize > 8  # torch has no such
            native = np.float64 if wide else array.dtype.newbyteorder("=")
            tensor = torch.as_tensor(array.astype(native, copy=False))
        except (TypeError, ValueError) as error:
            raise MeasureError(f"{what} are no numbers: {error}") from None
    if tensor.dtype in (torch.uint16, torch.uint32, torch.uint64):  # of which torch can do little
        signed = tensor.long()
        if bool((signed < 0).any()):
            raise MeasureError(f"{what} are {tensor.dtype} of 2^63 and more")
        return signed
    return tensor
