"""Small networks trained here: a plain loop, one network at a time, the same bits every time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.data import DataError
from flatlab.splits import EVALUATED, Split


def resized(inputs: Tensor, size: int) -> Tensor:
    """Images (samples, channels, height, width) with so many pixels, each the nearest there was."""
    if inputs.shape[-1] == size:
        return inputs
    return nn.functional.interpolate(inputs, size=(size, size), mode="nearest")


def labels_of(split: Split) -> Tensor:
    """The classes of its samples; `DataError` where it has none."""
    if split.labels is None:
        raise DataError("networks of a zoo tell classes apart; these data have none")
    return split.labels


def spread_weights(model: nn.Module, seed: int) -> None:
    """Give linear layers new weights, uniform with the deviation of Glorot and Bengio (2010).

    timm draws many of them with a deviation of 0.02, which suits widths of some hundreds: networks
    as narrow as these hardly learn from there.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for module in model.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)


def train(model: nn.Module, split: Split, settings: Mapping[str, Any], seed: int) -> nn.Module:
    """Adam on cross-entropy with a learning rate that falls to zero along a cosine.

    split: inputs as the network wants them.  settings: `steps`, `batch_size`, `lr`.
    seed: of the minibatches, which are drawn with replacement, and of what the network draws.
    The network is left in evaluation mode.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=settings["lr"], foreach=False)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings["steps"])
    generator = torch.Generator().manual_seed(seed)
    labels, batch = labels_of(split), (settings["batch_size"],)
    model.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for _ in range(settings["steps"]):
            chosen = torch.randint(len(labels), batch, generator=generator)
            loss = nn.functional.cross_entropy(model(split.inputs[chosen]), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.eval()


@torch.no_grad()
def accuracy(model: nn.Module, split: Split) -> float:
    """Of all samples, in %."""
    outputs = torch.cat([model(inputs) for inputs in split.inputs.split(EVALUATED)])
    return 100 * outputs.argmax(1).eq(labels_of(split)).double().mean().item()
