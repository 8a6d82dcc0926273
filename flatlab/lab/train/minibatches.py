"""The order of the data: the same for a seed in every mode and on every device."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

Chunk = dict[str, Tensor]
"""What some steps use, (steps, runs, ...) each.

`order`: the indices of the samples; `rates`; and the random numbers of
`flatlab.lab.train.minibatch_transforms`.
"""

DATA_STREAM = 1
"""Separates the order of the data from other uses of a run's seed."""

CHUNK_STEPS = {"cpu": 100, "cuda": 500}
"""The most steps that are loaded at a time; divergence is checked after each chunk, for which a GPU
has to wait."""

CHUNK_INDICES = 2**23
"""The most sample indices that are loaded at a time."""


def steps_per_epoch(samples: int, training: Mapping[str, Any]) -> int:
    """The number of steps in which the data are seen once."""
    return 1 if training["minibatches"] == "full" else samples // training["batch_size"]


def minibatches(
    seeds: list[int], samples: int, training: Mapping[str, Any], start: int = 0
) -> Iterator[np.ndarray]:
    """Sample indices (runs, batch) of each step, from step `start` on; endless.

    The steps before `start` are drawn again, so that nothing needs to be saved.

    reshuffled: each epoch is a permutation cut into batches; an incomplete last one is dropped.
    replacement: independent draws; an "epoch" then has as many batches as fit into the data.
    torch-replacement: the same, step by step from torch's generator, seeded by the run.
    full: all samples, in their order, in each step.
    """
    if training["minibatches"] == "full":
        return itertools.repeat(np.broadcast_to(np.arange(samples), (len(seeds), samples)))
    steps = steps_per_epoch(samples, training)
    size, scheme = training["batch_size"], training["minibatches"]
    epochs = zip(*(_epochs(seed, samples, steps, size, scheme) for seed in seeds), strict=True)
    batches = (batch for epoch in epochs for batch in np.stack(epoch, axis=1))
    return itertools.islice(batches, start, None)


def _epochs(seed: int, samples: int, steps: int, size: int, scheme: str) -> Iterator[np.ndarray]:
    """The epochs of one run, (steps, batch) each; endless."""
    from_torch = torch.Generator().manual_seed(seed)
    generator = np.random.default_rng([seed, DATA_STREAM])
    while True:
        if scheme == "torch-replacement":
            draws = (torch.randint(samples, (size,), generator=from_torch) for _ in range(steps))
            yield torch.stack([*draws]).numpy()
        elif scheme == "replacement":
            yield generator.integers(samples, size=(steps, size))
        else:
            yield generator.permutation(samples)[: steps * size].reshape(steps, size)


def chunk_steps(runs: int, samples: int, training: Mapping[str, Any], device: str) -> int:
    """How many steps are loaded at a time.  device: its type."""
    batch = samples if training["minibatches"] == "full" else training["batch_size"]
    return max(1, min(CHUNK_STEPS[device], CHUNK_INDICES // (runs * batch)))


def each_step(chunk: Chunk, like: Tensor, numbers: bool) -> Iterator[dict[str, Any]]:
    """What each step of a chunk uses, on the device and in the precision of `like`.

    chunk: tensors (steps, runs, ...).
    numbers: give the rates as numbers instead.
    """
    tensors: dict[str, Any] = {
        name: t.to(like) if t.is_floating_point() else t.to(like.device)
        for name, t in chunk.items()
    }
    if numbers:
        tensors["rates"] = chunk["rates"].tolist()
    return (dict(zip(tensors, step, strict=True)) for step in zip(*tensors.values(), strict=True))
