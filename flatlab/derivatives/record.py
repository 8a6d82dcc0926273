"""Records the input and output of each layer, and where derivatives with respect to them arrive."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from flatlab.derivatives.convolution import graft


@dataclass(frozen=True, eq=False)
class Use:
    """One use of a layer in a forward pass.

    x: its input, (rows, ...), rows a multiple of the samples.  into, out: where the derivatives
    with respect to its input (through this layer alone) and its output arrive.  numbers: of its
    output.  plain: whether its forward follows its rule.
    """

    name: str
    module: Any
    x: Tensor
    into: GradientEdge
    out: GradientEdge
    numbers: int
    plain: bool


@contextmanager
def recorded(
    modules: Mapping[str, nn.Module],
    *,
    total: bool = False,
    graft_inputs: bool = False,
    check: Callable[[nn.Module, Tensor, Tensor], bool] | None = None,
) -> Iterator[list[Use]]:
    """A list to which each use of these modules is appended while the context lasts.

    A layer is given a copy of its input: derivatives with respect to the copy are those through
    this layer alone, and later in-place changes of the original do not matter. The edge of the
    output is taken before it can be changed in place.
    total: derivatives with respect to the input itself, through everything that reads it.
    graft_inputs: use our own input gradient of convolutions if there is one.
    check: from a module, its input and its output to whether its forward is the expected one.
    """
    uses: list[Use] = []
    copies: dict[nn.Module, tuple[Tensor, GradientEdge]] = {}

    def before(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        x, *rest = arguments or (named["input"],)
        source = x if x.requires_grad else x.detach().requires_grad_()
        copy = source.clone()
        copies[module] = copy, get_gradient_edge(source if total else copy)
        return (copy, *rest), ({} if not arguments else named)

    def after(name: str, module: nn.Module, arguments: Any, output: Tensor) -> Tensor | None:
        copy, into = copies.pop(module)
        grafted = graft(module, copy, output) if graft_inputs else None
        output = output if grafted is None else grafted
        x, out = copy.detach(), get_gradient_edge(output)
        plain = check(module, x, output) if check else True
        uses.append(Use(name, module, x, into, out, output.numel(), plain))
        return grafted

    with ExitStack() as handles:
        for name, module in modules.items():
            handles.enter_context(module.register_forward_pre_hook(before, with_kwargs=True))
            handles.enter_context(module.register_forward_hook(partial(after, name)))
        yield uses


def rows_of_jacobian(outputs: Tensor, edges: list[GradientEdge]) -> list[Tensor]:
    """Derivatives of each output with respect to what lies at the edges: (N, ...) each.

    outputs: (samples, N), each row a function of its own sample. All N at once if every operation
    can be batched, otherwise one after the other.
    """
    unit = torch.eye(outputs.shape[1], dtype=outputs.dtype, device=outputs.device)

    def row(k: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(
            outputs, edges, k.expand_as(outputs), retain_graph=True, materialize_grads=True
        )

    try:
        with warnings.catch_warnings():  # about operations that torch batches by a loop
            warnings.filterwarnings("ignore", message="There is a performance drop")
            return list(torch.func.vmap(row, randomness="same")(unit))
    except RuntimeError as error:
        if "out of memory" in str(error) or "DefaultCPUAllocator" in str(error):
            raise
        return [torch.stack(rows) for rows in zip(*map(row, unit), strict=True)]


def generic_squares(model: nn.Module, inputs: Tensor, names: list[str]) -> dict[str, Tensor]:
    """By name: the sums of (df_k/dtheta_j)^2, plain and weighted by theta_j^2, (2, samples).

    The sums are over the outputs k and the numbers j of a parameter.
    """
    if not names:
        return {}
    parameters = [model.get_parameter(name) for name in names]
    edges = [get_gradient_edge(parameter) for parameter in parameters]
    result = {name: inputs.new_zeros(2, len(inputs)) for name in names}
    with torch.enable_grad():
        for number, sample in enumerate(inputs.split(1)):
            rows = rows_of_jacobian(model(sample), edges)
            for name, row, parameter in zip(names, rows, parameters, strict=True):
                squares = row.square().sum(0)
                result[name][0, number] = squares.sum()
                result[name][1, number] = (squares * parameter.detach().square()).sum()
    return result
