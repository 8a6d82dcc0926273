"""Errors of a paper's figures.py, in one sentence."""

import ast
import re
import traceback
from pathlib import Path
from typing import Any

from flatlab.plan.registry import assignments
from flatlab.plan.schema import Strict, closest
from flatlab.plan.templates import TEMPLATES, Paper

RECORDS: dict[str, type[Strict]] = {t.__name__: t for t in TEMPLATES} | {"Paper": Paper}


def explain(error: Exception, path: Path) -> str:
    """The figure or the line, then the culprit and the closest match."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"line {error.lineno}: {error.msg}"
    steps = traceback.walk_tb(error.__traceback__)
    inside = [(f.f_globals, line) for f, line in steps if f.f_code.co_filename == str(path)]
    if not inside:
        return f"{type(error).__name__}: {error}"
    names, line = inside[-1]
    place = _figure_at(path, inside[0][1]) or f"line {line}"
    return f"{place}: {_culprit(error, names, path.read_text().splitlines()[line - 1])}"


def _culprit(error: Exception, names: dict[str, Any], line: str) -> str:
    """names: those of the file.  line: where the error arose."""
    text = str(error)
    if isinstance(error, NameError | AttributeError):
        known = dir(error.obj) if isinstance(error, AttributeError) else {*names, *RECORDS}
        hint = closest(str(error.name), (name for name in known if not name.startswith("_")))
        return f"unknown name {error.name!r}; {hint}"
    if unknown := re.fullmatch("Unexpected keyword argument '(.*)'", text):
        record = re.search(rf"\b({'|'.join(RECORDS)})\(", line)
        fields = RECORDS[record[1]].__struct_fields__ if record else ()
        return f"unknown option {unknown[1]!r}; {closest(unknown[1], fields)}"
    if missing := re.fullmatch("Missing required argument '(.*)'", text):
        return f"{missing[1]} is missing"
    if text == "Extra positional arguments provided":
        return "only the experiments may be positional; write option=value for the rest"
    return f"{type(error).__name__}: {text}"


def _figure_at(path: Path, line: int) -> str:
    """The key in `FIGURES` whose declaration includes a line; "" if none does."""
    figures = assignments(path).get("FIGURES")
    if isinstance(figures, ast.Dict):
        for key, value in zip(figures.keys, figures.values, strict=True):
            if isinstance(key, ast.Constant) and key.lineno <= line <= (value.end_lineno or 0):
                return str(key.value)
    return ""
