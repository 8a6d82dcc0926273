"""The order of the data: the same for a seed in every mode, on every device.

Random changes of the inputs, such as augmentation and mixup, belong here: they are drawn with the
order, from the run's seed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

DATA_STREAM = 1
"""Keeps the order of the data apart from other uses of a run's seed."""

CHUNK_STEPS = 100
"""At most so many steps are loaded at a time; then it is seen whether a network has diverged."""

CHUNK_INDICES = 2**23
"""At most so many sample indices are loaded at a time."""


def steps_per_epoch(samples: int, training: Mapping[str, Any]) -> int:
    """Steps in which the data are seen once."""
    return 1 if training["minibatches"] == "full" else samples // training["batch_size"]


def epochs(seeds: list[int], samples: int, training: Mapping[str, Any]) -> Iterator[np.ndarray]:
    """Sample indices, epoch by epoch: (steps, runs, batch); without end.

    reshuffled: each epoch is a permutation, cut into batches; an incomplete last one is dropped.
    replacement: independent draws; an "epoch" is then as many batches as fit into the data.
    torch-replacement: the same, step by step from torch's generator, seeded by the run.
    full: all samples in their order in each step.
    """
    if training["minibatches"] == "full":
        shape = 1, len(seeds), samples
        yield from itertools.repeat(np.broadcast_to(np.arange(samples), shape))
    steps, size = steps_per_epoch(samples, training), training["batch_size"]
    draws = [_epochs_of_run(seed, samples, steps, size, training["minibatches"]) for seed in seeds]
    while True:
        yield np.stack([next(draw) for draw in draws], axis=1)


def _epochs_of_run(
    seed: int, samples: int, steps: int, size: int, how: str
) -> Iterator[np.ndarray]:
    """The epochs of one run: (steps, batch); without end."""
    if how == "torch-replacement":
        drawing = torch.Generator().manual_seed(seed)
        while True:
            parts = [torch.randint(samples, (size,), generator=drawing) for _ in range(steps)]
            yield torch.stack(parts).numpy()
    generator = np.random.default_rng([seed, DATA_STREAM])
    while True:
        if how == "replacement":
            yield generator.integers(samples, size=(steps, size))
        else:
            yield generator.permutation(samples)[: steps * size].reshape(steps, size)


class Order:
    """The sample indices of a pack, step by step, from any step on."""

    def __init__(
        self, seeds: list[int], samples: int, training: Mapping[str, Any], start: int = 0
    ) -> None:
        self._epochs = epochs(seeds, samples, training)
        self._left = next(self._epochs)
        whole = steps_per_epoch(samples, training)
        for _ in range(start // whole):  # drawn again, so that nothing needs to be saved
            self._left = next(self._epochs)
        self._left = self._left[start % whole :]

    def take(self, steps: int) -> np.ndarray:
        """The indices of the next steps: (steps, runs, batch)."""
        parts = [self._left]
        while sum(map(len, parts)) < steps:
            parts.append(next(self._epochs))
        whole = np.concatenate(parts)
        taken, self._left = whole[:steps], whole[steps:]
        return taken


def chunk_steps(runs: int, samples: int, training: Mapping[str, Any]) -> int:
    """How many steps are loaded at a time."""
    batch = samples if training["minibatches"] == "full" else training["batch_size"]
    return max(1, min(CHUNK_STEPS, CHUNK_INDICES // (runs * batch)))
