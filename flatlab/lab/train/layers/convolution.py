"""Convolutions of images, padded with zeros."""

from typing import Any

import torch
from torch import Tensor, nn

from flatlab.lab.train.stacked_layers import Forward, Gradients, Layer, aten
from flatlab.lab.train.stacking import StackBuilder


def stacked(module: nn.Module, name: str, builder: StackBuilder) -> list[Layer] | None:
    """A grouped convolution, the runs as groups.

    weight: (runs * outputs, inputs / groups, height, width).  bias: (runs * outputs), or None.
    """
    if not isinstance(module, nn.Conv2d):
        return None
    if module.padding_mode != "zeros" or isinstance(module.padding, str):
        return None
    weight, bias = (builder.tensor(f"{name}.{part}", folded=True) for part in ("weight", "bias"))
    stride, padding, dilation = module.stride, module.padding, module.dilation
    groups, biased = builder.runs * module.groups, bias is not None
    # The fast kernels for the gradient of the weights pad by half a kernel at most: the rest of the
    # padding is made part of the images.
    half = [(size - 1) * step // 2 for size, step in zip(module.kernel_size, dilation, strict=True)]
    within = [*map(min, padding, half)]
    beyond = [pad - part for pad, part in zip(padding, within, strict=True)]
    # A kernel of one pixel that skips some: on CPUs with AVX2 alone torch's gradient of the weights
    # in one group writes beyond its memory. The pixels are picked first, to the same bits.
    single = groups == 1 and set(module.kernel_size) == {1} and max(stride) > 1

    def forward(x: Tensor, training: bool) -> Forward:
        def backward(gradient: Tensor, need_input_gradient: bool) -> Gradients:
            def gradients(of: Tensor, step: Any, padding: Any, mask: list[bool]) -> list[Tensor]:
                return aten.convolution_backward(
                    gradient,
                    of,
                    weight,
                    [len(weight)] if biased else None,
                    step,
                    padding,
                    dilation,
                    False,  # not transposed, which would use the next argument
                    [0, 0],
                    groups,
                    mask,
                )

            height, width = beyond
            padded = nn.functional.pad(x, [width, width, height, height]) if any(beyond) else x
            of_input = (
                gradients(x, stride, padding, [True, False, False])[0]
                if need_input_gradient
                else None
            )
            picked = padded[:, :, :: stride[0], :: stride[1]] if single else padded
            step = (1, 1) if single else stride
            _, *of_parameters = gradients(picked, step, within, [False, True, biased])
            return of_input, of_parameters[: 1 + biased]

        return torch.conv2d(x, weight, bias, stride, padding, dilation, groups), backward

    return [*builder.fold(), Layer(forward, weight, bias)]
