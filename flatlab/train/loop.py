"""The plain loop: one network after the other, by the framework's own means.

It is the reference for every other mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from tqdm import tqdm

from flatlab.splits import Split
from flatlab.train.minibatches import steps
from flatlab.train.objective import loss


class Observer(Protocol):
    """Sees the networks at some iterations."""

    iterations: list[int]

    def observe(self, forward: Any) -> None: ...


def train(
    models: list[nn.Sequential],
    split: Split,
    training: Mapping[str, Any],
    seeds: list[int],
    curves: Observer,
) -> None:
    """Train the models in place, all of them one step after the other."""
    rates = {name: training[name] for name in ("lr", "momentum", "weight_decay")}
    optimizers = [torch.optim.SGD(model.parameters(), **rates) for model in models]

    def forward(inputs: Tensor) -> Tensor:
        return torch.stack([model(inputs) for model in models])

    batches = steps(seeds, len(split.labels), training, split.labels.device)
    for iteration, batch in enumerate(tqdm(batches, total=training["iterations"], mininterval=5)):
        if iteration in curves.iterations:
            curves.observe(forward)
        for model, update, index in zip(models, optimizers, batch, strict=True):
            update.zero_grad()
            loss(model(split.inputs[index]), split.targets[index], training["loss"]).backward()
            update.step()
    curves.observe(forward)
