"""ResNets for small images: a 3 x 3 stem, stages of two blocks, and a linear layer.

As in He et al. (2016), "Deep residual learning", in the form used on CIFAR: no pooling behind the
stem, projections where the shape changes, global average pooling. By default ResNet-18.
"""

from collections import OrderedDict
from typing import Annotated, Literal

from msgspec import Meta
from torch import nn

from flatlab.networks import ACTIVATIONS, Residual, ZeroConv2d
from flatlab.plan.options import Activation, Architecture
from flatlab.plan.schema import means

MODE = "graphs"


class Options(Architecture, frozen=True):
    activation: Activation
    widths: Annotated[
        tuple[Annotated[int, Meta(ge=1)], ...], means("channels of the stages", min_length=1)
    ] = (64, 128, 256, 512)
    normalization: Annotated[
        Literal["none", "batch"],
        means("after each convolution; none: blocks start as their shortcuts"),
    ] = "batch"

    def layers(self) -> list[str]:
        norm = ["batch-norm"] if self.normalization == "batch" else []
        ends = ["residual", "global-average-pool", "flatten", "linear", self.activation]
        return ["convolution", *norm, *ends]

    def parameters(self, inputs: tuple[int, ...], outputs: int) -> int:
        per_channel = 2 if self.normalization == "batch" else 1
        before = self.widths[0]
        count = before * (9 * inputs[0] + per_channel)
        for stage, width in enumerate(self.widths):
            projection = before + per_channel if stage else 0
            count += width * (9 * (before + 3 * width) + 4 * per_channel + projection)
            before = width
        return count + (before + 1) * outputs


def build(inputs: tuple[int, ...], outputs: int, options: Options) -> nn.Sequential:
    """Layers stem, stem_act, block1, act1, ..., pool, flatten, fc.

    inputs: (channels, height, width). Without normalization convolutions have biases, and the last
    one of each block starts at zero, so that the network starts as its shortcuts.
    """
    activation, norm = ACTIVATIONS[options.activation], options.normalization == "batch"
    channels = options.widths[0]
    stem = _convolution(inputs[0], channels, 3, 1, norm)
    layers: OrderedDict[str, nn.Module] = OrderedDict(stem=stem, stem_act=activation())
    number = 0
    for stage, width in enumerate(options.widths):
        for first in (True, False):
            number += 1
            stride = 2 if first and stage else 1
            layers[f"block{number}"] = _block(channels, width, stride, activation, norm)
            layers[f"act{number}"] = activation()
            channels = width
    layers["pool"] = nn.AdaptiveAvgPool2d(1)
    layers["flatten"] = nn.Flatten()
    layers["fc"] = nn.Linear(channels, outputs)
    return nn.Sequential(layers)


def _block(
    channels: int, width: int, stride: int, activation: type[nn.Module], norm: bool
) -> Residual:
    body = nn.Sequential(
        *_convolution(channels, width, 3, stride, norm),
        activation(),
        *_convolution(width, width, 3, 1, norm, last=True),
    )
    changes = stride != 1 or channels != width
    shortcut = _convolution(channels, width, 1, stride, norm) if changes else nn.Sequential()
    return Residual(body, shortcut)


def _convolution(
    channels: int, width: int, size: int, stride: int, norm: bool, last: bool = False
) -> nn.Sequential:
    kind = ZeroConv2d if last and not norm else nn.Conv2d
    convolution = kind(channels, width, size, stride, size // 2, bias=not norm)
    return nn.Sequential(convolution, *([nn.BatchNorm2d(width)] if norm else []))
