"""VGG networks: 3 x 3 convolutions with max pooling, then linear layers; biases, no dropout.

By default VGG-11 for images of 32 x 32 pixels, eight convolutions and 512-512-512-N, as the papers
use it on CIFAR-10. What the chen papers' public code calls VGG-11 has five narrow convolutions:
widths [16, pool, 16, pool, 32, pool, 64, pool, 64, pool], hidden [128], padding 2.
"""

from itertools import pairwise
from math import prod
from typing import Annotated, Literal

from msgspec import Meta
from torch import nn

from flatlab.networks import ACTIVATIONS, classifier
from flatlab.plan.options import Activation, Architecture

MODE = "graphs"


class Options(Architecture, frozen=True):
    activation: Activation
    widths: Annotated[
        tuple[Annotated[int, Meta(ge=1)] | Literal["pool"], ...],
        Meta(description="channels of the convolutions, and pool for 2 x 2 max pooling"),
    ] = (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool")
    hidden: Annotated[
        tuple[Annotated[int, Meta(ge=1)], ...],
        Meta(description="units of the linear layers but the last"),
    ] = (512, 512)
    padding: Annotated[int, Meta(ge=0, description="zero padding of the convolutions")] = 1
    normalization: Annotated[
        Literal["none", "batch"], Meta(description="after each convolution")
    ] = "none"

    def layers(self) -> list[str]:
        norm = ["batch-norm"] if self.normalization == "batch" else []
        pool = ["max-pool"] if "pool" in self.widths else []
        return ["convolution", *norm, *pool, "flatten", "linear", self.activation]

    def parameters(self, inputs: tuple[int, ...], outputs: int) -> int:
        before, *pixels = inputs
        count = 0
        for width in self.widths:
            if isinstance(width, str):
                pixels = [size // 2 for size in pixels]
                continue
            count += width * (9 * before + (3 if self.normalization == "batch" else 1))
            pixels = [size + 2 * self.padding - 2 for size in pixels]
            before = width
        sizes = [before * prod(pixels), *self.hidden, outputs]
        return count + sum((before + 1) * after for before, after in pairwise(sizes))


def build(inputs: tuple[int, ...], outputs: int, options: Options) -> nn.Sequential:
    """Layers conv1, (norm1,) act1, ..., pool1, ..., fc1, fcact1, ...

    inputs: (channels, height, width).
    """
    activation = ACTIVATIONS[options.activation]
    layers: dict[str, nn.Module] = {}
    channels, convolutions, pools = inputs[0], 0, 0
    for width in options.widths:
        if isinstance(width, str):
            pools += 1
            layers[f"pool{pools}"] = nn.MaxPool2d(2)
            continue
        convolutions += 1
        layers[f"conv{convolutions}"] = nn.Conv2d(channels, width, 3, padding=options.padding)
        if options.normalization == "batch":
            layers[f"norm{convolutions}"] = nn.BatchNorm2d(width)
        layers[f"act{convolutions}"] = activation()
        channels = width
    return classifier(layers, inputs, options.hidden, outputs, activation)
