"""Fine-tuning: the initial weights are those with which networks of another grid ended."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from flatlab.core.resume_state import Content
from flatlab.core.schema import closest
from flatlab.core.store import TrainedPack
from flatlab.lab.train.errors import TrainError


def copy_trained_weights(
    trained: Sequence[Content], models: Sequence[nn.Module], start: Mapping[str, Any]
) -> None:
    """Copy trained weights, and statistics of batch norm, into models.

    trained: files of final weights.
    models: the networks that are to start from them.
    start: `grid`, which trained them; `runs`, of each model the number of its file and the run in
        it; `anew`, the names of modules that keep what they have.

    Raises `TrainError` for a tensor that has no counterpart of its shape.
    """
    modules = [name for name, _ in models[0].named_modules() if name]
    for name in start["anew"]:
        if name not in modules:
            where = f"training.start.anew: the network has no module {name!r}"
            raise TrainError(f"{where}; {closest(name, modules)}")
    for model, (number, run) in zip(models, start["runs"], strict=True):
        _copy(TrainedPack(*trained[number]).state(run), model, start)


def _copy(state: Mapping[str, np.ndarray], model: nn.Module, start: Mapping[str, Any]) -> None:
    anew = tuple(f"{name}." for name in start["anew"])
    targets = {n: t for n, t in model.state_dict().items() if not n.startswith(anew)}
    sources = {n: torch.as_tensor(a) for n, a in state.items() if not n.startswith(anew)}
    for name in targets | sources:
        shapes = [tuple(t[name].shape) if name in t else "absent" for t in (sources, targets)]
        if shapes[0] != shapes[1]:
            raise TrainError(
                f"training.start: {name} is {shapes[0]} in {start['grid']} and {shapes[1]} here; "
                "list its module in training.start.anew, or choose the same network"
            )
    with torch.no_grad():
        for name, tensor in targets.items():
            tensor.copy_(sources[name])
