"""LeNet-5: convolutions of 6 and 16 channels with 2 x 2 max pooling, then 120-84-N.

The default is for images of 32 x 32 pixels; a kernel of 3 with padding 1 suits 8 x 8 pixels.
"""

from itertools import pairwise
from math import prod
from typing import Annotated

from msgspec import Meta
from torch import nn

from flatlab.networks import ACTIVATIONS, classifier
from flatlab.plan.options import Activation, Architecture

MODE = "graphs"
CHANNELS = (6, 16)
HIDDEN = (120, 84)


class Options(Architecture, frozen=True):
    activation: Activation
    kernel: Annotated[int, Meta(ge=1, description="size of the convolutions' kernels")] = 5
    padding: Annotated[int, Meta(ge=0, description="zero padding of the convolutions")] = 0

    def layers(self) -> list[str]:
        return ["convolution", "max-pool", "flatten", "linear", self.activation]

    def parameters(self, inputs: tuple[int, ...], outputs: int) -> int:
        before, *pixels = inputs
        count = 0
        for channels in CHANNELS:
            count += channels * (self.kernel**2 * before + 1)
            pixels = [(size + 2 * self.padding - self.kernel + 1) // 2 for size in pixels]
            before = channels
        sizes = [before * prod(pixels), *HIDDEN, outputs]
        return count + sum((before + 1) * after for before, after in pairwise(sizes))


def build(inputs: tuple[int, ...], outputs: int, options: Options) -> nn.Sequential:
    """Layers conv1, act1, pool1, conv2, ..., fc1, fcact1, fc2, fcact2, fc3."""
    activation = ACTIVATIONS[options.activation]
    layers: dict[str, nn.Module] = {}
    channels = inputs[0], *CHANNELS
    for number, size in enumerate(pairwise(channels), start=1):
        layers[f"conv{number}"] = nn.Conv2d(*size, options.kernel, padding=options.padding)
        layers[f"act{number}"] = activation()
        layers[f"pool{number}"] = nn.MaxPool2d(2)
    return classifier(layers, inputs, HIDDEN, outputs, activation)
