"""Loss and accuracy of the networks of a pack on their whole training set."""

from collections.abc import Generator

import numpy as np
import torch

from flatlab.data._tensors import EVALUATED, Split
from flatlab.lab.train.modes import Networks
from flatlab.losses._base import Loss


def evaluate(networks: Networks, loss: Loss, split: Split) -> Generator[None, None, np.ndarray]:
    """Loss and accuracy (%) on a training set: (2, run). Yields after each part of it.

    networks: those of a pack.
    loss: that of their training.
    split: the training set; without labels the accuracy is NaN.
    """
    losses, correct = [], []
    smallest, largest = EVALUATED["cpu"], EVALUATED[split.device.type]
    size = min(largest, max(smallest, 4 * largest // networks.width))  # what all of them hold
    for start in range(0, len(split), size):
        rows = slice(start, start + size)
        outputs = networks.forward(split.inputs[rows][None])
        losses.append(loss.values(outputs, split.targets[rows]))
        if split.labels is not None:
            correct.append(outputs.argmax(-1) == split.labels[rows])
        yield
    values = loss.of_batch(torch.cat(losses, 1)).cpu().numpy()
    if split.labels is None:
        return np.stack([values, np.full(len(values), np.nan)])
    return np.stack([values, (100 * torch.cat(correct, 1).double().mean(1)).cpu().numpy()])
