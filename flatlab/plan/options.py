"""Options as data: the class `Options` of an architecture or a family, read without importing it.

Planning must not wait for torch. It evaluates the class alone, from the syntax of its file. The
class may therefore use the names of this module, Python's builtins and the literals that its file
assigns, and nothing else.
"""

from __future__ import annotations

import ast
import functools
from math import prod
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from flatlab.plan.registry import assignments, path_of
from flatlab.plan.schema import Key, PlanError, Strict

VOCABULARY: dict[str, Any] = {
    **{kind.__name__: kind for kind in (Meta, Strict)},
    **{"Annotated": Annotated, "Literal": Literal, "Any": Any, "Key": Key},
    **{"field": field, "prod": prod, "__name__": __name__},
}


@functools.cache
def options_of(folder: str, key: str) -> type[Strict]:
    """The class `Options` of a file of a registry; one without fields where there is none."""
    path = path_of(folder, key)
    body = ast.parse(path.read_text(encoding="utf-8")).body
    declared: list[ast.stmt] = [
        n for n in body if isinstance(n, ast.ClassDef) and n.name == "Options"
    ]
    namespace = dict(VOCABULARY)
    for name, value in assignments(path).items():
        try:
            namespace[name] = ast.literal_eval(value)
        except ValueError:
            continue  # of the measurement itself
    if not declared:
        return type("Options", (Strict,), {"__module__": __name__}, frozen=True)
    try:
        exec(compile(ast.Module(declared, []), str(path), "exec", dont_inherit=True), namespace)
    except NameError as error:
        raise PlanError(
            f"{path.parent.name}/{path.name}: {error} in the class Options, which may use "
            f"{', '.join(name for name in VOCABULARY if name[0] != '_')} and literals"
        ) from None
    return namespace["Options"]
