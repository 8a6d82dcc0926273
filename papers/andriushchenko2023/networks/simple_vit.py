"""SimpleViT: a transformer on the patches of an image, without class token.

As in Beyer, Zhai and Kolesnikov (2022), "Better plain ViT baselines for ImageNet-1k", in the form
of the library vit-pytorch before its version 1.0, which andriushchenko2023 used on CIFAR-10: fixed
positions, LayerNorm in front of attention, perceptron and output, the mean over all patches. The
default has 18.9 million parameters.
"""

from collections import OrderedDict
from typing import Annotated

import torch
from torch import Tensor, nn

from flatlab.core.options import Architecture
from flatlab.core.schema import means
from flatlab.networks._modules import Residual

MODE = "loop"
LONGEST = 10_000.0
"""2 pi times this is the longest wavelength of the positions, in patches."""


class Options(Architecture, frozen=True):
    patch: Annotated[int, means("pixels along the edge of a patch", ge=1)] = 4
    width: Annotated[int, means("numbers for each patch; a multiple of 4", ge=8, multiple_of=4)] = (
        512
    )
    depth: Annotated[int, means("blocks of attention and a perceptron", ge=1)] = 6
    heads: Annotated[int, means("of each attention", ge=1)] = 16
    head_width: Annotated[int, means("numbers per query, key and value", ge=1)] = 64
    mlp_width: Annotated[int, means("hidden units of each perceptron", ge=1)] = 1024
    dropout: Annotated[
        float, means("of what attention and perceptron add, in training", ge=0, lt=1)
    ] = 0.0

    def parameters(self, inputs: tuple[int, ...], outputs: int) -> int:
        attention = 4 * self.width * self.heads * self.head_width
        perceptron = (2 * self.width + 1) * self.mlp_width + self.width
        block = attention + perceptron + 4 * self.width
        cut = (inputs[0] * self.patch**2 + 1) * self.width
        return cut + self.depth * block + 2 * self.width + (self.width + 1) * outputs


class Patches(nn.Module):
    """(batch, channels, height, width) -> (batch, patches, channels * size^2), row by row."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        tiles = x.unflatten(3, (-1, self.size)).unflatten(2, (-1, self.size))
        return tiles.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)


class Positions(nn.Module):
    """Adds sines and cosines of the column and of the row, with w/4 frequencies each.

    The frequencies 1 ... 1/LONGEST are equally spaced in their logarithm. Rounded to float32, as in
    the library, so that networks of every precision have the same positions.
    """

    table: Tensor

    def __init__(self, rows: int, columns: int, width: int) -> None:
        super().__init__()
        exponents = torch.arange(width // 4, dtype=torch.float64) / (width // 4 - 1)
        where = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))
        row, column = (where[:, axis, None] * LONGEST**-exponents for axis in (0, 1))
        table = torch.cat([column.sin(), column.cos(), row.sin(), row.cos()], 1)
        self.register_buffer("table", table.float(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table


class Attention(nn.Module):
    """Every patch takes in softmax(q k / sqrt(width)) v of all patches, in each head."""

    def __init__(self, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, head_width**-0.5
        self.qkv = nn.Linear(width, 3 * heads * head_width, bias=False)
        self.out = nn.Linear(heads * head_width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        # Written out: torch's fused attention has no second derivative.
        q, k, v = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(2, 3) * self.scale).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Mean(nn.Module):
    """Over the patches."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


def build(inputs: tuple[int, ...], outputs: int, options: Options) -> nn.Sequential:
    """Layers patches, embed, positions, attention1, mlp1, ..., mean, norm, fc.

    Raises `ValueError` if the inputs are no images that can be cut into patches.
    """
    patch, width = options.patch, options.width
    if len(inputs) != 3 or inputs[1] % patch or inputs[2] % patch:
        raise ValueError(
            f"inputs of shape {inputs} do not fit the network: patch is {patch}, which has to "
            "divide the height and the width of images (channels, height, width)"
        )
    channels, rows, columns = inputs
    layers: OrderedDict[str, nn.Module] = OrderedDict(patches=Patches(patch))
    layers["embed"] = nn.Linear(channels * patch**2, width)
    layers["positions"] = Positions(rows // patch, columns // patch, width)
    for number in range(1, options.depth + 1):
        attention = Attention(width, options.heads, options.head_width)
        layers[f"attention{number}"] = _residual(options, nn.LayerNorm(width), attention)
        up, down = nn.Linear(width, options.mlp_width), nn.Linear(options.mlp_width, width)
        layers[f"mlp{number}"] = _residual(options, nn.LayerNorm(width), up, nn.GELU(), down)
    layers["mean"] = Mean()
    layers["norm"] = nn.LayerNorm(width)
    layers["fc"] = nn.Linear(width, outputs)
    return nn.Sequential(layers)


def _residual(options: Options, *layers: nn.Module) -> Residual:
    dropped = [nn.Dropout(options.dropout)] if options.dropout else []
    return Residual(nn.Sequential(*layers, *dropped), nn.Sequential())
