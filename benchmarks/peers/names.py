"""What a library has names for: by their absence a table says that it lacks something."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path


def sources(library: str) -> list[Path]:
    """The files of a library that is installed, without tests and examples."""
    spec = importlib.util.find_spec(library)
    assert spec is not None, library
    assert spec.submodule_search_locations, library
    files = Path(spec.submodule_search_locations[0]).rglob("*.py")
    return [f for f in files if not {"tests", "examples"} & {*f.parts}]


def words(library: str) -> dict[str, str]:
    """The words in public names of functions, classes, arguments, with a place: `module: name`."""
    found: dict[str, str] = {}
    for file in sources(library):
        for node in ast.walk(ast.parse(file.read_text())):
            named = isinstance(node, ast.FunctionDef | ast.ClassDef)
            name = node.name if named else node.arg if isinstance(node, ast.arg) else ""
            if name.startswith("_"):
                continue
            for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name):
                found.setdefault(word.lower(), f"{file.stem}: {name}")
    return found
