"""The module of a network whose derivatives are wrong: the innermost one that differs from others.

Each module is tried alone on what it saw in a pass of the network: a random combination of its
outputs, differentiated with respect to its input and its parameters.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.derivatives.checks.differences import STEPS, VALUE_STEPS, Point, compared, flat
from flatlab.derivatives.per_sample.probe import run


def culprit_of(model: nn.Module, x: Tensor, order: int) -> str:
    """The innermost module whose derivatives are not differences, in words; "" if there is none.

    model: the network, in float64.
    x: samples.
    order: of the derivatives, 1 or 2.
    """
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        return ""  # these take no hooks
    seen: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, arguments: tuple[Any, ...]) -> None:
            if len(arguments) == 1 and isinstance(arguments[0], Tensor):
                seen.setdefault(name, arguments[0].detach().clone())

        return hook

    with ExitStack() as stack:
        for name, module in model.named_modules():
            stack.callback(module.register_forward_pre_hook(keep(name)).remove)
        run(model, x.clone())
    for name in sorted(seen, key=lambda name: -name.count(".") - bool(name)):
        module = model.get_submodule(name)
        if _differs(module, seen[name], order):
            return f"layer {name!r} ({type(module).__name__})" if name else "the network's forward"
    return ""


def _differs(module: nn.Module, x: Tensor, order: int) -> bool:
    """Whether differences of this order settle at another value than that of autograd."""
    free: list[Tensor] = [p for p in module.parameters() if p.requires_grad]
    if x.is_floating_point():
        free = [x.requires_grad_(), *free]
    try:
        outputs = module(x.clone())
    except Exception:  # it may need more than a tensor, or a pass of another module before
        return False
    if not (free and isinstance(outputs, Tensor) and outputs.requires_grad):
        return False
    weights = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(0)).to(outputs)
    point = Point(free)
    direction = point.direction(0)

    def value() -> Tensor:
        return (module(x.clone()) * weights).sum()

    def gradient(create_graph: bool = False) -> Tensor:
        rows = torch.autograd.grad(value(), free, create_graph=create_graph, materialize_grads=True)
        return flat(rows)

    if order == 1:
        along = gradient() @ flat(direction)
        result = compared(along, point.quotient(value, direction), VALUE_STEPS)
        return not result.agrees and result.step is not None
    try:
        slope = gradient(create_graph=True) @ flat(direction)
        product = torch.zeros_like(flat(free))
        if slope.requires_grad:
            product = flat(torch.autograd.grad(slope, free, materialize_grads=True))
    except RuntimeError:  # there is no second backward pass
        return True
    result = compared(product, point.quotient(gradient, direction), STEPS)
    return not result.agrees and result.step is not None
