"""The order of the data: the same for a seed in every mode, on every device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

DATA_STREAM = 1
"""Keeps the order of the data apart from other uses of a run's seed."""


def epochs(seeds: list[int], samples: int, training: Mapping[str, Any]) -> Iterator[Tensor]:
    """Sample indices, epoch by epoch: (steps, runs, batch); without end.

    reshuffled: each epoch is a permutation, cut into batches; an incomplete last one is dropped.
    replacement: independent draws; an "epoch" is then as many batches as fit into the data.
    """
    size = training["batch_size"]
    steps = samples // size
    generators = [np.random.default_rng([seed, DATA_STREAM]) for seed in seeds]

    def epoch(generator: np.random.Generator) -> np.ndarray:
        if training["minibatches"] == "replacement":
            return generator.integers(samples, size=(steps, size))
        return generator.permutation(samples)[: steps * size].reshape(steps, size)

    while True:
        yield torch.from_numpy(np.stack([epoch(g) for g in generators], axis=1))


def steps(
    seeds: list[int], samples: int, training: Mapping[str, Any], device: torch.device
) -> Iterator[Tensor]:
    """Sample indices of each iteration: (runs, batch), `training["iterations"]` times."""
    left = training["iterations"]
    for epoch in epochs(seeds, samples, training):
        yield from epoch[:left].to(device)
        left -= len(epoch)
        if left <= 0:
            return
