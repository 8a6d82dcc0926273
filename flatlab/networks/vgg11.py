"""VGG-11: eight 3 x 3 convolutions, then 512-512-512-N. Biases everywhere, no batch norm.

For images of 32 x 32 pixels, as the papers use it on CIFAR-10; no dropout.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from flatlab.networks import feature_size

MODE = "graphs"
LAYERS = ["convolution", "max-pool", "flatten", "linear"]
OPTION_LAYERS = {"norm": ["batch-norm"]}
PARAMETERS = 9_750_922
OPTIONS = {
    "widths": "channels of the convolutions, and pool for 2 x 2 max pooling",
    "hidden": "widths of the linear layers",
    "padding": "of the convolutions",
    "norm": "batch norm behind each convolution",
}
WIDTHS = (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool")
HIDDEN = (512, 512)


def build(
    inputs: tuple[int, ...],
    outputs: int,
    activation: type[nn.Module],
    widths: tuple[int | str, ...] | None = None,
    hidden: tuple[int, ...] | None = None,
    padding: int = 1,
    norm: bool = False,
) -> nn.Sequential:
    """Convolutions conv1, ... and linear layers fc1, ..., an activation behind all but the last.

    inputs: (channels, height, width).  widths: channels of the convolutions, and "pool" for 2 x 2
    max pooling.  hidden: of the linear layers.  None: `WIDTHS`, `HIDDEN`.
    norm: batch norm behind each convolution.
    """
    hidden = HIDDEN if hidden is None else hidden
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    channels, convolutions, pools = inputs[0], 0, 0
    for width in WIDTHS if widths is None else widths:
        if isinstance(width, str):
            pools += 1
            layers[f"pool{pools}"] = nn.MaxPool2d(2)
            continue
        convolutions += 1
        layers[f"conv{convolutions}"] = nn.Conv2d(channels, width, 3, padding=padding)
        if norm:
            layers[f"norm{convolutions}"] = nn.BatchNorm2d(width)
        layers[f"act{convolutions}"] = activation()
        channels = width
    layers["flatten"] = nn.Flatten()
    size = feature_size(layers, inputs)
    for number, width in enumerate(hidden, start=1):
        layers[f"fc{number}"] = nn.Linear(size, width)
        layers[f"fcact{number}"] = activation()
        size = width
    layers[f"fc{len(hidden) + 1}"] = nn.Linear(size, outputs)
    return nn.Sequential(layers)
