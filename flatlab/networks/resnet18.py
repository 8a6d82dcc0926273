"""ResNet-18 for images of 32 x 32 pixels: a 3 x 3 stem, four stages of two blocks, batch norm.

As in He et al. (2016), "Deep residual learning", in the form used on CIFAR: no pooling behind the
stem, projections where the shape changes, global average pooling.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from flatlab.networks import Residual, ZeroConv2d

MODE = "graphs"
LAYERS = ["convolution", "batch-norm", "residual", "global-average-pool", "flatten", "linear"]
PARAMETERS = 11_173_962
OPTIONS = {
    "widths": "channels of the stages",
    "norm": "batch norm behind each convolution",
}
WIDTHS = (64, 128, 256, 512)


def build(
    inputs: tuple[int, ...],
    outputs: int,
    activation: type[nn.Module],
    widths: tuple[int, ...] | None = None,
    norm: bool = True,
) -> nn.Sequential:
    """Layers stem, block1, ..., block8, fc.

    inputs: (channels, height, width).  widths: channels of the stages; None: `WIDTHS`.
    norm: batch norm behind each convolution. Without it convolutions have biases, and the last one
    of each block starts at zero, so that the network starts as its shortcuts.
    """
    widths = WIDTHS if widths is None else widths
    channels = widths[0]
    stem = _convolution(inputs[0], channels, 3, 1, norm)
    layers: OrderedDict[str, nn.Module] = OrderedDict(stem=stem, stem_act=activation())
    number = 0
    for stage, width in enumerate(widths):
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
