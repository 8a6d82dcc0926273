"""Registries: the folders of the package and of studies, in which the stem of a file is its key.

Keys have hyphens where file names have underscores: `max-pool` is `train/layers/max_pool.py`.
Nothing is imported here: planning must not wait for torch or matplotlib.
"""

import ast
import functools
import importlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from flatlab.core.schema import PlanError, closest
from flatlab.core.studies import PACKAGE, file_of, package_folder, studies, study_folders  # noqa: F401


def keys_of(folder: str) -> tuple[str, ...]:
    """The keys of one registry: data, networks, families, simulations, train/layers, ..."""
    return _keys(folder, *studies().values())


@functools.cache
def _keys(folder: str, *_of_studies: Path) -> tuple[str, ...]:
    ours = package_folder(folder)
    names = [
        file.stem for place in (ours, *study_folders(folder)) for file in place.glob("[a-z]*.py")
    ]
    if folder == "families":  # a family that has parts is a folder
        names += [file.parent.name for file in ours.glob("[a-z]*/__init__.py")]
    return tuple(sorted(name.replace("_", "-") for name in names))


def module_of(folder: str, key: str) -> str:
    """The module that defines a key: ("train/layers", "tanh") -> flatlab.lab.train.layers.tanh."""
    parts = package_folder(folder).relative_to(PACKAGE.parent).parts
    return ".".join((*parts, key.replace("-", "_")))


def imported(folder: str, key: str) -> ModuleType:
    """The module that defines a key, imported."""
    return importlib.import_module(module_of(folder, key))


def path_of(folder: str, key: str) -> Path:
    """The file that defines a key; of a family with parts, that of the whole."""
    return _path(folder, key, *studies().values())


@functools.cache  # planning asks thousands of times
def _path(folder: str, key: str, *_of_studies: Path) -> Path:
    name = key.replace("-", "_")
    ours = package_folder(folder) / f"{name}.py"
    theirs = (place / f"{name}.py" for place in study_folders(folder))
    files = (ours, package_folder(folder) / name / "__init__.py", *theirs)
    return next((file for file in files if file.is_file()), ours)


def check_known(folder: str, key: str, context: str) -> None:
    """Raise `PlanError` with the closest match if a registry does not have a key."""
    if key not in keys_of(folder):
        raise PlanError(f"{context}: unknown {key!r}; {closest(key, keys_of(folder))}")


def joined(keys: object) -> list[str]:
    """The keys in one key or several; `none` is no key.

    `accuracy+geometry` are two families measured by one job.
    """
    each = keys if isinstance(keys, list | tuple) else [keys]
    return [key for several in each for key in str(several).split("+") if key != "none"]


def measures_samples(family: str) -> bool:
    """Whether a family is evaluated on the sample sets of a grid: it has a function `measure`."""
    body = syntax(path_of("families", family)).body
    return "measure" in {node.name for node in body if isinstance(node, ast.FunctionDef)}


def experiment_files() -> dict[str, Path]:
    """The files of all experiments of the studies in use, by key."""
    folders = (path / "experiments" for path in studies().values())
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.yaml"))}


LOCAL_IMAGES = {"image-folder": ".", "cifar10-jpeg": "cifar10-jpeg"}
"""Data sets that are whatever lies in a part of the data folder; others have checksums."""


@functools.cache
def syntax(path: Path) -> ast.Module:
    """The syntax tree of a file of the package, read once in a process."""
    return _parsed(path.read_bytes())


_parsed = functools.cache(ast.parse)  # of a file that is read anew, and says the same: once


@functools.cache
def assignments(path: Path) -> dict[str, ast.expr]:
    """What a file assigns to which name, with or without a type."""
    values: dict[str, ast.expr] = {}
    for node in syntax(path).body:
        if isinstance(node, ast.Assign):
            values[ast.unparse(node.targets[0])] = node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            values[ast.unparse(node.target)] = node.value
    return values


def quantities(path: Path) -> Iterator[tuple[str, ast.expr]]:
    """What the dictionaries of a family's file define, in order: quantities, and what they are."""
    tables = (value for value in assignments(path).values() if isinstance(value, ast.Dict))
    for key, value in itertools.chain(*(zip(t.keys, t.values, strict=True) for t in tables)):
        if isinstance(key, ast.Constant):
            yield str(key.value), value


def literal(folder: str, key: str, name: str) -> Any:
    """The value of a literal in the file of a key; `PlanError` if there is none."""
    path = path_of(folder, key)
    try:
        return ast.literal_eval(assignments(path)[name])
    except (KeyError, ValueError):
        raise PlanError(
            f"{path.parent.name}/{path.name}: {name} must be there, and a literal"
        ) from None
