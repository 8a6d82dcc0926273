"""ResNets for small images: a 3 x 3 stem, stages of two blocks, and a linear layer.

As in He et al. (2016), "Deep residual learning", in the form used on CIFAR: no pooling behind the
stem, projections where the shape changes, global average pooling. By default ResNet-18.

With `order: pre` the preactivation ResNet of He et al. (2016), "Identity mappings", as in the
public code of andriushchenko2023: a projection sees the normalized and activated signal.
"""

from collections import OrderedDict
from typing import Annotated, Literal

from msgspec import Meta
from torch import nn

from flatlab.core.options import Activation, Architecture
from flatlab.core.schema import means
from flatlab.networks._modules import ACTIVATIONS, Residual, ZeroConv2d

MODE = "graphs"


class Options(Architecture, frozen=True):
    activation: Activation
    widths: Annotated[
        tuple[Annotated[int, Meta(ge=1)], ...], means("channels of the stages", min_length=1)
    ] = (64, 128, 256, 512)
    normalization: Annotated[
        Literal["none", "batch"],
        means("of each convolution; none: blocks start as their shortcuts"),
    ] = "batch"
    order: Annotated[
        Literal["post", "pre"],
        means("normalization and activation behind each convolution, or in front of it"),
    ] = "post"

    def layers(self) -> list[str]:
        norm = ["batch-norm"] if self.normalization == "batch" else []
        ends = ["residual", "global-average-pool", "flatten", "linear", self.activation]
        return ["convolution", *norm, *ends]

    def parameters(self, inputs: tuple[int, ...], outputs: int) -> int:
        before = self.widths[0]
        weights, made, seen = 9 * inputs[0] * before, before, 0  # channels made, and seen by blocks
        for stage, width in enumerate(self.widths):
            projection = 1 if stage else 0
            weights += width * (9 * (before + 3 * width) + projection * before)
            made += width * (4 + projection)
            seen += before + 3 * width
            before = width
        beside = {"post": 2 * made, "pre": 2 * (seen + before)}[self.order]
        return weights + (made if self.normalization == "none" else beside) + (before + 1) * outputs

    @property
    def narrow(self) -> bool:
        return max(self.widths) <= 32


def build(inputs: tuple[int, ...], outputs: int, options: Options) -> nn.Sequential:
    """Layers stem, stem_act, block1, act1, ..., pool, flatten, fc; or stem, block1, ..., end, pool.

    inputs: (channels, height, width). Without normalization convolutions have biases, and the last
    one of each block starts at zero, so that the network starts as its shortcuts.
    """
    post, activation = options.order == "post", ACTIVATIONS[options.activation]
    channels = options.widths[0]
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    stem = _convolution(inputs[0], channels, 3, 1, options)
    layers["stem"] = nn.Sequential(stem, *(_norm(channels, options) if post else []))
    if post:
        layers["stem_act"] = activation()
    number = 0
    for stage, width in enumerate(options.widths):
        for first in (True, False):
            number += 1
            block = _post_block if post else _pre_block
            layers[f"block{number}"] = block(channels, width, 2 if first and stage else 1, options)
            if post:
                layers[f"act{number}"] = activation()
            channels = width
    if not post:
        layers["end"] = nn.Sequential(*_norm(channels, options), activation())
    layers["pool"] = nn.AdaptiveAvgPool2d(1)
    layers["flatten"] = nn.Flatten()
    layers["fc"] = nn.Linear(channels, outputs)
    return nn.Sequential(layers)


def _post_block(channels: int, width: int, stride: int, options: Options) -> Residual:
    def convolution(before: int, size: int, stride: int, last: bool = False) -> list[nn.Module]:
        layer = _convolution(before, width, size, stride, options, last)
        return [layer, *_norm(width, options)]

    activation = ACTIVATIONS[options.activation]()
    body = *convolution(channels, 3, stride), activation, *convolution(width, 3, 1, last=True)
    shortcut = [] if stride == 1 and channels == width else convolution(channels, 1, stride)
    return Residual(nn.Sequential(*body), nn.Sequential(*shortcut))


def _pre_block(channels: int, width: int, stride: int, options: Options) -> nn.Module:
    activation = ACTIVATIONS[options.activation]
    before = [*_norm(channels, options), activation()]
    body = [
        _convolution(channels, width, 3, stride, options),
        *(*_norm(width, options), activation()),
        _convolution(width, width, 3, 1, options, last=True),
    ]
    if stride == 1 and channels == width:
        return Residual(nn.Sequential(*before, *body), nn.Sequential())
    shortcut = nn.Sequential(_convolution(channels, width, 1, stride, options))
    return nn.Sequential(*before, Residual(nn.Sequential(*body), shortcut))


def _convolution(
    channels: int, width: int, size: int, stride: int, options: Options, last: bool = False
) -> nn.Conv2d:
    plain = options.normalization == "none"
    kind = ZeroConv2d if last and plain else nn.Conv2d
    return kind(channels, width, size, stride, size // 2, bias=plain)


def _norm(width: int, options: Options) -> list[nn.Module]:
    return [nn.BatchNorm2d(width)] if options.normalization == "batch" else []
