"""The settings of a grid: a list, or the product of factors and their variants; and their names."""

import functools
import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from flatlab.core.options import options_of
from flatlab.core.registry import keys_of
from flatlab.core.schema import PlanError, Strict, refuse_unknown
from flatlab.lab.kinds.grids.sections import Data, Network
from flatlab.lab.kinds.grids.training import Training
from flatlab.lab.plan.experiments import Source

VARYING: dict[str, type[Strict]] = {"network": Network, "data": Data, "training": Training}
"""The sections whose keys may differ from setting to setting; each key belongs to one of them."""
NAME, ARCHITECTURE = "name", "architecture"
"""A setting has a name of its own; the `name` of its network is therefore its `architecture`."""
ABBREVIATIONS = {
    "batch_size": "b",
    "activation": "",
    "optimizer": "",
    "initialization": "",
    ARCHITECTURE: "",
}


@functools.cache
def sections() -> dict[str, str]:
    """The section of each key that may vary, options included.

    The keys in the name of a setting have the same order.
    """
    section_of: dict[str, str] = {}
    for name, kind in VARYING.items():
        fields = [key for key in kind.__struct_fields__ if key != "options"]
        files = [(folder, key) for folder in kind.FOLDERS.values() for key in keys_of(folder)]
        options = {option for file in files for option in options_of(*file).__struct_fields__}
        if both := options & {*section_of, *fields}:
            raise PlanError(f"{name}: no option can be called {min(both)}, a key of a section")
        keys = [*fields, *sorted(options)]
        section_of |= {ARCHITECTURE if key == NAME else key: name for key in keys}
    return section_of


def settings(source: Source) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each setting with its place in the file: those of a list, or the product of factors."""
    where, declared = source.place("settings"), source.value("settings")
    excluded, place = source.value("exclude", []), source.place("exclude")
    if not isinstance(excluded, list) or not all(isinstance(e, Mapping) for e in excluded):
        raise PlanError(f"{place}: expected a list of keys and values, found {excluded!r}")
    if isinstance(declared, Mapping):
        for combination in _product(declared, excluded, where, place):
            yield where, combination
        return
    if excluded:
        raise PlanError(f"{place}: only a product of factors has combinations to exclude")
    if not isinstance(declared, list) or not declared:
        raise PlanError(
            f"{where}: expected a list of settings, or factors such as lr: [0.1, 0.2], "
            f"found {declared!r}"
        )
    for number, entry in enumerate(declared):
        if not isinstance(entry, Mapping):
            raise PlanError(f"{where}[{number}]: expected keys and values, found {entry!r}")
        yield f"{where}[{number}]", dict(entry)


def _product(
    factors: Mapping[str, Any], excluded: list[Mapping[str, Any]], where: str, place: str
) -> list[dict[str, Any]]:
    """All combinations of the factors' values but those that contain an excluded one.

    A factor that is no key of a section has variants: mappings with a name, and what they set.
    """
    variants: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name, values in factors.items():
        if not isinstance(values, list) or not values:
            raise PlanError(f"{where}.{name}: expected a list of values, found {values!r}")
        if name not in sections() and all(isinstance(value, Mapping) for value in values):
            at = f"{where}.{name}"
            variants[name] = {name_of(value.get(NAME), at): value for value in values}
    refuse_unknown(factors, [*sections(), *variants], where)
    products = itertools.product(*(variants.get(name, factors[name]) for name in factors))
    combinations = [dict(zip(factors, values, strict=True)) for values in products]
    for number, entry in enumerate(excluded):
        refuse_unknown(entry, factors, f"{place}[{number}]")
        if not any(entry.items() <= each.items() for each in combinations):
            raise PlanError(f"{place}[{number}]: no combination has {dict(entry)}")
    kept = [c for c in combinations if not any(entry.items() <= c.items() for entry in excluded)]
    return [_merged(each, variants, where) for each in kept] if variants else kept


def _merged(
    chosen: Mapping[str, Any], variants: Mapping[str, Mapping[str, Mapping[str, Any]]], where: str
) -> dict[str, Any]:
    """One setting of a product of which some factors have variants: its name, and all its keys."""
    names: list[str] = []
    setting: dict[str, Any] = {}
    for factor, value in chosen.items():
        variant = factor in variants
        part = variants[factor][value] if variant else {factor: value}
        names.append(value if variant else key_of(part, where))
        part = {key: each for key, each in part.items() if key != NAME}
        if both := part.keys() & setting.keys():
            raise PlanError(f"{where}.{factor}: another factor sets {min(both)} as well")
        setting |= part
    return {NAME: name_of("-".join(names), where), **setting}


def name_of(name: object, where: str) -> str:
    """The name that a setting gives itself, for values that cannot be part of a path."""
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][\w.-]*", name, re.ASCII):
        raise PlanError(f"{where}.{NAME}: expected letters, digits, hyphens or _, found {name!r}")
    return name


def key_of(hyperparameters: Mapping[str, Any], where: str) -> str:
    """A name for a setting that is fit for a path: {lr: 0.1, batch_size: 20} -> lr0.1-b20.

    Words that say what they are of stand alone: {activation: relu, scale: 0.5} -> relu-scale0.5.
    """
    if not hyperparameters:
        raise PlanError(f"{where}: a setting names at least one key, for example lr")
    for key, value in hyperparameters.items():
        if not isinstance(value, int | float | str):
            raise PlanError(
                f"{where}.{key}: what varies is a number or a word, or the setting has a {NAME} "
                f"of its own; found {value!r}"
            )
    return "-".join(
        f"{ABBREVIATIONS.get(key, key.replace('_', ''))}{value}"
        for key, value in hyperparameters.items()
    )
