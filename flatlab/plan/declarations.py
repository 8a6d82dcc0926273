"""Errors of a paper's figures.py, in one sentence."""

import ast
import re
import traceback
from collections.abc import Iterator
from pathlib import Path

from flatlab.plan.schema import Strict, closest
from flatlab.plan.templates import TEMPLATES, Paper

RECORDS: dict[str, type[Strict]] = {t.__name__: t for t in TEMPLATES} | {"Paper": Paper}


def explain(error: Exception, path: Path) -> str:
    """The figure or the line, then the culprit and the closest match."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"line {error.lineno}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path) and frame.lineno]
    if not lines:
        return f"{type(error).__name__}: {error}"
    tree = ast.parse(path.read_bytes())
    place = _figure_at(tree, lines[0]) or f"line {lines[-1]}"
    return f"{place}: {_culprit(error, tree, lines[-1])}"


def _culprit(error: Exception, tree: ast.Module, line: int) -> str:
    text = str(error)
    if isinstance(error, NameError):
        return f"unknown name {error.name!r}; {closest(str(error.name), _names(tree))}"
    if isinstance(error, AttributeError):
        known = [name for name in dir(error.obj) if not name.startswith("_")]
        return f"unknown name {error.name!r}; {closest(str(error.name), known)}"
    fields = _fields_at(tree, line)
    if unknown := re.fullmatch("Unexpected keyword argument '(.*)'", text):
        return f"unknown option {unknown[1]!r}; {closest(unknown[1], fields)}"
    if missing := re.fullmatch("Missing required argument '(.*)'", text):
        return f"{missing[1]} is missing"
    if text == "Extra positional arguments provided":
        return "only the experiments may be positional; write option=value for the rest"
    return f"{type(error).__name__}: {text}"


def _figure_at(tree: ast.Module, line: int) -> str:
    """The key in `FIGURES` whose declaration includes a line; "" if none does."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    for node in assigned:
        if ast.unparse(node.targets[0]) == "FIGURES" and isinstance(node.value, ast.Dict):
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                if isinstance(key, ast.Constant) and key.lineno <= line <= (value.end_lineno or 0):
                    return str(key.value)
    return ""


def _fields_at(tree: ast.Module, line: int) -> tuple[str, ...]:
    """The options of the record constructed at a line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or 0):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in RECORDS:
                return RECORDS[name].__struct_fields__
    return ()


def _names(tree: ast.Module) -> set[str]:
    """The names that a file imports and defines."""

    def names() -> Iterator[str]:
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from (alias.asname or alias.name for alias in node.names)
            elif isinstance(node, ast.Assign):
                yield from (ast.unparse(target) for target in node.targets)
            elif isinstance(node, ast.FunctionDef):
                yield node.name

    return {*names(), *RECORDS}
