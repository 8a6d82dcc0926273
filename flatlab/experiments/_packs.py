"""The packs of a grid: one for each setting and each of its blocks of seeds."""

import functools
import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from flatlab.experiments._networks import ARCHITECTURE, NAME, OWN, network_of, options
from flatlab.experiments._sections import Checkpoints, Data, Dense, Network, Training
from flatlab.plan.experiments import Source
from flatlab.plan.registry import check_known, input_shape, mode_of, outputs_of, training_keys_of
from flatlab.plan.schema import PlanError, Strict, convert, refuse_unknown

VARYING: dict[str, type[Strict]] = {"network": Network, "data": Data, "training": Training}
"""The sections whose keys may differ from setting to setting; each key stands in one of them."""
OF_OPTIMIZERS = ("momentum", "weight_decay")
"""The keys of `training` that some optimizers have and others have not."""
ABBREVIATIONS = {"batch_size": "b", "activation": "", "initialization": "", ARCHITECTURE: ""}


class Pack(Strict, frozen=True):
    """The runs that are trained together: one setting and one fixed block of seeds.

    hyperparameters: the keys of data, network and training in which the settings of the grid
    differ.
    dense: the steps at which weights are kept beside those of the end.  curves: those at which
    loss and accuracy are recorded.
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

    @property
    def dense_checkpoints(self) -> int:
        """How many they are, or a few more."""
        if isinstance(self.dense, str):
            return 0
        if isinstance(self.dense, list):
            return len(self.dense)
        if self.dense.every:
            return (self.training.iterations or 0) // self.dense.every + 2
        return (self.dense.log_spaced or 0) + 1

    @property
    def runs(self) -> list[str]:
        """The key of each run, in the order of the seeds."""
        return [f"{self.setting}-s{seed}" for seed in self.seeds]

    @property
    def outputs(self) -> int | None:
        """Number of outputs, or None where it is the data set's number of classes."""
        if isinstance(self.network.outputs, int):
            return self.network.outputs
        return None if isinstance(self.data.classes, str) else len(self.data.classes)

    @property
    def bytes(self) -> int:
        """Disk that the weights of its runs take at one checkpoint, about."""
        size = 8 if self.training.precision == "float64" else 4
        shape, pixels = input_shape(self.data.set), self.data.pixels
        if not isinstance(pixels, str):
            shape = (shape[0], pixels, pixels)
        outputs = self.outputs or outputs_of(self.data.set)
        return size * self.network.options.parameters(shape, outputs) * len(self.seeds)


@functools.cache
def sections() -> dict[str, str]:
    """The section of each key that may vary; the options of all architectures belong to `network`.

    Their order is that of the keys in the name of a setting.
    """
    found: dict[str, str] = {}
    for section, kind in VARYING.items():
        for key in OWN if section == "network" else kind.__struct_fields__:
            if key in options():
                raise PlanError(f"networks: no option can be called {key}, a key of {section}")
            found[ARCHITECTURE if key == NAME else key] = section
        if section == "network":
            found |= dict.fromkeys(options(), section)
    return found


def packs_of(source: Source) -> dict[str, Pack]:
    """All packs of a grid's file, by key; raise `PlanError` with the file and the key."""
    packs: dict[str, Pack] = {}
    found: set[tuple[int, ...]] = set()
    checkpoints: Checkpoints = convert(
        source.section("checkpoints", Checkpoints.__struct_fields__),
        Checkpoints,
        lambda key: source.place("checkpoints", key),
    )
    dense_seeds: set[tuple[int, ...]] = set()
    if not isinstance(checkpoints.seeds, str):
        dense_seeds = set(_seed_blocks(checkpoints.seeds, source.place("checkpoints", "seeds")))
    for where, entry in _settings(source):
        refuse_unknown(entry, [NAME, *sections(), "seeds"], where)
        setting = _Setting(source, where, entry)
        every = isinstance(checkpoints.dense, Dense) and checkpoints.dense.every
        if every and setting.training.iterations is None:
            place = source.place("checkpoints", "dense")
            raise PlanError(f"{place}.every: training.epochs go with log_spaced or a list of steps")
        for pack in setting.packs(checkpoints, dense_seeds):
            found.add(pack.seeds)
            if pack.key in packs:
                raise PlanError(f"{where}: the setting {pack.setting!r} is declared twice")
            packs[pack.key] = pack
    if missing := dense_seeds - found:
        place, block = source.place("checkpoints", "seeds"), min(missing)
        raise PlanError(f"{place}: {block[0]}-{block[-1]} is no block of seeds")
    return packs


class _Setting:
    """One combination of hyper-parameters.  where: its place in the file, for messages."""

    def __init__(self, source: Source, where: str, entry: Mapping[str, Any]) -> None:
        self.source, self.where, self.entry = source, where, entry
        varied = {key: entry[key] for key in sections() if key in entry}
        self.key = _name(entry[NAME], where) if NAME in entry else _key_of(varied, where)
        self.hyperparameters = {k: v for k, v in varied.items() if isinstance(v, int | float | str)}
        self.data: Data = self._section("data")
        check_known("data", self.data.set, self._place("data", "set"))
        changes = self._changes("network")
        self.network = network_of(source, where, changes, lambda key: self._place("network", key))
        self.training = self._training()

    def _training(self) -> Training:
        training: Training = self._section("training")
        if wrong := training.contradiction():
            key, sentence = wrong
            raise PlanError(f"{self._place('training', key)}: {sentence}")
        check_known("losses", training.loss, self._place("training", "loss"))
        optimizer = training.optimizer
        check_known("train/optimizers", optimizer, self._place("training", "optimizer"))
        for key in OF_OPTIMIZERS:
            if getattr(training, key) and key not in training_keys_of(optimizer):
                raise PlanError(f"{self._place('training', key)}: {optimizer} has none")
        if training.mode == "default":
            training = structs.replace(training, mode=mode_of(self.network.name))
        return training

    def _section(self, name: str) -> Any:
        """A section with the changes of the scale and of this setting, checked."""
        kind = VARYING[name]
        entries = self.source.section(name, kind.__struct_fields__)
        return convert({**entries, **self._changes(name)}, kind, lambda key: self._place(name, key))

    def _changes(self, section: str) -> dict[str, Any]:
        """The keys of a section that this setting has, by their names there."""
        keys = [key for key in self.entry if sections().get(key) == section]
        return {NAME if key == ARCHITECTURE else key: self.entry[key] for key in keys}

    def _place(self, section: str, key: str) -> str:
        """Where a key of a section stands: in this setting, in the scale's override, or above."""
        called = ARCHITECTURE if (section, key) == ("network", NAME) else key
        if sections().get(called) == section and called in self.entry:
            return f"{self.where}.{called}"
        return self.source.place(section, key)

    def packs(self, checkpoints: Checkpoints, dense_seeds: set[tuple[int, ...]]) -> Iterator[Pack]:
        """A pack for each block of seeds.  dense_seeds: those kept densely; all if empty."""
        default = self.source.value("seeds")
        where = f"{self.where}.seeds" if "seeds" in self.entry else self.source.place("seeds")
        for block in _seed_blocks(self.entry.get("seeds", default), where):
            last = f"-{block[-1]}" if len(block) > 1 else ""
            yield Pack(
                key=f"{self.key}-s{block[0]}{last}",
                setting=self.key,
                hyperparameters=self.hyperparameters,
                data=self.data,
                network=self.network,
                training=self.training,
                seeds=block,
                dense=checkpoints.dense if not dense_seeds or block in dense_seeds else "none",
                curves=checkpoints.curves,
            )


def _settings(source: Source) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each setting with its place in the file: those of a list, or the product of factors."""
    where, declared = source.place("settings"), source.value("settings")
    excluded, place = source.value("exclude", []), source.place("exclude")
    if not isinstance(excluded, list) or not all(isinstance(e, Mapping) for e in excluded):
        raise PlanError(f"{place}: expected a list of keys and values, found {excluded!r}")
    if isinstance(declared, Mapping):
        yield from _product(declared, excluded, where, place)
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
) -> Iterator[tuple[str, dict[str, Any]]]:
    """All combinations of the factors' values but those that contain an excluded one."""
    refuse_unknown(factors, sections(), where)
    for name, values in factors.items():
        if not isinstance(values, list) or not values:
            raise PlanError(f"{where}.{name}: expected a list of values, found {values!r}")
    used = [False] * len(excluded)
    for number, entry in enumerate(excluded):
        refuse_unknown(entry, factors, f"{place}[{number}]")
    for combination in itertools.product(*factors.values()):
        entry = dict(zip(factors, combination, strict=True))
        hits = [all(entry[key] == value for key, value in out.items()) for out in excluded]
        used = [before or hit for before, hit in zip(used, hits, strict=True)]
        if not any(hits):
            yield where, entry
    if not all(used):
        number = used.index(False)
        raise PlanError(f"{place}[{number}]: no combination has {dict(excluded[number])}")


def _name(name: object, where: str) -> str:
    """What a setting is called whose values do not fit a path, such as options of a network."""
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][\w.-]*", name, re.ASCII):
        raise PlanError(f"{where}.{NAME}: expected letters, digits, hyphens or _, found {name!r}")
    return name


def _key_of(hyperparameters: Mapping[str, Any], where: str) -> str:
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
