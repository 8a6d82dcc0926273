"""Options as data: the class `Options` of a file, such as an architecture's, without importing it.

An architecture, a loss or a family declares its options in the file that computes, so that adding
one is adding one file. Importing that file imports torch: 2 to 11 seconds and 650 MB, and Snakemake
plans anew in each of its processes, for every dry run, for each job on a cluster. Planning takes
0.3 seconds without. So the class alone is evaluated, from the syntax of its file, and `imported`
must not take its place. The class may therefore use the names in `VOCABULARY`, Python's builtins
and the literals that its file assigns, and nothing else; what else it names is a `PlanError`.
"""

import ast
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import NODEFAULT, Meta, field
from msgspec.structs import fields, replace

from flatlab.core import registry, schema
from flatlab.core.registry import check_known, joined, keys_of, path_of
from flatlab.core.schema import Key, PlanError, Strict, means, plain

if TYPE_CHECKING:
    Activation = str
else:
    _KNOWN = registry.assignments(registry.PACKAGE / "networks/_modules.py")["ACTIVATIONS"].keys
    Activation = Annotated[
        Literal[tuple(map(ast.literal_eval, _KNOWN))], means("after each hidden layer")
    ]
"""The type of an option: a key of `ACTIVATIONS` in `flatlab/networks`."""


class Architecture(Strict, frozen=True):
    """The options of an architecture, and what planning must know of a network that has them."""

    def layers(self) -> list[str]:
        """The files of `flatlab/lab/train/layers` that its stacked form needs, by key."""
        return []

    def parameters(self, inputs: tuple[int, ...], outputs: int) -> int:
        """How many parameters it has.  inputs: (features), or (channels, height, width)."""
        raise NotImplementedError

    @property
    def narrow(self) -> bool:
        """Whether such networks are trained as one stack by default, whatever `MODE` says."""
        return False

    @property
    def differences(self) -> str:
        """The options that differ from their defaults, in words; those without one are left out."""
        options = [(each.name, getattr(self, each.name), each.default) for each in fields(self)]
        return ", ".join(
            f"{name} {'-'.join(map(str, value)) if isinstance(value, tuple) else value}"
            for name, value, default in options
            if default is not NODEFAULT and value != default
        )


class Convolutional(Architecture, frozen=True):
    """Convolutions with 2 x 2 max pooling, then linear layers: what VGG and LeNet-5 have in common.

    Subclasses have, as options or fixed, `activation`; `widths`: the channels of the convolutions,
    and "pool"; `hidden`: the units of the linear layers but the last; `kernel` and `padding` of the
    convolutions; `normalization` after each: "none" or "batch".
    """

    def layers(self: Any) -> list[str]:
        norm = ["batch-norm"] if self.normalization == "batch" else []
        pool = ["max-pool"] if "pool" in self.widths else []
        return ["convolution", *norm, *pool, "flatten", "linear", self.activation]

    def parameters(self: Any, inputs: tuple[int, ...], outputs: int) -> int:
        before, *pixels = inputs
        count = 0
        for width in self.widths:
            if width == "pool":
                pixels = [size // 2 for size in pixels]
                continue
            per_channel = 3 if self.normalization == "batch" else 1
            count += width * (self.kernel**2 * before + per_channel)
            pixels = [size + 2 * self.padding - self.kernel + 1 for size in pixels]
            before = width
        return count + of_linear_layers([before * prod(pixels), *self.hidden, outputs])

    @property
    def narrow(self: Any) -> bool:
        return max(width for width in (0, *self.widths) if width != "pool") <= 64


def of_linear_layers(sizes: Sequence[int]) -> int:
    """The weights and biases of linear layers.  sizes: units from the first to the last."""
    return sum((before + 1) * after for before, after in pairwise(sizes))


VOCABULARY: dict[str, Any] = {
    **{each.__name__: each for each in (Architecture, Convolutional, Meta, Strict, means)},
    **{"field": field, "prod": prod, "of_linear_layers": of_linear_layers},
    **{"Annotated": Annotated, "ClassVar": ClassVar, "Literal": Literal, "Any": Any, "Key": Key},
    **{"Activation": Activation, "__name__": __name__},
}


@functools.cache
def options_of(folder: str, key: str) -> type[Any]:
    """The class `Options` in the file of a key; an empty class if it has none."""
    path = path_of(folder, key)
    declared = [n for n in registry.syntax(path).body if getattr(n, "name", "") == "Options"]
    namespace = {**VOCABULARY, "Options": type("Options", (Strict,), {"__module__": __name__})}
    for name, value in registry.assignments(path).items():
        try:
            namespace[name] = ast.literal_eval(value)
        except ValueError:
            continue  # of the computation itself
    try:  # by exec, since msgspec makes a record of a class statement alone
        exec(compile(ast.Module(declared, []), str(path), "exec", dont_inherit=True), namespace)
    except NameError as error:
        raise PlanError(
            f"{path.parent.name}/{path.name}: {error} in the class Options, which may use "
            f"{', '.join(name for name in VOCABULARY if name[0] != '_')} and literals"
        ) from None
    options: Any = namespace["Options"]
    counted = getattr(options, "parameters", Architecture.parameters)
    if folder == "networks" and counted is Architecture.parameters:
        raise PlanError(
            f"{path.parent.name}/{path.name}: it needs a class Options(Architecture) with a method "
            "`parameters`"
        )
    return options


@functools.cache
def defaults_of(kind: type[Strict]) -> dict[str, Any]:
    """The keys that may be left out, with their values; not to be changed."""
    return {each.name: each.default for each in fields(kind) if each.default is not NODEFAULT}


def documented(name: str, kind: type[Strict]) -> Iterator[tuple[str, type[Strict]]]:
    """A section, followed by the options of each file that it may name, with their titles."""
    yield name, kind
    for folder in kind.FOLDERS.values():
        for key in keys_of(folder):
            if (options := getattr(kind, "OPTIONS", options_of)(folder, key)).__struct_fields__:
                yield f"{name}, of {key}", options


def section(
    parts: Sequence[tuple[str, Mapping[str, Any]]], kind: type[Strict]
) -> tuple[Any, dict[tuple[str, str], Any]]:
    """A section of a file: its own keys, and the options of the files that they name.

    parts: the section above `scales:`, in the scale and in a setting, each behind its location.
    kind: what its own keys are; each file that one of `FOLDERS` names adds its options to them, as
        `options_of` has them, or `OPTIONS` of the kind.
    Where a part names another file, options of the file above that the new one lacks are dropped.
    Returns a record of `kind`, and one of options by folder and key of each file.
    """
    keys = [key for key in kind.__struct_fields__ if key != "options"]
    whole = defaults_of(kind) | {key: value for _, part in parts for key, value in part.items()}
    for key in kind.FOLDERS:
        if key not in whole:
            raise PlanError(schema.absent(key, whole, f"{parts[0][0]}.{key}"))
    so_far: dict[str, Any] = {}
    for location, part in parts:
        kinds: dict[tuple[str, str], type[Strict]] = {}
        for key, folder in kind.FOLDERS.items():
            names = joined(part.get(key, so_far.get(key, whole[key])))
            for name in names:
                if key in part:
                    check_known(folder, name, f"{location}.{key}")
                if names.count(name) > 1:
                    raise PlanError(f"{location}.{key}: {name} stands there twice")
                kinds[folder, name] = getattr(kind, "OPTIONS", options_of)(folder, name)
        known = [*keys, *(option for each in kinds.values() for option in each.__struct_fields__)]
        schema.refuse_unknown(part, known, location)
        so_far = {key: value for key, value in {**so_far, **part}.items() if key in known}

    def location_of(key: str) -> str:
        stated = (location for location, part in parts[::-1] if key.partition(".")[0] in part)
        return f"{next(stated, parts[0][0])}.{key}"

    record = checked(so_far, kind, location_of)
    options = {name: checked(so_far, each, location_of) for name, each in kinds.items()}
    if getattr(record, "options", None) == {}:  # of all its files together, as jobs are told them
        of_all = {key: value for each in options.values() for key, value in plain(each).items()}
        record = replace(record, options=of_all)
    return record, options


def checked(
    values: Mapping[str, Any], kind: type[Strict], context: str | Callable[[str], str] = ""
) -> Any:
    """A record of `kind`, from those of its keys that `values` has; the other keys are left alone.

    context: as for `convert`.
    """
    stated = {key: values[key] for key in kind.__struct_fields__ if key in values}
    record = schema.convert(stated, kind, context)
    for key, folder in kind.FOLDERS.items():
        if (name := getattr(record, key)) is not None:
            for each in joined(name):
                check_known(folder, each, context(key) if callable(context) else f"{context}{key}")
    return record
