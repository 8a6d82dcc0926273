"""Networks of timm by name, and their weights from files or from timm's hub.

timm takes seconds to import: it is imported where it is used.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from flatlab.data import DataError

ENDING = ".safetensors"


def family_of(name: str) -> str:
    """What comes before the first underscore, as in the authors' code: vit, swinv2, resnet10t."""
    return name.split(".")[0].split("_")[0]


def wanted(networks: str | Sequence[str], folder: Path) -> list[str]:
    """The names of networks, sorted.

    networks: names and patterns, of which timm has pretrained weights; or "folder": whatever has a
    file of weights there.  folder: where weights lie.
    """
    if networks == "folder":
        found = sorted(path.name.removesuffix(ENDING) for path in folder.glob(f"*{ENDING}"))
        if not found:
            raise DataError(f"{folder} has no {ENDING} files; put weights there, named by network")
        return found
    import timm

    patterns = [pattern for pattern in networks if "*" in pattern]
    known = timm.list_models(pretrained=True) if patterns else []
    matching = [name for pattern in patterns for name in fnmatch.filter(known, pattern)]
    return sorted({*matching, *(name for name in networks if "*" not in name)})


def build(name: str, **options: Any) -> nn.Module:
    """A network of timm in evaluation mode; `DataError` where timm cannot make it."""
    import timm

    try:
        return timm.create_model(name, **options).eval()
    except (RuntimeError, TypeError, ValueError, AssertionError, OSError) as error:
        raise DataError(f"{name} cannot be built: {first_line(error)}") from None


def load(name: str, folder: Path) -> nn.Module:
    """A pretrained network: weights of <folder>/<name>.safetensors, else of timm's hub."""
    path = folder / f"{name}{ENDING}"
    return with_weights(build(name), path) if path.is_file() else build(name, pretrained=True)


def with_weights(model: nn.Module, path: Path) -> nn.Module:
    """The same network with the weights of a file; `DataError` where they do not fit it."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        model.load_state_dict(load_file(path))
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as {ENDING}: {first_line(error)}") from None
    except RuntimeError as error:
        raise DataError(f"{path} does not fit the network: {first_line(error)}") from None
    return model


def configuration(model: nn.Module) -> Mapping[str, Any]:
    """What timm says of a network's inputs: input_size, mean, std, interpolation, crop_pct."""
    import timm.data

    return timm.data.resolve_model_data_config(model)


def outputs_of(model: nn.Module) -> int:
    """How many classes a network tells apart."""
    return int(getattr(model, "num_classes", 0))


def parameters_of(model: nn.Module) -> int:
    """How many numbers are trained."""
    return sum(parameter.numel() for parameter in model.parameters())


def first_line(error: Exception) -> str:
    """The first line of what a library says: the rest lists every weight."""
    return re.sub(r"\s+", " ", str(error)).strip()[:200]
