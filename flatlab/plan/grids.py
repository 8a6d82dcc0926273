"""Grids, settings, runs and packs: what is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from flatlab.plan.registry import families_of_grids, parameters_of
from flatlab.plan.schema import Data, Dense, Measure, Network, Strict, Training

BUDGET_BYTES = 20 * 10**9
"""Dense checkpoints of a grid that take more are not kept behind the measurement."""


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
        return size * parameters_of(self.network.name) * len(self.seeds)


class Grid(Strict, frozen=True):
    """A set of networks to train, at one scale.

    left_out: how many runs of the grid's file are not among the packs, having not been measured.
    """

    key: str
    title: str
    scale: str
    measure: Measure
    packs: dict[str, Pack]
    left_out: int = 0

    @property
    def families(self) -> list[str]:
        """The families of quantities that are measured on this grid; those joined by + together."""
        listed = self.measure.families
        return families_of_grids() if isinstance(listed, str) else listed

    @property
    def runs(self) -> list[str]:
        """The key of each run, pack by pack."""
        return [run for pack in self.packs.values() for run in pack.runs]

    @property
    def networks(self) -> list[str]:
        """The architectures of its packs, each once."""
        return list(dict.fromkeys(pack.network.name for pack in self.packs.values()))

    @property
    def data_sets(self) -> list[str]:
        """The data sets of its packs, each once."""
        return list(dict.fromkeys(pack.data.set for pack in self.packs.values()))

    def measured(self) -> Grid:
        """The same grid with those packs alone of which all metric files are there."""
        packs = {
            key: pack
            for key, pack in self.packs.items()
            if all(self.metrics(key, family).is_file() for family in self.families)
        }
        left_out = len(self.runs) - sum(len(pack.runs) for pack in packs.values())
        return replace(self, packs=packs, left_out=left_out)

    def metrics(self, pack: str, family: str) -> Path:
        """Where the metric file of a pack and a family lies."""
        return Path("results", self.scale, "metrics", self.key, family, f"{pack}.zarr.zip")

    @property
    def bytes_at_the_end(self) -> int:
        """Disk that the weights of the end of training take, about."""
        return sum(pack.bytes for pack in self.packs.values())

    @property
    def bytes_of_dense_checkpoints(self) -> int:
        """Disk that the dense checkpoints take, about."""
        return sum(pack.bytes * pack.dense_checkpoints for pack in self.packs.values())

    @property
    def keeps_dense_checkpoints(self) -> bool:
        """Whether they are within the budget; else they go when they have been measured."""
        return self.bytes_of_dense_checkpoints <= BUDGET_BYTES
