"""Whether a computation is piecewise linear, from the graph that torch records.

A network is affine in each of its parameters, and piecewise affine in what it reads, if its graph
has only the operations listed here and no parameter twice. The second derivatives of its outputs
with respect to one layer's output, or twice to one parameter, are then zero almost everywhere, so
that the Hessian of a loss equals its Gauss-Newton part there (its trace, for the parameters). An
operation that is not listed is taken to be curved: that costs time, but gives no wrong result.
"""

import re

from torch import Tensor
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

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
        signals = [each for each in read if each is end or not _of_parameter(each)]
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


def _of_parameter(node: Node) -> bool:
    """Whether nothing but views lies between an operation and a leaf."""
    return _is_leaf(_leaf(node))


def _leaf(node: Node) -> Node:
    """The first operation below a node that is no view of one tensor."""
    while _kind(node) in VIEWS and node.next_functions[0][0] is not None:
        node = node.next_functions[0][0]
    return node
