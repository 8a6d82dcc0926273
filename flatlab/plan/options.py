"""Options as data: the class `Options` of an architecture or a family, read without importing it.

Planning must not wait for torch. It evaluates the class alone, from the syntax of its file. The
class may therefore use the names in `VOCABULARY`, Python's builtins and the literals that its file
assigns, and nothing else. An option that is itself a key names its folder in `FOLDERS`.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from math import prod
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, field

from flatlab.plan.registry import assignments, check_known, path_of
from flatlab.plan.schema import Key, PlanError, Strict, convert

VOCABULARY: dict[str, Any] = {
    **{kind.__name__: kind for kind in (Meta, Strict)},
    **{"Annotated": Annotated, "ClassVar": ClassVar, "Literal": Literal, "Any": Any, "Key": Key},
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


def checked(
    given: Mapping[str, Any], kind: type[Strict], where: str | Callable[[str], str] = ""
) -> dict[str, Any]:
    """The options of `kind`: those that `given` has, checked, and the defaults of the others.

    where: as for `convert`. Keys that `kind` does not have are left alone.
    """
    stated = {key: given[key] for key in kind.__struct_fields__ if key in given}
    record = convert(stated, kind, where)
    options: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(record))
    for key, folder in folders_of(kind).items():
        if options[key] is not None:
            check_known(folder, options[key], where(key) if callable(where) else f"{where}{key}")
    return options


def folders_of(kind: type[Strict]) -> dict[str, str]:
    """The options that are keys, and of which folder: {"activation": "train/layers"}."""
    return getattr(kind, "FOLDERS", {})
