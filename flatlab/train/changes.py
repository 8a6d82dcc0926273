"""Random changes of minibatches: augmentations of the data, then regularizers such as mixup.

The file of either has a class

    Change(options, split)             its options, and the training set
    draw(generator, steps, batch)      the random numbers of some steps, (steps, ...) each, by name
    apply(inputs, targets, **drawn)    the changed minibatches of some runs

which computes with inputs (runs, batch, ...), targets (runs, batch, outputs) and the numbers of one
step, (runs, ...) each; it waits for nothing on the device, so that the step can be recorded.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from flatlab.plan.registry import imported, joined
from flatlab.splits import Split
from flatlab.train.conditions import TrainError
from flatlab.train.regularizers import regularizers_of

BLOCK = 100
"""Steps whose random numbers have a generator of their own, so that they can be entered there."""

Changes = Mapping[str, Any]
"""Instances of `Change` by the key of their files, in the order in which they are applied."""


def changes_of(settings: Mapping[str, Any], split: Split) -> Changes:
    """What changes the minibatches of a pack; raises `TrainError` if there is no minibatch."""
    training, data = settings["training"], settings["data"]
    options = data.get("options", {})
    keys = joined(data.get("augmentation", "none"))
    files = {key: imported("train/augmentations", key) for key in keys}
    found = {
        key: file.Change(options, split) for key, file in files.items() if options[file.STRENGTH]
    }
    found |= {
        key: file.Change(training, split)
        for key, file in regularizers_of(training).items()
        if hasattr(file, "Change")
    }
    if found and training["minibatches"] == "full":
        key = next(iter(found))
        raise TrainError(f"training.minibatches: full shows all samples as they are, without {key}")
    return found


def draws(
    changes: Changes, seeds: Sequence[int], batch: int, start: int
) -> Iterator[dict[str, np.ndarray]]:
    """The random numbers of each step, (runs, ...) each, from step `start` on; endless.

    Each change of each run has a stream of its own: one generator for each `BLOCK` steps.
    """

    def block(number: int) -> dict[str, np.ndarray]:
        found = {}
        for key, change in changes.items():
            generators = (np.random.default_rng([seed, number, *key.encode()]) for seed in seeds)
            runs = [change.draw(generator, BLOCK, batch) for generator in generators]
            for name in runs[0]:
                found[f"{key}.{name}"] = np.stack([run[name] for run in runs], axis=1)
        return found

    for number in itertools.count(start // BLOCK):
        drawn = block(number)
        for step in range(start % BLOCK if number == start // BLOCK else 0, BLOCK):
            yield {name: numbers[step] for name, numbers in drawn.items()}


def changed(
    changes: Changes, inputs: Tensor, targets: Tensor, now: Mapping[str, Tensor]
) -> tuple[Tensor, Tensor]:
    """The minibatches (runs, batch, ...) of one step.  now: what it uses of a chunk."""
    for key, change in changes.items():
        mine = {name: each for name, each in now.items() if name.startswith(f"{key}.")}
        drawn = {name.partition(".")[2]: each for name, each in mine.items()}
        inputs, targets = change.apply(inputs, targets, **drawn)
    return inputs, targets
