"""What there is: the folders of the package are the registries, a file's stem is the key.

Keys have hyphens where file names have underscores: `mlp4-small` lives in `networks/mlp4_small.py`.
Nothing is imported here: planning must not wait for torch or matplotlib.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flatlab.plan.schema import PlanError, closest

PACKAGE = Path(__file__).resolve().parents[1]


def keys_of(folder: str) -> list[str]:
    """The keys of one registry: data, networks, metrics, simulations, train/layers, ..."""
    files = (PACKAGE / folder).glob("[a-z]*.py")
    return sorted(file.stem.replace("_", "-") for file in files)


def module_of(folder: str, key: str) -> str:
    """The module that defines a key: ("networks", "mlp4-small") -> flatlab.networks.mlp4_small."""
    return f"flatlab.{folder.replace('/', '.')}.{key.replace('-', '_')}"


def path_of(folder: str, key: str) -> Path:
    """The file that defines a key."""
    return PACKAGE / folder / f"{key.replace('-', '_')}.py"


def check_known(folder: str, key: str, where: str) -> None:
    """Raise `PlanError` with the closest match where a registry does not have a key."""
    if key not in keys_of(folder):
        raise PlanError(f"{where}: unknown {key!r}; {closest(key, keys_of(folder))}")


def mode_of(network: str) -> str:
    """How the training engine advances many networks of an architecture: its literal MODE."""
    return literal(path_of("networks", network), "MODE")


def parameters_of(network: str) -> int:
    """About how many parameters an architecture has: its literal PARAMETERS."""
    return literal(path_of("networks", network), "PARAMETERS")


def takes_activation(network: str) -> bool:
    """Whether an architecture has hidden layers that an activation follows: an argument of build.

    It is read from the syntax, as all that planning knows of an architecture.
    """
    body = ast.parse(path_of("networks", network).read_text()).body
    build = next(n for n in body if isinstance(n, ast.FunctionDef) and n.name == "build")
    return "activation" in [argument.arg for argument in build.args.args]


def layers_of(name: str, activation: str | None, options: Mapping[str, Any]) -> list[str]:
    """The rules that the stacked form of a network needs: keys of flatlab/train/layers."""
    path = path_of("networks", name)
    used = list(literal(path, "LAYERS"))
    by_option = literal(path, "OPTION_LAYERS") if "OPTION_LAYERS" in assignments(path) else {}
    for option, layers in by_option.items():
        used += layers if options.get(option) else []
    if activation and takes_activation(name):
        used.append(activation)
    for key in used:
        check_known("train/layers", key, f"networks/{path.name}: LAYERS")
    return used


def check_options(network: str, options: Iterable[str], where: str) -> None:
    """Raise `PlanError` where an architecture does not know one of `options`."""
    path = path_of("networks", network)
    known = literal(path, "OPTIONS") if "OPTIONS" in assignments(path) else {}
    for option in options if known != "any" else ():
        if option not in known:
            hint = closest(option, known) if known else f"{network} has none"
            raise PlanError(f"{where}: unknown option {option!r}; {hint}")


def training_keys_of(optimizer: str) -> list[str]:
    """The keys of `training` that belong to an optimizer: its literal READS."""
    return literal(path_of("train/optimizers", optimizer), "READS")


def joined(families: str) -> list[str]:
    """The families that one job measures and one file holds: `accuracy+geometry` are two."""
    return families.split("+")


def measures_samples(family: str) -> bool:
    """Whether a family is evaluated on the sample sets of a grid: it has a function `measure`."""
    body = ast.parse(path_of("metrics", family).read_text()).body
    return "measure" in {node.name for node in body if isinstance(node, ast.FunctionDef)}


def experiment_keys(folder: Path | None = None) -> list[str]:
    """All experiments: the files of a folder, that of the project if none is given."""
    folder = folder or PACKAGE.parent / "experiments"
    return sorted(path.stem for path in folder.glob("*.yaml"))


OWN_IMAGES = ("image-folder", "cifar10-jpeg")
"""Data sets that are whatever lies in a folder; all others are known by their checksums."""


@functools.cache
def assignments(path: Path) -> dict[str, ast.expr]:
    """What a file assigns to which name, with or without a type."""
    found: dict[str, ast.expr] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign):
            found[ast.unparse(node.targets[0])] = node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            found[ast.unparse(node.target)] = node.value
    return found


@functools.cache
def literal(path: Path, name: str) -> Any:
    """The value of a literal that a file assigns; `PlanError` where there is none."""
    try:
        return ast.literal_eval(assignments(path)[name])
    except (KeyError, ValueError):
        pass
    raise PlanError(f"{path.parent.name}/{path.name}: {name} must be there, and a literal")
