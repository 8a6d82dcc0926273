"""Weights of one network in a file, however they are saved, and the network that they fit."""

import argparse
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from flatlab.data._dataset import DataError

ENDINGS = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".pth.tar")
WRAPPED = re.compile(r"\b(module|_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
"""What wrappers put into names: of data parallelism, averages, compilation, checkpointing."""
HARMLESS: list[Any] = [
    *(argparse.Namespace, np.dtype, *(type(np.dtype(kind)) for kind in ("f4", "f8", "i8", "b1"))),
    *(
        (np._core.multiarray.scalar, f"numpy.{core}.multiarray.scalar")
        for core in ("core", "_core")
    ),
]
"""What checkpoints of a training hold beside tensors, and what runs no code when it is read."""


def load_state(path: Path) -> dict[str, Tensor]:
    """A state dictionary; `DataError` if the file holds none.

    Files of torch are read with `weights_only`, so that they can run no code. A training's
    checkpoint may have the state dictionary as one of its entries, such as `state_dict` or `model`.
    """
    if not path.name.lower().endswith(ENDINGS):
        raise DataError(f"{path}: weights are in a file {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}")
    try:
        if path.suffix.lower() == ".safetensors":
            return _unwrapped(load_file(path))
        with torch.serialization.safe_globals(HARMLESS):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except UnpicklingError:
        raise DataError(
            f"{path} holds more than tensors, which could run code; save model.state_dict() instead"
        ) from None
    except Exception as error:  # damaged bytes make readers raise whatever they stumble over
        raise DataError(f"{path} cannot be read as {path.suffix}: {_first(error)}") from None
    states = dict(_states(content))
    if len(states) != 1:
        several = f"several state dictionaries, {', '.join(states)}; save one of them"
        what = several if states else "no state dictionary; save model.state_dict()"
        raise DataError(f"{path} holds {what}")
    return _unwrapped(next(iter(states.values())))


def _unwrapped(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same state without what wrappers put in front of every name."""
    while all(map(WRAPPED.match, state)) and state:
        state = {WRAPPED.sub("", name, 1): tensor for name, tensor in state.items()}
    return state


def _states(
    content: Any, place: str = "", depth: int = 0
) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """The state dictionaries in the content of a file, and where they lie."""
    if _is_state(content):
        yield place, dict(content)
    elif isinstance(content, Mapping) and depth < 2:
        for name, part in content.items():
            yield from _states(part, f"{place}.{name}".lstrip("."), depth + 1)


def load_into(model: nn.Module, state: Mapping[str, Tensor]) -> nn.Module:
    """The network with weights, in float64 if these are; `RuntimeError` if they do not fit."""
    own, found = model.state_dict(), fitted(model, state)
    for name, tensor in found.items():
        if tensor.is_complex() and name in own and not own[name].is_complex():
            raise RuntimeError(f"{name} is complex, and not in the network")
    if any(tensor.dtype == torch.float64 for tensor in found.values()):
        model.double()
    model.load_state_dict(found)
    return model


def fitted(model: nn.Module, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dictionary by the names that a network has for its tensors.

    Names do not depend on wrappers, nor on a name in front of all others, as frameworks for
    training add. Of weights that are tied one may be missing.
    """
    own = model.state_dict()
    names = {WRAPPED.sub("", name): name for name in own}
    found = {WRAPPED.sub("", name): tensor for name, tensor in state.items()}
    found = {n: t for n, t in found.items() if n in names or n != "n_averaged"}  # of averages
    while not names.keys() & found and len(first := {n.partition(".")[0] for n in found}) == 1:
        (prefix,) = first
        if prefix in found:
            break
        found = {name.removeprefix(f"{prefix}."): tensor for name, tensor in found.items()}
    result = {names.get(name, name): tensor for name, tensor in found.items()}
    known = {_place(own[name]): result[name] for name in result if name in own}
    twins = {name: known.get(_place(tensor)) for name, tensor in own.items() if name not in result}
    return {**result, **{name: tensor for name, tensor in twins.items() if tensor is not None}}


def _place(tensor: Tensor) -> tuple[Any, ...]:
    """Where the numbers of a tensor lie, which those of tied weights share."""
    return tensor.data_ptr() or id(tensor), tensor.shape, tensor.stride()


def _is_state(content: Any) -> bool:
    return (
        isinstance(content, Mapping)
        and bool(content)
        and all(isinstance(name, str) and isinstance(t, Tensor) for name, t in content.items())
    )


def _first(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
