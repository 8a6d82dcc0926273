"""Weights of one network in a file, as it is saved by torch or as safetensors."""

from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from flatlab.data._dataset import DataError

ENDINGS = (".safetensors", ".pt", ".pth", ".bin")
WRAPPED = ("module.", "_orig_mod.")
"""What DataParallel and torch.compile put in front of every name, in any order."""


def load_state(path: Path) -> dict[str, Tensor]:
    """A state dictionary; `DataError` if the file holds none.

    Files of torch are read with `weights_only`, so that they can run no code. A training's
    checkpoint may have the state dictionary as one of its entries, such as `state_dict` or `model`.
    """
    if path.suffix not in ENDINGS:
        raise DataError(f"{path}: weights are in a file {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}")
    try:
        if path.suffix == ".safetensors":
            return _unwrapped(load_file(path))
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except UnpicklingError:
        raise DataError(
            f"{path} holds more than tensors, which could run code; save model.state_dict() instead"
        ) from None
    except Exception as error:  # damaged bytes make readers raise whatever they stumble over
        raise DataError(f"{path} cannot be read as {path.suffix}: {_first(error)}") from None
    candidates = [content, *(content.values() if isinstance(content, Mapping) else ())]
    states = [candidate for candidate in candidates if _is_state(candidate)]
    if len(states) != 1:
        what = "several state dictionaries" if states else "no state dictionary"
        raise DataError(f"{path} holds {what}; save model.state_dict()")
    (state,) = states
    return _unwrapped(state)


def _unwrapped(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same state without what wrappers put in front of every name."""
    state = dict(state)
    while prefix := next((p for p in WRAPPED if state and all(n.startswith(p) for n in state)), ""):
        state = {name.removeprefix(prefix): tensor for name, tensor in state.items()}
    return state


def _is_state(content: Any) -> bool:
    return (
        isinstance(content, Mapping)
        and bool(content)
        and all(isinstance(value, Tensor) for value in content.values())
    )


def _first(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
