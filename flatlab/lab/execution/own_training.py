"""Runs that a function of the user's trains: each in one file, which is kept until it changes."""

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatlab.core import store
from flatlab.core.progress import Progress
from flatlab.derivatives.errors import MeasureError
from flatlab.lab.execution.own_code import called, function_of


def train_runs(name: str, rows: Sequence[Mapping[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Train each run that is not there; returns a record of each, with its file and outcomes.

    name: `module:function`; it is given hyper-parameters and seed by name, and returns a state
        dictionary, or that and a mapping of outcomes.
    rows: hyper-parameters and `seed` of each run.
    folder: of the files, one per run, each written in one step.

    A run is there if its file was made with the same row and the same source of the function's
    module. Raises `MeasureError`; the runs before it are kept.
    """
    function = function_of(name, "--train")
    source = inspect.getsource(inspect.getmodule(function) or function)
    folder.mkdir(parents=True, exist_ok=True)
    records: list[dict[str, Any]] = []
    trained = 0
    bar = Progress(len(rows), "runs", lambda: f"{trained} trained")
    for row in rows:
        path = folder / f"{_name(row)}.safetensors"
        text = json.dumps([dict(row), name, source], sort_keys=True, default=str)
        identity = hashlib.sha256(text.encode()).hexdigest()
        outcomes = _known(path, identity)
        if outcomes is None:
            arrays, outcomes = trained_run(function, name, row)
            store.save_weights(path, arrays, {"identity": identity, "outcomes": outcomes})
            trained += 1
        records.append({"file": path.name, **row, **outcomes})
        bar.advance(lambda: len(records))
    bar.close(len(records))
    return records


def _name(row: Mapping[str, Any]) -> str:
    text = "-".join(f"{key}{value}" for key, value in row.items())
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)


def _known(path: Path, identity: str) -> dict[str, Any] | None:
    """The outcomes of a run that is there; None if it must be trained."""
    try:
        _, about = store.load_weights(path)
    except store.StoreError:
        return None
    return dict(about["outcomes"]) if about.get("identity") == identity else None


def trained_run(
    function: Callable[..., Any], name: str, arguments: Mapping[str, Any], study: str = ""
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """The state dictionary of a run as arrays, and its outcomes; `MeasureError` for anything else.

    function, name: that trains it, and how it is written.
    arguments: its hyper-parameters and seed.
    study: the key of the one whose module it is.
    """
    result = called(function, "--train", name, study, arguments)
    state, outcomes = result if isinstance(result, tuple) and len(result) == 2 else (result, {})
    tensors = isinstance(state, Mapping) and all(isinstance(v, Tensor) for v in state.values())
    if not (tensors and state):
        what = type(state).__name__
        raise MeasureError(f"--train {name} returned {what}; it must return model.state_dict()")
    try:
        numbers = {str(key): float(value) for key, value in dict(outcomes).items()}
    except (TypeError, ValueError):
        raise MeasureError(
            f"--train {name} returned outcomes {outcomes!r}; they must be numbers by name"
        ) from None
    return {str(key): _array(value) for key, value in state.items()}, numbers


def _array(tensor: Tensor) -> np.ndarray:
    """Its numbers; those of bfloat16, which numpy lacks, in float32."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy().copy()
