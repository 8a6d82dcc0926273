"""Random transforms of minibatches: augmentations of the data, then regularizers such as mixup.

The file of either has a class

    Transform(options, split)          its options, and the training set
    draw(generator, steps, batch)      the random numbers of some steps, (steps, ...) each, by name
    apply(inputs, targets, **drawn)    the transformed minibatches of some runs

which computes with inputs (runs, batch, ...), targets (runs, batch, outputs) and the numbers of one
step, (runs, ...) each; it waits for nothing on the device, so that the step can be recorded.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from flatlab.core.registry import imported, joined
from flatlab.data._tensors import Split
from flatlab.lab.train.errors import TrainError
from flatlab.lab.train.regularizers._rules import regularizers_of

BLOCK = 100
"""Steps whose random numbers have a generator of their own, so that they can be entered there."""

Transforms = Mapping[str, Any]
"""Instances of `Transform` by the key of their files, in the order in which they are applied."""


def transforms_of(settings: Mapping[str, Any], split: Split) -> Transforms:
    """The transforms of a pack's minibatches; raises `TrainError` if there are no minibatches.

    settings: those of the pack, with `training` and `data`.
    split: its training set.
    """
    training, data = settings["training"], settings["data"]
    options = data.get("options", {})
    keys = joined(data.get("augmentation", "none"))
    augmentations = {key: imported("train/augmentations", key) for key in keys}
    transforms = {
        key: rule.Transform(options, split)
        for key, rule in augmentations.items()
        if options[rule.STRENGTH]
    }
    transforms |= {
        key: rule.Transform(training, split)
        for key, rule in regularizers_of(training).items()
        if hasattr(rule, "Transform")
    }
    if transforms and training["minibatches"] == "full":
        key = next(iter(transforms))
        raise TrainError(f"training.minibatches: full shows all samples as they are, without {key}")
    return transforms


def random_numbers(
    transforms: Transforms, seeds: Sequence[int], batch: int, start: int
) -> Iterator[dict[str, np.ndarray]]:
    """The random numbers of each step, (runs, ...) each by name, from step `start` on; endless.

    Each transform of each run has a stream of its own: one generator for each `BLOCK` steps.
    """

    def block(number: int) -> dict[str, np.ndarray]:
        numbers = {}
        for key, rule in transforms.items():
            generators = (np.random.default_rng([seed, number, *key.encode()]) for seed in seeds)
            runs = [rule.draw(generator, BLOCK, batch) for generator in generators]
            for name in runs[0]:
                numbers[f"{key}.{name}"] = np.stack([run[name] for run in runs], axis=1)
        return numbers

    for number in itertools.count(start // BLOCK):
        drawn = block(number)
        for step in range(start % BLOCK if number == start // BLOCK else 0, BLOCK):
            yield {name: array[step] for name, array in drawn.items()}


def transform(
    transforms: Transforms, inputs: Tensor, targets: Tensor, step: Mapping[str, Tensor]
) -> tuple[Tensor, Tensor]:
    """The transformed minibatches of one step.

    inputs: (runs, batch, ...).
    targets: (runs, batch, outputs).
    step: what the step uses of a chunk, (runs, ...) each.
    """
    for key, rule in transforms.items():
        prefix = f"{key}."
        drawn = {n.removeprefix(prefix): t for n, t in step.items() if n.startswith(prefix)}
        inputs, targets = rule.apply(inputs, targets, **drawn)
    return inputs, targets
