"""Convolutions with max pooling, then linear layers: what VGG and LeNet-5 have in common."""

import copy
from collections import OrderedDict
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from flatlab.networks._modules import ACTIVATIONS


def convolutional(inputs: tuple[int, ...], outputs: int, options: Any) -> nn.Sequential:
    """Layers conv1, (norm1,) act1, ..., pool1, ..., flatten, fc1, fcact1, fc2, ...

    inputs: (channels, height, width).  options: a `flatlab.core.options.Convolutional`. Raises
    `ValueError` if the inputs do not fit.
    """
    activation = ACTIVATIONS[options.activation]
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    channels, convolutions, pools = inputs[0], 0, 0
    for width in options.widths:
        if width == "pool":
            pools += 1
            layers[f"pool{pools}"] = nn.MaxPool2d(2)
            continue
        convolutions += 1
        layers[f"conv{convolutions}"] = nn.Conv2d(
            channels, width, options.kernel, padding=options.padding
        )
        if options.normalization == "batch":
            layers[f"norm{convolutions}"] = nn.BatchNorm2d(width)
        layers[f"act{convolutions}"] = activation()
        channels = width
    layers["flatten"] = nn.Flatten()
    sizes = [_feature_size(layers, inputs), *options.hidden, outputs]
    for number, size in enumerate(pairwise(sizes), start=1):
        layers[f"fc{number}"] = nn.Linear(*size)
        if number < len(sizes) - 1:
            layers[f"fcact{number}"] = activation()
    return nn.Sequential(layers)


def _feature_size(layers: Mapping[str, nn.Module], inputs: tuple[int, ...]) -> int:
    stack = copy.deepcopy(nn.Sequential(*layers.values())).eval()
    with torch.no_grad():
        try:
            return stack(torch.zeros(1, *inputs)).numel()
        except (RuntimeError, IndexError) as error:
            raise ValueError(f"inputs of shape {inputs} do not fit the network: {error}") from None
