"""Functions of a study that an experiment names, `module:function`, without importing them."""

import ast
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Annotated

from flatlab.core.registry import file_of, syntax
from flatlab.core.schema import PlanError, closest, means
from flatlab.core.studies import module_of_study, studies

PATTERN = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"
Function = Annotated[str, means("module:function of the study's folder", pattern=PATTERN)]


def study_of(folder: Path, where: str) -> str:
    """The key of the study in a folder; `PlanError` if it is none."""
    for key, place in studies().items():
        if place == folder.resolve():
            return key
    raise PlanError(f"{where}: such experiments are part of a study, and this is none")


def module_of_function(name: str, study: str, where: str) -> str:
    """The module of flatlab that has a function of a study: a root for fingerprints.

    name: "mine:build".
    study: its key.
    where: the place that names it, for the message of the `PlanError` if it cannot be had.
    """
    module, _, function = name.partition(":")
    folder, ours = studies()[study], module_of_study(module, study)
    file = file_of(ours)
    path = file / "__init__.py" if file is not None and file.is_dir() else file
    if path is None or not path.is_file():
        known = sorted(each.stem for each in folder.glob("*.py"))
        raise PlanError(
            f"{where}: {folder.name} has no module {module!r}; {closest(module, known)}"
        )
    if _exists_elsewhere(module.partition(".")[0], folder):
        raise PlanError(f"{where}: {module} has the name of an installed module; rename it")
    names = _names(path)
    if function not in names:
        raise PlanError(f"{where}: {module} has no {function!r}; {closest(function, names)}")
    return ours


def _exists_elsewhere(module: str, folder: Path) -> bool:
    """Whether Python, without the study's folder, has a module of this name."""
    others = [path for path in sys.path if Path(path or ".").resolve() != folder]
    if module in sys.stdlib_module_names:
        return True
    spec = PathFinder.find_spec(module, others)
    return spec is not None and spec.origin is not None


def _names(path: Path) -> list[str]:
    """What a module defines or imports at its top level."""
    names: list[str] = []
    for node in syntax(path).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return names
