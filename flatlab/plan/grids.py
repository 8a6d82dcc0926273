"""Grids, settings, runs and packs: what is trained."""

from __future__ import annotations

from typing import Any

from flatlab.plan.registry import keys_of
from flatlab.plan.schema import Data, Measure, Network, Strict, Training


class Pack(Strict, frozen=True):
    """The runs that are trained together: one setting and one fixed block of seeds.

    hyperparameters: the training keys in which the settings of the grid differ.
    """

    key: str
    setting: str
    hyperparameters: dict[str, Any]
    training: Training
    seeds: tuple[int, ...]

    @property
    def runs(self) -> list[str]:
        """The key of each run, in the order of the seeds."""
        return [f"{self.setting}-s{seed}" for seed in self.seeds]


class Grid(Strict, frozen=True):
    """A set of networks to train, at one scale."""

    key: str
    title: str
    scale: str
    data: Data
    network: Network
    measure: Measure
    packs: dict[str, Pack]

    @property
    def families(self) -> list[str]:
        """The families of quantities that are measured on this grid."""
        listed = self.measure.families
        return keys_of("metrics") if isinstance(listed, str) else listed

    @property
    def runs(self) -> list[str]:
        """The key of each run, pack by pack."""
        return [run for pack in self.packs.values() for run in pack.runs]

    @property
    def outputs(self) -> int | None:
        """Number of outputs, or None where it is the data set's number of classes."""
        if isinstance(self.network.outputs, int):
            return self.network.outputs
        return None if isinstance(self.data.classes, str) else len(self.data.classes)
