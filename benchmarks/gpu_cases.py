"""What `benchmarks.gpu` trains: the networks of chen2026's grids, and variants of how."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch

from benchmarks.engine import IMAGE, NETWORKS, Settings
from flatlab.lab.train import cuda_graphs, stacking

Within = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Case:
    """Networks that are trained side by side in some packs, as by a grid at scale `paper`.

    runs: networks of a pack.  reach: microseconds per step of a network to be reached on an H200.
    """

    network: Settings
    shape: tuple[int, ...]
    outputs: int
    packs: int
    runs: int
    mode: str
    reach: float

    @property
    def count(self) -> int:
        return self.packs * self.runs


CASES = {
    "perceptrons": Case(NETWORKS["mlp"], (1, 28, 28), 10, 1, 100, "batched", 10),
    "LeNet5": Case(NETWORKS["lenet5"], IMAGE, 2, 5, 20, "graphs", 10),
    "vgg-narrow": Case(NETWORKS["vgg, narrow"], IMAGE, 2, 5, 20, "batched", 25),
    "VGG-11": Case(NETWORKS["vgg"], IMAGE, 2, 1, 5, "graphs", 360),
}
GEOMETRY = {"float32": 10e3, "float64": 150e3}
"""Microseconds of `geometry` of VGG-11 to be reached on an H200, by the type of derivatives."""


@dataclass(frozen=True)
class Size:
    """samples: of the training set.  eager: steps of the baseline.  square, copied: numbers in a
    row, and in all, of what is multiplied and copied.  measured: samples of `geometry`.
    """

    samples: int = 10_000
    eager: int = 50
    repeats: int = 3
    square: int = 8192
    copied: int = 2**30
    measured: int = 100
    small: bool = False


FAKE = Size(60, 2, 1, 64, 2**12, 2, small=True)
SMALL: dict[str, dict[str, Any]] = {
    "mlp": {"width": 8},
    "lenet5": {"kernel": 3, "padding": 1},
    "vgg": {"widths": (4, "pool", 4, "pool"), "hidden": (8,), "padding": 1},
}


def small(case: Case) -> Case:
    """Two tiny networks of the same kind, on images of 8 x 8 pixels."""
    options = {**case.network["options"], **SMALL[case.network["name"]]}
    network = {**case.network, "options": options}
    return replace(case, packs=1, runs=2, network=network, shape=(case.shape[0], 8, 8))


@dataclass(frozen=True)
class Variant:
    """What differs from a case: keys of `training`, packs and their networks, or the engine."""

    name: str
    what: str
    precision: str = "float32"
    mode: str | None = None
    packs: tuple[int, int] | None = None
    deterministic: bool = True
    within: Within = contextlib.nullcontext

    def of(self, case: Case) -> Case:
        packs, runs = self.packs or (case.packs, case.runs)
        return replace(case, mode=self.mode or case.mode, packs=packs, runs=runs)


@contextlib.contextmanager
def _streams(count: int) -> Iterator[None]:
    with mock.patch.object(cuda_graphs, "STREAMS", count):
        cuda_graphs._streams.cache_clear()
        yield
    cuda_graphs._streams.cache_clear()


def _layout(wanted: torch.memory_format) -> contextlib.AbstractContextManager[None]:
    return mock.patch.object(stacking, "image_layout", return_value=wanted)


def variants() -> list[Variant]:
    many: Within = functools.partial(_streams, 32)
    single: Within = functools.partial(mock.patch.object, cuda_graphs, "BURST", 1)
    last: Within = functools.partial(_layout, torch.channels_last)
    plain: Within = functools.partial(_layout, torch.contiguous_format)
    convolutional = ("LeNet5", "vgg-narrow", "VGG-11")
    return [
        Variant("LeNet5", "mode batched", mode="batched"),
        Variant("vgg-narrow", "mode graphs", mode="graphs"),
        Variant("LeNet5", "32 streams", within=many),
        Variant("vgg-narrow", "mode graphs, 32 streams", mode="graphs", within=many),
        *(Variant(name, "graphs of 1 step", within=single) for name in CASES),
        *(Variant(name, "channels last", within=last) for name in convolutional),
        *(Variant(name, "contiguous", "tf32", within=plain) for name in convolutional),
        *(Variant(name, "any algorithm", deterministic=False) for name in CASES),
        Variant("perceptrons", "5 packs of 20", packs=(5, 20)),
        Variant("vgg-narrow", "1 pack of 100", packs=(1, 100)),
    ]
