"""Train one run with a function of the user's."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatlab.derivatives.errors import MeasureError
from flatlab.lab.execution.own_code import called


def trained_run(
    function: Callable[..., Any], name: str, arguments: Mapping[str, Any], study: str
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """The state dictionary of a run as arrays, and its outcomes; `MeasureError` for anything else.

    function, name: that trains it, and how it is written.
    arguments: its hyper-parameters and seed.
    study: the key of the one whose module it is.
    """
    result = called(function, "train", name, study, arguments)
    state, outcomes = result if isinstance(result, tuple) and len(result) == 2 else (result, {})
    tensors = isinstance(state, Mapping) and all(isinstance(v, Tensor) for v in state.values())
    if not (tensors and state):
        what = type(state).__name__
        raise MeasureError(f"train {name} returned {what}; it must return model.state_dict()")
    try:
        numbers = {str(key): float(value) for key, value in dict(outcomes).items()}
    except (TypeError, ValueError):
        raise MeasureError(
            f"train {name} returned outcomes {outcomes!r}; they must be numbers by name"
        ) from None
    return {str(key): _array(value) for key, value in state.items()}, numbers


def _array(tensor: Tensor) -> np.ndarray:
    """Its numbers; those of bfloat16, which numpy lacks, in float32."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy().copy()
