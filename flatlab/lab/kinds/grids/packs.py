"""The packs of a grid: one for each setting and each of its blocks of seeds."""

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import UNSET, UnsetType, structs

from flatlab.core.options import section
from flatlab.core.registry import check_known, literal
from flatlab.core.schema import PlanError, Strict, plain, refuse_unknown
from flatlab.lab.kinds.grids.sections import Checkpoints, Data, Dense, Network
from flatlab.lab.kinds.grids.settings import (
    ARCHITECTURE,
    NAME,
    VARYING,
    key_of,
    name_of,
    sections,
    settings,
)
from flatlab.lab.kinds.grids.training import Training
from flatlab.lab.plan.experiments import Source


class Pack(Strict, frozen=True):
    """The runs that are trained together: one setting and one fixed block of seeds.

    hyperparameters: the keys of data, network and training in which the settings of the grid
    differ.
    dense: the steps at which weights are kept besides the final ones.  fitted: a training error;
    those at the first epoch's end at which it is reached are kept too.  curves: the steps at which
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


def packs_of(source: Source) -> dict[str, Pack]:
    """All packs of a grid's file, by key; raise `PlanError` with the file and the key."""
    packs: dict[str, Pack] = {}
    checkpoints, _ = section(source.parts("checkpoints"), Checkpoints)
    place = source.place("checkpoints", "seeds")
    dense_seeds = [] if checkpoints.seeds == "all" else seed_blocks(checkpoints.seeds, place)
    for where, entry in settings(source):
        for pack in _packs_of_setting(source, where, entry, checkpoints, dense_seeds):
            if pack.key in packs:
                raise PlanError(f"{where}: the setting {pack.setting!r} is declared twice")
            packs[pack.key] = pack
    if missing := {*dense_seeds} - {pack.seeds for pack in packs.values()}:
        raise PlanError(f"{place}: {min(missing)[0]}-{min(missing)[-1]} is no block of seeds")
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
    where: str,
    entry: Mapping[str, Any],
    checkpoints: Checkpoints,
    dense_seeds: list[tuple[int, ...]],
) -> Iterator[Pack]:
    """A pack for each block of seeds of one setting.

    where: its place in the file, for messages.  dense_seeds: blocks kept densely; all if empty.
    """
    refuse_unknown(entry, [NAME, *sections(), "seeds"], where)
    varied = {key: entry[key] for key in sections() if key in entry}
    setting = name_of(entry[NAME], where) if NAME in entry else key_of(varied, where)
    data, network, training = _sections_of(source, where, varied)
    place = source.place("checkpoints", "dense")
    if isinstance(checkpoints.dense, Dense) and checkpoints.dense.every and training.epochs:
        raise PlanError(f"{place}.every: training.epochs go with log_spaced or a list of steps")
    place = f"{where}.seeds" if "seeds" in entry else source.place("seeds")
    for block in seed_blocks(entry.get("seeds", source.value("seeds")), place):
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
    source: Source, where: str, varied: Mapping[str, Any]
) -> tuple[Data, Network, Training]:
    if ARCHITECTURE in varied:
        check_known("networks", varied[ARCHITECTURE], f"{where}.{ARCHITECTURE}")

    def of(name: str) -> tuple[Any, dict[tuple[str, str], Any]]:
        changes = {
            NAME if key == ARCHITECTURE else key: value
            for key, value in varied.items()
            if sections()[key] == name
        }
        return section([*source.parts(name), (where, changes)], VARYING[name])

    (data, changes), (network, chosen), (training, options) = map(
        of, ("data", "network", "training")
    )
    mode, architecture = training.mode, chosen["networks", network.name]
    if mode == "default":
        mode = "batched" if architecture.narrow else literal("networks", network.name, "MODE")
    return (
        structs.replace(data, options=_joined(changes)),
        structs.replace(network, options=architecture),
        structs.replace(training, mode=mode, options=_joined(options)),
    )


def _joined(options: Mapping[Any, Strict]) -> dict[str, Any]:
    """The options of several files as one section has them."""
    return {key: value for each in options.values() for key, value in plain(each).items()}


def seed_blocks(blocks: object, where: str) -> list[tuple[int, ...]]:
    """[0-4, 5-19] -> [(0, ..., 4), (5, ..., 19)]; a block of one seed is a number."""
    if not isinstance(blocks, list) or not blocks:
        raise PlanError(f"{where}: expected blocks such as [0-4, 5-19], found {blocks!r}")
    result: list[tuple[int, ...]] = []
    for block in blocks:
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", str(block))
        if not match:
            raise PlanError(f"{where}: expected a block such as 0-4 or 7, found {block!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise PlanError(f"{where}: the block {block!r} ends before it starts")
        seeds = tuple(range(first, last + 1))
        if both := {*seeds} & {*itertools.chain(*result)}:
            raise PlanError(f"{where}: seed {min(both)} stands in two blocks")
        result.append(seeds)
    return result
