"""Networks of timm by name, with weights from files or from timm's hub.

timm takes seconds to import, so it is imported where it is used.
"""

import fnmatch
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from flatlab.data._dataset import DataError
from flatlab.networks._weights import load_state

ENDING = ".safetensors"


def family_of(name: str) -> str:
    """The name up to the first underscore, as in the authors' code: vit, swinv2, resnet10t."""
    return name.split(".")[0].split("_")[0]


def wanted(networks: str | Sequence[str], folder: Path) -> list[str]:
    """The sorted names of the chosen networks.

    networks: names, and patterns for timm's pretrained models; or "folder": every network whose
    weights are there.  folder: holds <name>.safetensors.
    """
    if networks == "folder":
        names = sorted(path.name.removesuffix(ENDING) for path in folder.glob(f"*{ENDING}"))
        if not names:
            raise DataError(
                f"{folder} has no {ENDING} files; put weights there as <network>{ENDING}"
            )
        return names
    import timm

    patterns = [pattern for pattern in networks if "*" in pattern]
    known = timm.list_models(pretrained=True) if patterns else []
    matching = [name for pattern in patterns for name in fnmatch.filter(known, pattern)]
    return sorted({*matching, *(name for name in networks if "*" not in name)})


def build(name: str, **options: Any) -> nn.Module:
    """A network of timm in evaluation mode; `DataError` if timm cannot create it."""
    import timm

    try:
        return timm.create_model(name, **options).eval()
    except (RuntimeError, TypeError, ValueError, AssertionError, OSError) as error:
        raise DataError(f"{name} cannot be built: {first_line(error)}") from None


def load(name: str, folder: Path) -> nn.Module:
    """A pretrained network, with weights from <folder>/<name>.safetensors or else timm's hub."""
    path = folder / f"{name}{ENDING}"
    return with_weights(build(name), path) if path.is_file() else build(name, pretrained=True)


def with_weights(model: nn.Module, path: Path) -> nn.Module:
    """The same network with the weights of a file; `DataError` if they do not fit."""
    state = load_state(path)
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise DataError(f"{path} does not fit the network: {first_line(error)}") from None
    return model


def configuration(model: nn.Module) -> Mapping[str, Any]:
    """How a network's inputs are prepared: input_size, mean, std, interpolation, crop_pct."""
    import timm.data

    return timm.data.resolve_model_data_config(model)


def first_line(error: Exception) -> str:
    """The first line of a library's error message; the rest lists every weight."""
    return re.sub(r"\s+", " ", str(error)).strip()[:200]
