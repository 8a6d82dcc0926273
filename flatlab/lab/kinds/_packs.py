"""The packs of a grid: one for each setting and each of its blocks of seeds.

Settings are a list, or the product of factors and their variants, each with a name fit for paths.
"""

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import UNSET, UnsetType, structs

from flatlab.core.options import options_of, section
from flatlab.core.registry import check_known, keys_of, literal
from flatlab.core.schema import PlanError, Strict, plain, refuse_unknown
from flatlab.lab.kinds._sections import Checkpoints, Data, Dense, Network, Training
from flatlab.lab.plan.experiments import Source

VARYING: dict[str, type[Strict]] = {"network": Network, "data": Data, "training": Training}
"""The sections whose keys may differ from setting to setting; each key belongs to one of them."""
NAME, ARCHITECTURE = "name", "architecture"
"""A setting has a name of its own; the `name` of its network is therefore its `architecture`."""
Product = Callable[[Mapping[str, Any], list[Mapping[str, Any]], str, str], list[dict[str, Any]]]
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


def settings(source: Source, product: Product) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each setting with its location in the file: those of a list, or the product of factors."""
    location, declared = source.location("settings"), source.value("settings")
    excluded, of_excluded = source.value("exclude", []), source.location("exclude")
    if not isinstance(excluded, list) or not all(isinstance(e, Mapping) for e in excluded):
        raise PlanError(f"{of_excluded}: expected a list of keys and values, found {excluded!r}")
    if isinstance(declared, Mapping):
        yield from ((location, each) for each in product(declared, excluded, location, of_excluded))
        return
    if excluded:
        raise PlanError(f"{of_excluded}: only a product of factors has combinations to exclude")
    if not isinstance(declared, list) or not declared:
        raise PlanError(
            f"{location}: expected a list of settings, or factors such as lr: [0.1, 0.2], "
            f"found {declared!r}"
        )
    for number, entry in enumerate(declared):
        if not isinstance(entry, Mapping):
            raise PlanError(f"{location}[{number}]: expected keys and values, found {entry!r}")
        yield f"{location}[{number}]", dict(entry)


def combinations(
    factors: Mapping[str, Any], excluded: list[Mapping[str, Any]], location: str, of_excluded: str
) -> list[dict[str, Any]]:
    """All combinations of the factors' values but those that contain an excluded one.

    location, of_excluded: those of the factors and of `exclude`, for messages.
    """
    for name, values in factors.items():
        if not isinstance(values, list) or not values:
            raise PlanError(f"{location}.{name}: expected a list of values, found {values!r}")
    products = itertools.product(*factors.values())
    every = [dict(zip(factors, values, strict=True)) for values in products]
    for number, entry in enumerate(excluded):
        refuse_unknown(entry, factors, f"{of_excluded}[{number}]")
        if not any(entry.items() <= each.items() for each in every):
            raise PlanError(f"{of_excluded}[{number}]: no combination has {dict(entry)}")
    return [each for each in every if not any(e.items() <= each.items() for e in excluded)]


def _with_variants(
    factors: Mapping[str, Any], excluded: list[Mapping[str, Any]], location: str, of_excluded: str
) -> list[dict[str, Any]]:
    """The combinations of factors, of which one that is no key of a section has variants.

    Variants are mappings with a name, and what they set.
    """
    variants = {
        name: {name_of(value.get(NAME), f"{location}.{name}"): value for value in values}
        for name, values in factors.items()
        if name not in sections() and isinstance(values, list)
        if all(isinstance(value, Mapping) for value in values)
    }
    refuse_unknown(factors, [*sections(), *variants], location)
    named = {name: [*variants.get(name, {})] or values for name, values in factors.items()}
    kept = combinations(named, excluded, location, of_excluded)
    return [_merged(each, variants, location) for each in kept] if variants else kept


def _merged(
    chosen: Mapping[str, Any],
    variants: Mapping[str, Mapping[str, Mapping[str, Any]]],
    location: str,
) -> dict[str, Any]:
    """One setting of a product of which some factors have variants: its name, and all its keys."""
    names: list[str] = []
    setting: dict[str, Any] = {}
    for factor, value in chosen.items():
        variant = factor in variants
        part = variants[factor][value] if variant else {factor: value}
        names.append(value if variant else key_of(part, location))
        part = {key: each for key, each in part.items() if key != NAME}
        if both := part.keys() & setting.keys():
            raise PlanError(f"{location}.{factor}: another factor sets {min(both)} as well")
        setting |= part
    return {NAME: name_of("-".join(names), location), **setting}


def name_of(name: object, location: str) -> str:
    """The name that a setting gives itself, for values that cannot be part of a path."""
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][\w.-]*", name, re.ASCII):
        raise PlanError(
            f"{location}.{NAME}: expected letters, digits, hyphens or _, found {name!r}"
        )
    return name


def key_of(hyperparameters: Mapping[str, Any], location: str) -> str:
    """A name for a setting that is fit for a path: {lr: 0.1, batch_size: 20} -> lr0.1-b20.

    Words that say what they are of stand alone: {activation: relu, scale: 0.5} -> relu-scale0.5.
    """
    if not hyperparameters:
        raise PlanError(f"{location}: a setting names at least one key, for example lr")
    for key, value in hyperparameters.items():
        if not isinstance(value, int | float | str):
            raise PlanError(
                f"{location}.{key}: what varies is a number or a word, or the setting has a {NAME} "
                f"of its own; found {value!r}"
            )
    return "-".join(
        f"{ABBREVIATIONS.get(key, key.replace('_', ''))}{value}"
        for key, value in hyperparameters.items()
    )


class Pack(Strict, frozen=True):
    """The runs that are trained together: one setting and one fixed block of seeds.

    hyperparameters: the keys of data, network and training in which the settings of the grid
        differ.
    dense: the steps at which weights are kept besides the final ones.
    fitted: a training error; weights at the first epoch's end at which it is reached are kept too.
    curves: the steps at which loss and accuracy are recorded.
    """

    key: str
    setting: str
    hyperparameters: dict[str, Any]
    data: Data
    network: Network
    training: Training
    seeds: tuple[int, ...]
    dense: str | list[int] | Dense
    curves: str | list[int] | Dense
    fitted: float | UnsetType = UNSET

    @property
    def dense_checkpoints(self) -> int:
        """The number of dense checkpoints, or slightly more."""
        first = int(self.fitted is not UNSET)
        if not isinstance(self.dense, Dense):
            return first + (0 if self.dense == "none" else len(self.dense))
        if self.dense.every:
            return first + (self.training.iterations or 0) // self.dense.every + 2
        return first + (self.dense.log_spaced or 0) + 1

    @property
    def runs(self) -> list[str]:
        """The key of each run, in the order of the seeds."""
        return [f"{self.setting}-s{seed}" for seed in self.seeds]

    @property
    def outputs(self) -> int | None:
        """The number of outputs; None for the number of classes of the data set."""
        if isinstance(self.network.outputs, int):
            return self.network.outputs
        return None if isinstance(self.data.classes, str) else len(self.data.classes)

    @property
    def bytes(self) -> int:
        """The approximate size of the weights of its runs at one checkpoint."""
        size = 8 if self.training.precision == "float64" else 4
        shape, pixels = literal("data", self.data.set, "SHAPE"), self.data.pixels
        if isinstance(pixels, int):
            shape = (shape[0], pixels, pixels)
        outputs = self.outputs or literal("data", self.data.set, "OUTPUTS")
        return size * self.network.options.parameters(shape, outputs) * len(self.seeds)


@functools.cache  # commands and tests plan the same files several times
def packs_of(source: Source) -> dict[str, Pack]:
    """All packs of a grid's file, by key; raise `PlanError` with the file and the key."""
    packs: dict[str, Pack] = {}
    checkpoints, _ = section(source.parts("checkpoints"), Checkpoints)
    at = source.location("checkpoints", "seeds")
    dense_seeds = [] if checkpoints.seeds == "all" else seed_blocks(checkpoints.seeds, at)
    read: dict[tuple[str, str], Any] = {}  # planning took twice as long without it
    for location, entry in settings(source, _with_variants):
        for pack in _packs_of_setting(source, location, entry, checkpoints, dense_seeds, read):
            if pack.key in packs:
                raise PlanError(f"{location}: the setting {pack.setting!r} is declared twice")
            packs[pack.key] = pack
    if missing := {*dense_seeds} - {pack.seeds for pack in packs.values()}:
        raise PlanError(f"{at}: {min(missing)[0]}-{min(missing)[-1]} is not a block of seeds")
    varied = varied_in(packs)
    return {key: _with_hyperparameters(pack, varied) for key, pack in packs.items()}


def varied_in(packs: Mapping[str, Pack]) -> list[str]:
    """The hyper-parameters of all packs, each once."""
    return list(dict.fromkeys(key for pack in packs.values() for key in pack.hyperparameters))


def check_shared(grid: str, packs: Mapping[str, Pack]) -> None:
    """Raise `PlanError` if a hyper-parameter has a value for a table in some packs alone."""
    for pack in packs.values():
        if missing := [key for key in varied_in(packs) if key not in pack.hyperparameters]:
            raise PlanError(
                f"{grid}: {missing[0]} is one number or word for some settings and not for "
                f"{pack.setting!r}, so that no table can hold it"
            )


def _with_hyperparameters(pack: Pack, varied: list[str]) -> Pack:
    """The same with those that only other settings state, at the values of its sections."""
    known = pack.hyperparameters
    for key in [key for key in varied if key not in known]:
        record = getattr(pack, sections()[key])
        options = record.options if isinstance(record.options, dict) else plain(record.options)
        value = record.name if key == ARCHITECTURE else options.get(key, getattr(record, key, None))
        if isinstance(value, int | float | str):
            known = {**known, key: value}
    in_order = {key: known[key] for key in sections() if key in known}
    return structs.replace(pack, hyperparameters=in_order)


def _packs_of_setting(
    source: Source,
    location: str,
    entry: Mapping[str, Any],
    checkpoints: Checkpoints,
    dense_seeds: list[tuple[int, ...]],
    read: dict[tuple[str, str], Any],
) -> Iterator[Pack]:
    """A pack for each block of seeds of one setting.

    location: its own in the file, for messages.
    dense_seeds: blocks kept densely; all if empty.
    read: the sections so far, by name and by what a setting changes in them.
    """
    refuse_unknown(entry, [NAME, *sections(), "seeds"], location)
    varied = {key: entry[key] for key in sections() if key in entry}
    setting = name_of(entry[NAME], location) if NAME in entry else key_of(varied, location)
    data, network, training = _sections_of(source, location, varied, read)
    at = source.location("checkpoints", "dense")
    if isinstance(checkpoints.dense, Dense) and checkpoints.dense.every and training.epochs:
        raise PlanError(f"{at}.every: training.epochs go with log_spaced or a list of steps")
    at = f"{location}.seeds" if "seeds" in entry else source.location("seeds")
    for block in seed_blocks(entry.get("seeds", source.value("seeds")), at):
        last = f"-{block[-1]}" if len(block) > 1 else ""
        densely = not dense_seeds or block in dense_seeds
        yield Pack(
            key=f"{setting}-s{block[0]}{last}",
            setting=setting,
            hyperparameters={k: v for k, v in varied.items() if isinstance(v, int | float | str)},
            data=data,
            network=network,
            training=training,
            seeds=block,
            dense=checkpoints.dense if densely else "none",
            curves=checkpoints.curves,
            fitted=checkpoints.fitted if densely else UNSET,
        )


def _sections_of(
    source: Source, location: str, varied: Mapping[str, Any], read: dict[tuple[str, str], Any]
) -> tuple[Data, Network, Training]:
    if ARCHITECTURE in varied:
        check_known("networks", varied[ARCHITECTURE], f"{location}.{ARCHITECTURE}")

    def of(name: str) -> Any:
        changes = {
            NAME if key == ARCHITECTURE else key: value
            for key, value in varied.items()
            if sections()[key] == name
        }
        if (name, repr(changes)) not in read:
            parts = [*source.parts(name), *([(location, changes)] if changes else [])]
            read[name, repr(changes)] = section(parts, VARYING[name])
        return read[name, repr(changes)]

    (data, _), (network, chosen), (training, _) = map(of, ("data", "network", "training"))
    mode, architecture = training.mode, chosen["networks", network.name]
    if mode == "default":
        mode = "batched" if architecture.narrow else literal("networks", network.name, "MODE")
    network = structs.replace(network, options=architecture)
    return data, network, structs.replace(training, mode=mode)


def seed_blocks(blocks: object, location: str) -> list[tuple[int, ...]]:
    """[0-4, 5-19] -> [(0, ..., 4), (5, ..., 19)]; a block of one seed is a number."""
    if not isinstance(blocks, list) or not blocks:
        raise PlanError(f"{location}: expected blocks such as [0-4, 5-19], found {blocks!r}")
    result: list[tuple[int, ...]] = []
    for block in blocks:
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", str(block))
        if not match:
            raise PlanError(f"{location}: expected a block such as 0-4 or 7, found {block!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise PlanError(f"{location}: the block {block!r} ends before it starts")
        seeds = tuple(range(first, last + 1))
        if both := {*seeds} & {*itertools.chain(*result)}:
            raise PlanError(f"{location}: seed {min(both)} stands in two blocks")
        result.append(seeds)
    return result
