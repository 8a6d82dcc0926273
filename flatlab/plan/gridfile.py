"""The file of a grid, `grids/<grid>.yaml`: read, checked key by key, resolved at one scale."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from msgspec import Meta, structs

from flatlab.plan.grids import Grid, Pack
from flatlab.plan.registry import (
    check_known,
    check_options,
    joined,
    mode_of,
    takes_activation,
    training_keys_of,
)
from flatlab.plan.schema import (
    SCALES,
    Checkpoints,
    Data,
    Dense,
    Measure,
    Network,
    PlanError,
    Strict,
    Training,
    closest,
    convert,
    refuse_unknown,
)

SECTIONS: dict[str, type[Strict]] = {
    "data": Data,
    "network": Network,
    "training": Training,
    "checkpoints": Checkpoints,
    "measure": Measure,
}
VARYING = ("network", "data", "training")
"""The sections whose keys may differ from setting to setting; each key stands in one of them."""
NAME, ARCHITECTURE = "name", "architecture"
"""What a setting calls itself, and therefore what it calls the `name` of its network."""
SECTION_OF = {
    ARCHITECTURE if key == NAME else key: name
    for name in VARYING
    for key in SECTIONS[name].__struct_fields__
}
OF_OPTIMIZERS = ("momentum", "weight_decay")
"""The keys of `training` that some optimizers have and others have not."""
ABBREVIATIONS = {"batch_size": "b", "activation": "", "initialization": "", ARCHITECTURE: ""}


class GridFile(Strict, frozen=True):
    """The parts of a grid's file that are not one of its `SECTIONS`."""

    title: str
    settings: Annotated[list[dict[str, Any]], Meta(min_length=1, description="keys that vary")]
    seeds: Annotated[list[str | int], Meta(min_length=1, description="blocks such as 0-4")]
    scales: dict[str, dict[str, Any]]


def find_grid(folder: Path, key: str) -> Path:
    """The file of a grid; raise `PlanError` with the closest name where there is none."""
    path = folder / f"{key}.yaml"
    if not path.is_file():
        known = [file.stem for file in folder.glob("*.yaml")]
        raise PlanError(f"unknown grid {key!r}; {closest(key, known)}")
    return path


class _Source:
    """A grid's file as it was written, seen at one scale; knows where each key stands."""

    def __init__(self, path: Path, scale: str) -> None:
        self.name, self.scale = f"{path.parent.name}/{path.name}", scale
        self.content = self._read(path)
        refuse_unknown(self.content, [*GridFile.__struct_fields__, *SECTIONS], self.name)
        head = {key: value for key, value in self.content.items() if key not in SECTIONS}
        self.file: GridFile = convert(head, GridFile, f"{self.name}: ")
        if missing := set(SCALES) - set(self.file.scales):
            raise PlanError(f"{self.name}: scales: {sorted(missing)[0]!r} is missing")
        refuse_unknown(self.file.scales, SCALES, f"{self.name}: scales")
        for each, changes in self.file.scales.items():
            refuse_unknown(changes, [*SECTIONS, "settings", "seeds"], f"{self.name}: scales.{each}")
        self.override = self.file.scales[scale]
        own = "settings" in self.override
        self.where = f"{self.name}: {f'scales.{scale}.' if own else ''}settings"
        self.settings: list[dict[str, Any]] = self.override.get("settings", self.file.settings)
        if not isinstance(self.settings, list) or not all(
            isinstance(entry, dict) for entry in self.settings
        ):
            raise PlanError(f"{self.where}: expected a list of keys and values")

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            content = yaml.safe_load(path.read_text())
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f" in line {mark.line + 1}" if mark else ""
            raise PlanError(f"{self.name}: not valid YAML{line}") from None
        if not isinstance(content, dict):
            raise PlanError(f"{self.name}: expected keys and values, found {content!r}")
        return content

    def place(self, section: str, key: str, number: int | None = None) -> str:
        """Where a key of a section stands: in a setting, in the scale's override, or above."""
        if key in self._changes_of(section, number):
            return f"{self.where}[{number}].{ARCHITECTURE if key == NAME else key}"
        inside = key in self.override.get(section, {})
        return f"{self.name}: {f'scales.{self.scale}.' if inside else ''}{section}.{key}"

    def _changes_of(self, section: str, number: int | None) -> dict[str, Any]:
        """What a setting says of a section; nothing where no setting is meant."""
        entry = {} if number is None else self.settings[number]
        own = {key: value for key, value in entry.items() if SECTION_OF.get(key) == section}
        return {NAME if key == ARCHITECTURE else key: value for key, value in own.items()}

    def section(self, key: str, number: int | None = None) -> Any:
        """A section with the scale's changes and those of a setting, by its number, checked."""
        changes = self.override.get(key, {})
        for part, there in ((self.content.get(key), key), (changes, f"scales.{self.scale}.{key}")):
            if not isinstance(part, Mapping):
                raise PlanError(f"{self.name}: {there}: expected keys and values, found {part!r}")
            refuse_unknown(part, SECTIONS[key].__struct_fields__, f"{self.name}: {there}")
        entries = {**self.content[key], **changes, **self._changes_of(key, number)}
        return convert(entries, SECTIONS[key], lambda entry: self.place(key, entry, number))


def load_grid(path: Path, scale: str) -> Grid:
    """Read and check a grid's file; raise `PlanError` with the file and the key."""
    source = _Source(path, scale)
    measure: Measure = source.section("measure")
    for families in [] if isinstance(measure.families, str) else measure.families:
        for family in joined(families):
            check_known("metrics", family, source.place("measure", "families"))
    return Grid(
        key=path.stem,
        title=source.file.title,
        scale=scale,
        measure=measure,
        packs=_packs(source),
    )


def _packs(source: _Source) -> dict[str, Pack]:
    """One pack for each setting and each of its blocks of seeds."""
    packs: dict[str, Pack] = {}
    checkpoints: Checkpoints = source.section("checkpoints")
    dense_seeds: set[tuple[int, ...]] = set()
    if not isinstance(checkpoints.seeds, str):
        dense_seeds = set(_seed_blocks(checkpoints.seeds, source.place("checkpoints", "seeds")))
    found: set[tuple[int, ...]] = set()
    default_seeds = source.override.get("seeds", source.file.seeds)
    for number, entry in enumerate(source.settings):
        where = f"{source.where}[{number}]"
        refuse_unknown(entry, [NAME, *SECTION_OF, "seeds"], where)
        varied = {key: entry[key] for key in SECTION_OF if key in entry}
        setting = _name(entry[NAME], where) if NAME in entry else _setting_key(varied, where)
        hyperparameters = {k: v for k, v in varied.items() if isinstance(v, int | float | str)}
        data, network = _data(source, number), _network(source, number)
        training = _training(source, number, network.name)
        every = isinstance(checkpoints.dense, Dense) and checkpoints.dense.every
        if every and training.iterations is None:
            place = source.place("checkpoints", "dense")
            raise PlanError(f"{place}.every: training.epochs go with log_spaced or a list of steps")
        of_seeds = f"{where}.seeds" if "seeds" in entry else f"{source.name}: seeds"
        for block in _seed_blocks(entry.get("seeds", default_seeds), of_seeds):
            last = f"-{block[-1]}" if len(block) > 1 else ""
            found.add(block)
            dense = not dense_seeds or block in dense_seeds
            pack = Pack(
                key=f"{setting}-s{block[0]}{last}",
                setting=setting,
                hyperparameters=hyperparameters,
                data=data,
                network=network,
                training=training,
                seeds=block,
                dense=checkpoints.dense if dense else "none",
                curves=checkpoints.curves,
            )
            if pack.key in packs:
                raise PlanError(f"{where}: the setting {setting!r} is declared twice")
            packs[pack.key] = pack
    if missing := dense_seeds - found:
        place, block = source.place("checkpoints", "seeds"), min(missing)
        raise PlanError(f"{place}: {block[0]}-{block[-1]} is no block of seeds")
    return packs


def _data(source: _Source, number: int) -> Data:
    data: Data = source.section("data", number)
    check_known("data", data.set, source.place("data", "set", number))
    return data


def _network(source: _Source, number: int) -> Network:
    network: Network = source.section("network", number)
    check_known("networks", network.name, source.place("network", "name", number))
    place = source.place("network", "initialization", number)
    check_known("train/initializations", network.initialization, place)
    if network.activation is None and takes_activation(network.name):
        place = source.place("network", "activation", number)
        raise PlanError(f"{place} is missing: {network.name} has hidden layers")
    check_options(network.name, network.options, source.place("network", "options", number))
    return network


def _training(source: _Source, number: int, network: str) -> Training:
    training: Training = source.section("training", number)
    if wrong := training.contradiction():
        key, sentence = wrong
        raise PlanError(f"{source.place('training', key, number)}: {sentence}")
    optimizer = training.optimizer
    check_known("train/optimizers", optimizer, source.place("training", "optimizer", number))
    for key in OF_OPTIMIZERS:
        if getattr(training, key) and key not in training_keys_of(optimizer):
            raise PlanError(f"{source.place('training', key, number)}: {optimizer} has none")
    if training.mode == "default":
        training = structs.replace(training, mode=mode_of(network))
    return training


def _name(name: object, where: str) -> str:
    """What a setting is called whose values do not fit a path, such as options of a network."""
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][\w.-]*", name, re.ASCII):
        raise PlanError(f"{where}.{NAME}: expected letters, digits, hyphens or _, found {name!r}")
    return name


def _setting_key(hyperparameters: Mapping[str, Any], where: str) -> str:
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
    parts = [
        f"{ABBREVIATIONS.get(key, key.replace('_', ''))}{value}"
        for key, value in hyperparameters.items()
    ]
    return "-".join(parts)


def _seed_blocks(blocks: object, where: str) -> list[tuple[int, ...]]:
    """[0-4, 5-19] -> ((0, ..., 4), (5, ..., 19)); a block of one seed is a number."""
    if not isinstance(blocks, list) or not blocks:
        raise PlanError(f"{where}: expected blocks such as [0-4, 5-19], found {blocks!r}")
    result: list[tuple[int, ...]] = []
    taken: set[int] = set()
    for block in blocks:
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", str(block))
        if not match:
            raise PlanError(f"{where}: expected a block such as 0-4 or 7, found {block!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise PlanError(f"{where}: the block {block!r} ends before it starts")
        seeds = tuple(range(first, last + 1))
        if both := taken.intersection(seeds):
            raise PlanError(f"{where}: seed {min(both)} stands in two blocks")
        taken.update(seeds)
        result.append(seeds)
    return result
