"""LeNet-5: convolutions of 6 and 16 channels with 5 x 5 kernels, then 400-120-84-N."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from flatlab.networks import feature_size

MODE = "graphs"
LAYERS = ["convolution", "max-pool", "flatten", "linear"]
PARAMETERS = 62_006
OPTIONS = {
    "kernel": "size of the kernels",
    "padding": "of the convolutions",
}


def build(
    inputs: tuple[int, ...],
    outputs: int,
    activation: type[nn.Module],
    kernel: int = 5,
    padding: int = 0,
) -> nn.Sequential:
    """For images of 32 x 32 pixels; conv1, conv2, fc1, fc2, fc3, 2 x 2 max pooling.

    inputs: (channels, height, width).  kernel, padding: of the convolutions.
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(inputs[0], 6, kernel, padding=padding),
        act1=activation(),
        pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(6, 16, kernel, padding=padding),
        act2=activation(),
        pool2=nn.MaxPool2d(2),
        flatten=nn.Flatten(),
    )
    size = feature_size(layers, inputs)
    for number, width in enumerate((120, 84), start=1):
        layers[f"fc{number}"] = nn.Linear(size, width)
        layers[f"fcact{number}"] = activation()
        size = width
    layers["fc3"] = nn.Linear(size, outputs)
    return nn.Sequential(layers)
