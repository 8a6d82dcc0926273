"""Record the input and output of each layer, and where derivatives with respect to them arrive.

Hooks, because a user's forward is not ours to rewrite: whatever calls a layer, its hook is called.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from flatlab.core.errors import MeasureError, first_line, is_out_of_memory
from flatlab.derivatives.per_sample.convolution import with_fast_input_gradient
from flatlab.derivatives.per_sample.stack import networks_of

GENERIC_BYTES = 2**28
"""Gradients with respect to parameters that are held at a time."""


@dataclass(frozen=True, eq=False)
class Use:
    """One use of a layer in a forward pass.

    name: the layer's.
    module: the layer.
    x: its input, (rows, ...), rows a multiple of the samples.
    into: where the derivatives with respect to its input, through this layer alone, arrive.
    out: where those with respect to its output arrive.
    numbers: how many its output has.
    """

    name: str
    module: Any
    x: Tensor
    into: GradientEdge
    out: GradientEdge
    numbers: int


@contextmanager
def recorded(
    modules: Mapping[str, nn.Module], *, fast_input_gradient: bool = False
) -> Iterator[list[Use]]:
    """A list to which each use of these modules is appended while the context lasts.

    A use maps a dense tensor to a tensor; calls of other kinds, which no rule covers, are not.
    A layer is given a copy of its input: derivatives with respect to the copy are those through
    this layer alone, and later in-place changes of the original do not matter. The edge of the
    output is taken before it can be changed in place.

    modules: by name.
    fast_input_gradient: use our own input gradient of convolutions if there is one.
    """
    uses: list[Use] = []
    copies: dict[nn.Module, tuple[Tensor, GradientEdge]] = {}

    def before(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        x, *rest = arguments or (named.get("input"),)
        if not isinstance(x, Tensor) or x.layout != torch.strided or not x.is_floating_point():
            return None
        source = x if x.requires_grad else x.detach().requires_grad_()
        copy = source.clone()
        copies[module] = copy, get_gradient_edge(copy)
        return (copy, *rest), ({} if not arguments else named)

    def after(name: str, module: nn.Module, arguments: Any, output: Any) -> Tensor | None:
        copy, into = copies.pop(module, (None, None))
        if copy is None or into is None or not isinstance(output, Tensor):
            return None
        alone = fast_input_gradient and networks_of(module)[0] is module
        replaced = with_fast_input_gradient(module, copy, output) if alone else None
        output = output if replaced is None else replaced
        out = get_gradient_edge(output)
        uses.append(Use(name, module, copy.detach(), into, out, output.numel()))
        return replaced

    with ExitStack() as handles:
        for name, module in modules.items():
            handles.enter_context(module.register_forward_pre_hook(before, with_kwargs=True))
            handles.enter_context(module.register_forward_hook(partial(after, name)))
        yield uses


def rows_of_jacobian(
    outputs: Tensor, edges: list[GradientEdge], which: slice = slice(None)
) -> list[Tensor]:
    """Derivatives of each output with respect to what lies at the edges: (N, ...) each.

    outputs: (samples, N), each row a function of its own sample.
    edges: where the derivatives arrive.
    which: of the N outputs.

    All at once if every operation can be batched, otherwise one after the other.
    """
    unit = torch.eye(outputs.shape[1], dtype=outputs.dtype, device=outputs.device)[which]

    def row(k: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(
            outputs, edges, k.expand_as(outputs), retain_graph=True, materialize_grads=True
        )

    try:
        with warnings.catch_warnings():  # about operations that torch batches by a loop
            warnings.filterwarnings("ignore", message="There is a performance drop")
            return list(torch.func.vmap(row, randomness="same")(unit))
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
    with differentiable():
        return [torch.stack(rows) for rows in zip(*map(row, unit), strict=True)]


def pulled_back(
    outputs: Tensor, edges: Sequence[GradientEdge], direction: Tensor
) -> tuple[Tensor, ...]:
    """Derivatives of <direction, outputs> with respect to what lies at the edges: (...) each.

    outputs, direction: (samples, N).
    """
    with differentiable():
        return torch.autograd.grad(
            outputs, edges, direction, retain_graph=True, materialize_grads=True
        )


@contextmanager
def differentiable() -> Iterator[None]:
    """Turns what autograd says of a network that it cannot differentiate into a `MeasureError`."""
    try:
        yield
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        raise MeasureError(
            f"autograd cannot differentiate the network: {first_line(error)}"
        ) from error


def generic_squares(
    model: nn.Module,
    inputs: Tensor,
    names: list[str],
    modules: Mapping[str, nn.Module] | None = None,
    tick: Callable[[], None] = lambda: None,
) -> dict[str, Tensor]:
    """By name: the sums of (df_k/dtheta_j)^2, plain and weighted by theta_j^2, (2, samples).

    The sums are over the outputs k, `outputs_at_a_time`, and the numbers j of a parameter.

    names: of the parameters.
    modules: layers that are given copies of their inputs, as where they are recorded.
    """
    if not names:
        return {}
    named = dict(model.named_parameters())
    parameters = [named[name] for name in names]
    edges = [get_gradient_edge(parameter) for parameter in parameters]
    result = {name: named[name].detach().new_zeros(2, len(inputs)) for name in names}
    step = outputs_at_a_time(parameters)
    with torch.enable_grad():
        for number, sample in enumerate(inputs.split(1)):
            # Twice: torch's gradients of a batch of one, whose memory layout is ambiguous, can be
            # wrong (convolutions with batch norm in evaluation mode, torch 2.15). Twice the sample
            # has twice the derivatives.
            with recorded(modules or {}):
                outputs = model(torch.cat([sample, sample]))
            for start in range(0, outputs.shape[1], step):
                rows = rows_of_jacobian(outputs, edges, slice(start, start + step))
                for name, row, parameter in zip(names, rows, parameters, strict=True):
                    squares = row.square().sum(0) / 4
                    result[name][0, number] += squares.sum()
                    result[name][1, number] += (squares * parameter.detach().square()).sum()
                tick()
    return result


def outputs_at_a_time(parameters: Iterable[Tensor]) -> int:
    """Whose gradients with respect to these parameters fit `GENERIC_BYTES`; at least one."""
    return max(1, GENERIC_BYTES // sum(p.numel() * p.element_size() for p in parameters))
