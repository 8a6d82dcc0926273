"""Options as data: the class `Options` of an architecture or a family, read without importing it.

Planning must not wait for torch. It evaluates the class alone, from the syntax of its file. The
class may therefore use the names in `VOCABULARY`, Python's builtins and the literals that its file
assigns, and nothing else. An option that is itself a key names its folder in `FOLDERS`.
"""

import ast
import functools
from collections.abc import Callable, Mapping
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import NODEFAULT, Meta, field
from msgspec.structs import fields

from flatlab.plan.registry import PACKAGE, assignments, check_known, path_of, syntax
from flatlab.plan.schema import Key, PlanError, Strict, convert

if TYPE_CHECKING:
    Activation = str
else:
    _KNOWN = assignments(PACKAGE / "networks/__init__.py")["ACTIVATIONS"].keys
    Activation = Annotated[
        Literal[tuple(map(ast.literal_eval, _KNOWN))], Meta(description="after each hidden layer")
    ]
"""The type of an option: a key of `ACTIVATIONS` in `flatlab/networks`."""


class Architecture(Strict, frozen=True):
    """The options of an architecture, and what planning must know of a network that has them."""

    def layers(self) -> list[str]:
        """The files of `flatlab/train/layers` that its stacked form needs, by key."""
        return []

    def parameters(self, inputs: tuple[int, ...], outputs: int) -> int:
        """How many parameters it has.  inputs: (features), or (channels, height, width)."""
        raise NotImplementedError

    @property
    def differences(self) -> str:
        """The options that differ from their defaults, in words; those without one are left out."""
        given = [(each.name, getattr(self, each.name), each.default) for each in fields(self)]
        return ", ".join(
            f"{name} {'-'.join(map(str, value)) if isinstance(value, tuple) else value}"
            for name, value, default in given
            if default is not NODEFAULT and value != default
        )


VOCABULARY: dict[str, Any] = {
    **{kind.__name__: kind for kind in (Architecture, Meta, Strict)},
    **{"Annotated": Annotated, "ClassVar": ClassVar, "Literal": Literal, "Any": Any, "Key": Key},
    **{"Activation": Activation, "field": field, "prod": prod, "pairwise": pairwise},
    "__name__": __name__,
}


@functools.cache
def options_of(folder: str, key: str) -> type[Strict]:
    """The class `Options` of a file of a registry; one without fields where there is none."""
    path = path_of(folder, key)
    body = syntax(path).body
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


def architecture(key: str) -> type[Architecture]:
    """The class `Options` of an architecture; `PlanError` where the file has none that serves."""
    found = options_of("networks", key)
    if not issubclass(found, Architecture) or "parameters" not in vars(found):
        raise PlanError(
            f"networks/{path_of('networks', key).name}: it needs a class Options(Architecture) "
            "with a method `parameters`"
        )
    return found
