"""The networks of a pack during training, in one of three modes.

batched: all of them as one stack, a few kernels for each layer; on a CPU convolutional networks
    in several (`widest_stack`).
graphs: each of them as a stack of its own; on a GPU they run side by side on several streams.
loop: one after the other, by the framework's own modules, autograd and optimizer: the reference.
A mode is constructed from the models, the samples and the settings of a pack, and has the methods
of `flatlab.lab.train.reference.Loop`, where `run` is the number of a network, from 0.
"""

import math
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.data._tensors import Split
from flatlab.lab.train.minibatch_transforms import transforms_of
from flatlab.lab.train.minibatches import Chunk
from flatlab.lab.train.reference import Loop
from flatlab.lab.train.stack import Stack
from flatlab.lab.train.stack_group import StackGroup
from flatlab.networks._build import options_of

MOST_NETWORKS, MOST_IMAGES = 6, 192
"""The most convolutional networks in a stack on a CPU, and the most images in one of its steps."""


def widest_stack(batch_size: int) -> int:
    """How many convolutional networks a stack has at most on a CPU.

    Where channels are few, kernels for several groups are faster; the images of many networks
    leave the caches.
    """
    return min(MOST_NETWORKS, max(2, MOST_IMAGES // batch_size))


class Stacks:
    """Networks in stacks: all of them in one or a few, or each in its own."""

    def __init__(self, models: list[nn.Module], split: Split, settings: Mapping[str, Any]) -> None:
        rules = options_of(settings["network"]).layers()
        stacks = 1 if settings["training"]["mode"] == "batched" else len(models)
        if "convolution" in rules and split.device.type == "cpu":
            at_most = widest_stack(settings["training"]["batch_size"])
            stacks = max(stacks, math.ceil(len(models) / at_most))
        self.runs, self.width = len(models), math.ceil(len(models) / stacks)
        make = partial(
            Stack,
            split=split,
            training=settings["training"],
            rules=rules,
            transforms=transforms_of(settings, split),
        )
        self.groups = [
            StackGroup(models[start : start + self.width], make)
            for start in range(0, self.runs, self.width)
        ]

    def load(self, chunk: Chunk) -> None:
        self.moving = self.groups
        for number, group in enumerate(self.groups):
            runs = slice(number * self.width, (number + 1) * self.width)
            group.load({name: tensor[:, runs] for name, tensor in chunk.items()})

    def rewind(self, runs: Collection[int]) -> None:
        numbers = sorted({run // self.width for run in runs})
        self.moving = [self.groups[number] for number in numbers]
        for group in self.moving:
            group.rewind()

    def step(self) -> None:
        for group in self.moving:
            group.step()

    def freeze(self, run: int) -> None:
        self.groups[run // self.width].freeze(run % self.width)

    def forward(self, inputs: Tensor) -> Tensor:
        sets = inputs.expand(self.runs, *inputs.shape[1:]).split(self.width)
        pairs = zip(self.groups, sets, strict=True)
        return torch.cat([group.full_stack().forward(x) for group, x in pairs])

    def read(self, run: int) -> dict[str, Tensor]:
        return self.groups[run // self.width].full_stack().read(run % self.width)

    def write(self, run: int, state: Mapping[str, Tensor]) -> None:
        self.groups[run // self.width].full_stack().write(run % self.width, state)

    def epoch_losses(self) -> Tensor:
        return torch.cat([group.full_stack().epoch_losses() for group in self.groups])

    def finite(self) -> list[bool]:
        return [good for group in self.groups for good in group.full_stack().finite()]


Networks = Loop | Stacks
MODES: dict[str, type[Networks]] = {"batched": Stacks, "graphs": Stacks, "loop": Loop}
