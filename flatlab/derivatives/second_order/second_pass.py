"""Make second derivatives cheap where torch's are slow, and right where torch's are wrong.

The second backward pass of torch's convolution computes the derivatives with respect to input and
weight also where nobody asks for them, with a kernel of the size of an image, for which CPU
libraries have no fast way; that of batch norm in evaluation mode passes over its arrays a dozen
times. Here a convolution computes what is asked for, from the kernels of the first pass, and batch
norm by running statistics becomes part of the convolution before it. The function is the same, but
for rounding; it can be differentiated twice.

Where a computation is piecewise linear, no second pass is needed: the second derivatives of its
outputs with respect to one layer's output, or twice to one parameter, are zero almost everywhere,
so that the Hessian of a loss equals its Gauss-Newton part there (its trace, for the parameters).
"""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge
from torch.overrides import TorchFunctionMode

from flatlab.derivatives.second_order.hessian_products import Product

CONVOLUTIONS = {F.conv1d: 1, F.conv2d: 2, F.conv3d: 3}
"""The number of axes of their images."""
BACKWARD = torch.ops.aten.convolution_backward


class SecondPass(TorchFunctionMode):
    """In this context, networks are evaluated so that a second backward pass is cheap.

    linear: the derivative will be differentiated with respect to what it is multiplied with alone,
        not with respect to weights and inputs, as for J v from J^T w.
    """

    def __init__(self, linear: bool) -> None:
        super().__init__()
        self.linear = linear

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given, output = kwargs or {}, None
        if func in CONVOLUTIONS:
            output = self._convolution(CONVOLUTIONS[func], *args, **given)
        elif func is F.batch_norm:
            output = self._normalized(*args, **given)
        return func(*args, **given) if output is None else output

    def _convolution(
        self,
        axes: int,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: int | Sequence[int] = 1,
        padding: int | str | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
    ) -> Tensor | None:
        """None where torch's own is needed."""
        if isinstance(padding, str) or input.ndim != axes + 2 or input.dtype != weight.dtype:
            return None
        if torch.is_autocast_enabled(input.device.type):
            return None
        sizes = (_each(size, axes) for size in (stride, padding, dilation))
        return self._marked(input, weight, bias, (*sizes, False, [0] * axes, groups))

    def _marked(self, input: Tensor, weight: Tensor, bias: Tensor | None, how: Any) -> Tensor:
        """The convolution, which knows what it was made from until something is written to it."""
        output: Tensor = _Convolution.apply(input, weight, bias, how, self.linear)
        made = (input, weight, bias, how), _versions(output, input, weight, bias)
        output.convolution = made  # type: ignore[attr-defined]
        return output

    def _normalized(
        self,
        input: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor | None:
        """None where the statistics are those of the batch."""
        if training or running_mean is None or running_var is None:
            return None
        scale = (running_var + eps).rsqrt() * (1 if weight is None else weight)
        shift = (0 if bias is None else bias) - running_mean * scale
        made, versions = getattr(input, "convolution", (None, ()))
        if made is not None and versions == _versions(input, *made[:3]):
            before, kernel, offset, how = made
            kernel = kernel * scale.view(-1, *[1] * (kernel.ndim - 1))
            return self._marked(
                before, kernel, shift if offset is None else offset * scale + shift, how
            )
        shape = (-1, *[1] * (input.ndim - 2))
        return torch.addcmul(shift.view(shape), input, scale.view(shape))


def _versions(*tensors: Tensor | None) -> tuple[int, ...]:
    """They rise where something is written to a tensor."""
    return tuple(0 if tensor is None else tensor._version for tensor in tensors)


def _each(size: int | Sequence[int], axes: int) -> list[int]:
    sizes = [size] if isinstance(size, int) else list(size)
    return sizes * axes if len(sizes) == 1 else sizes


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, how: Any, linear: bool
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.how, ctx.linear, ctx.bias = how, linear, None if bias is None else list(bias.shape)
        return torch.convolution(x, weight, bias, *how)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        needed = list(ctx.needs_input_grad[:3])
        if ctx.linear:
            x, weight = x.detach(), weight.detach()
        return *_Backward.apply(g, x, weight, ctx.bias, ctx.how, needed), None, None


class _Backward(torch.autograd.Function):
    """The derivatives of a convolution with respect to input, weight and bias."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor, weight: Tensor, *rest: Any) -> Any:
        bias, ctx.how, needed = rest
        ctx.save_for_backward(g, x, weight)
        ctx.set_materialize_grads(False)
        return BACKWARD(g, x, weight, bias, *ctx.how, needed)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, h: Any, v: Any, b: Any) -> Any:
        """h, v, b: of the shapes of input, weight and bias, or None."""
        (g, x, weight), how = ctx.saved_tensors, ctx.how
        of_g, of_x, of_weight = ctx.needs_input_grad[:3]
        along = None
        if of_g and v is not None:
            along = torch.convolution(x, v, b, *how)
        elif of_g and b is not None:
            along = b.view(-1, *[1] * (g.ndim - 2)).expand_as(g)
        if of_g and h is not None:
            more = torch.convolution(h, weight, None, *how)
            along = more if along is None else along.add_(more) if v is not None else along + more
        of_x = of_x and v is not None
        of_weight = of_weight and h is not None
        return (
            along,
            BACKWARD(g, x, v, None, *how, [True, False, False])[0] if of_x else None,
            BACKWARD(g, h, weight, None, *how, [False, True, False])[1] if of_weight else None,
            *(None, None, None),
        )


def with_second_pass(make: Callable[[], Product], linear: bool) -> Product:
    """A product whose network is evaluated in the context of a `SecondPass`.

    make: builds the product, and evaluates the network or leaves that to the product.
    linear: as for `SecondPass`.
    """
    context: AbstractContextManager = SecondPass(linear)
    with context:
        product = make()

    def apply(vector: Tensor) -> Tensor:
        with context:
            return product(vector)

    return apply


ADDITIVE = {"Add", "Sub", "Cat", "Stack"}
"""Linear in all that they read together; the following only in one of them at a time."""

VIEWS = {
    *("View", "UnsafeView", "ReshapeAlias", "Alias", "Clone", "Permute", "Transpose", "T"),
    *("Expand", "Squeeze", "Unsqueeze", "Select", "Slice", "ToCopy", "Contiguous"),
}
MAPS = {
    *VIEWS,
    *("Relu", "LeakyRelu", "Threshold", "Hardtanh", "Abs", "Neg", "ConstantPadNd"),
    *("Addmm", "Mm", "Linear", "Convolution", "MkldnnConvolution", "Mul"),
    *("MaxPool2DWithIndices", "MaxPool3DWithIndices", "AvgPool2D", "AvgPool3D"),
    *("AdaptiveAvgPool2D", "MkldnnAdaptiveAvgPool2D", "Mean", "Sum"),
    *("NativeBatchNorm", "CudnnBatchNorm", "MiopenBatchNorm"),
}


def piecewise_linear(outputs: Tensor, start: GradientEdge | None = None) -> bool:
    """Whether the outputs are piecewise linear in what lies at `start`, or in each parameter.

    outputs: with their graph.  start: where the walk ends; None: the inputs and parameters. What
    does not depend on `start` is looked at, too, and counts.
    """
    todo = [get_gradient_edge(outputs).node]
    end = start.node if start else None
    seen: set[Node] = set(todo)
    used: set[Node] = set()
    while todo:
        node = todo.pop()
        if node is end or _is_leaf(node):
            continue
        kind = _kind(node)
        read = [each for each, _ in node.next_functions if each is not None]
        signals = [each for each in read if each is end or not _is_leaf(_leaf(each))]
        if kind not in ADDITIVE and (kind not in MAPS or len(signals) > 1):
            return False
        if getattr(node, "_saved_training", False):  # statistics of the batch
            return False
        parameters = [_leaf(each) for each in read if each not in signals]
        if used & {*parameters} or len({*parameters}) < len(parameters):
            return False
        used |= {*parameters}
        new = [each for each in signals if each not in seen]
        seen |= {*new}
        todo += new
    return True


def _kind(node: Node) -> str:
    return re.sub(r"Backward\d*$", "", node.name())


def _is_leaf(node: Node) -> bool:
    return hasattr(node, "variable")


def _leaf(node: Node) -> Node:
    """The first operation below a node that is no view of one tensor."""
    while _kind(node) in VIEWS and node.next_functions[0][0] is not None:
        node = node.next_functions[0][0]
    return node


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """g v / |v|, norms over all dimensions but one: the second backward of torch's own is wrong."""
    return v * (g / torch.norm_except_dim(v, 2, dim))


RECOMPOSED = "WeightNormInterfaceBackward0"
"""The name of its node in a graph."""


class _Recomposing(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (weight_norm if func is torch._weight_norm else func)(*args, **(kwargs or {}))


def recomposed(operations: set[str]) -> AbstractContextManager:
    """In this context weight normalization, if it is among these operations, is recomposed.

    operations: names of nodes in the network's graph.
    """
    return _Recomposing() if RECOMPOSED in operations else nullcontext()
