"""Convolutions as matrix products, and a faster gradient with respect to their input."""

from math import prod
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
FEW_CHANNELS = 4
BLOCK = 2


def patches(x: Tensor, layer: Any) -> Tensor:
    """The inputs that each output position sees: (rows, groups, D, positions).

    x: (rows, channels, ...).  D = channels per group x size of the kernel, ordered as in
    `layer.weight`. Covers every stride, dilation, padding mode and number of dimensions.
    """
    x = padded(x, layer)
    axes = zip(layer.kernel_size, layer.stride, layer.dilation, strict=True)
    for axis, (kernel, stride, dilation) in enumerate(axes, start=2):
        x = x.unfold(axis, dilation * (kernel - 1) + 1, stride)[..., ::dilation]
    positions = x.shape[2 : 2 + len(layer.kernel_size)]
    windows = x.movedim(tuple(range(2, 2 + len(positions))), tuple(range(-len(positions), 0)))
    return windows.reshape(len(x), layer.groups, -1, prod(positions))


def padded(x: Tensor, layer: Any) -> Tensor:
    """The input with its padding, so that the convolution itself needs none."""
    both: list[int] = layer._reversed_padding_repeated_twice  # for every mode, "same" included
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    return F.pad(x, both, mode=mode) if any(both) else x


def with_fast_input_gradient(layer: nn.Module, x: Tensor, output: Tensor) -> Tensor | None:
    """The output of a convolution, with a faster gradient with respect to its input than torch's.

    torch's gradient of a convolution, batched over outputs, allocates an input of that size; and
    with few input channels CPU libraries waste most of their work. None unless the layer has two
    dimensions, is padded with zeros and computes on a CPU.
    """
    if type(layer) is not nn.Conv2d or x.device.type != "cpu" or x.ndim != 4:
        return None
    if layer.padding_mode != "zeros" or isinstance(layer.padding, str):
        return None
    return _FastInputGradient.apply(x, output.detach(), layer)


class _FastInputGradient(torch.autograd.Function):
    """Identity on the output y = conv(x), with the gradient with respect to x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, layer: nn.Conv2d) -> Tensor:
        ctx.layer, ctx.size = layer, x.shape[2:]
        ctx.mark_dirty(y)  # so that the result is y itself, which a layer may overwrite
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient,), layer, size = gradients, ctx.layer, ctx.size
        few = layer.in_channels <= FEW_CHANNELS and layer.groups == 1
        dense = layer.stride == layer.dilation == (1, 1)
        inside = all(p < k for p, k in zip(layer.padding, layer.kernel_size, strict=True))
        rule = _in_blocks if few and dense and inside else _transposed
        return rule(gradient, layer, size), None, None


def _transposed(gradient: Tensor, layer: Any, size: torch.Size) -> Tensor:
    """The transposed convolution, including inputs beyond the last stride of the forward pass."""
    axes = zip(layer.stride, layer.padding, layer.dilation, layer.kernel_size, strict=True)
    seen = [
        (out - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1
        for out, (stride, padding, dilation, kernel) in zip(gradient.shape[-2:], axes, strict=True)
    ]
    unseen = [width - covered for width, covered in zip(size, seen, strict=True)]
    geometry = layer.stride, layer.padding, unseen, layer.groups, layer.dilation
    return F.conv_transpose2d(gradient, layer.weight.detach(), None, *geometry)


def _in_blocks(gradient: Tensor, layer: Any, size: torch.Size) -> Tensor:
    """BLOCK x BLOCK neighbouring pixels at a time, as channels, which fills the vector units.

    One convolution with stride BLOCK does ((k + BLOCK - 1) / k)^2 times the work, but is faster.
    """
    flipped = layer.weight.detach().flip(2, 3).transpose(0, 1)
    channels, outputs, *kernel = flipped.shape
    wide = [k + BLOCK - 1 for k in kernel]
    kernels = flipped.new_zeros(channels, BLOCK, BLOCK, outputs, *wide)
    for i, j in np.ndindex(BLOCK, BLOCK):
        kernels[:, i, j, :, i : i + kernel[0], j : j + kernel[1]] = flipped
    border = [k - 1 - p for k, p in zip(kernel, layer.padding, strict=True)]
    missing = [-width % BLOCK for width in size]
    if any(missing):
        gradient = F.pad(gradient, (0, missing[1], 0, missing[0]))
    blocks = F.conv2d(gradient, kernels.flatten(0, 2), stride=BLOCK, padding=border)
    return F.pixel_shuffle(blocks, BLOCK)[..., : size[0], : size[1]]
