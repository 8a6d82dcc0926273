"""Derivatives by central differences, on a copy of a network in float64.

They check what autograd returns, and stand in for second derivatives where it has none. A network
with kinks has no difference quotient that is right at every step: of several steps those count
that agree with each other, and whose two sides do. At a kink itself the quotients on its two sides
differ at every step, and say nothing of a derivative that lies between them, or not far from it.
"""

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from flatlab.core.errors import MeasureError, first_line

STEPS = (1e-7, 1e-8, 1e-9, 1e-6)
"""Of gradients, relative to the norm of what is changed, in the order in which they are tried."""
VALUE_STEPS = (1e-5, 1e-6, 1e-7)
"""Of values, whose differences have larger rounding errors relative to their derivative."""
CLOSE = 1e-5
"""Two derivatives agree if they differ by at most this share of the larger one, or by rounding."""
EVEN = 1e-4
"""Where the two sides of a quotient differ by more than this share of it, there is a kink."""
BEYOND = 10
"""Tolerance in units of the one-sided disagreement of a quotient. Below it a mismatch may come from
kinks, where autograd picks one side."""
ROUNDING = 100 * torch.finfo(torch.float64).eps
"""Of what is differenced, relative to its largest norm."""


@dataclass(frozen=True)
class Difference:
    """A central difference quotient.

    value: of any shape.
    rounding: the norm of its rounding error, at most.
    uneven: half the norm of the difference of the quotients on its two sides.
    """

    value: Tensor
    rounding: float
    uneven: float


Quotient = Callable[[float], Difference]
"""From a relative step."""


@dataclass(frozen=True)
class Comparison:
    """What differences say of a derivative.

    agrees: whether it is that of a step.
    step: a step that agrees with another step, or with the derivative; None where none does.
    spread: the smallest relative distance of the derivative from a step where it agrees, and
        otherwise of two steps from each other.
    """

    agrees: bool
    step: float | None
    spread: float


def compared(
    derivative: Tensor | None, quotient: Quotient, steps: Sequence[float] = STEPS
) -> Comparison:
    """Compare a derivative with difference quotients, at as many steps as it takes.

    derivative: by autograd, of any shape; None: there is none.
    quotient: the same from a step.
    steps: relative ones; the first that agrees with the derivative is the last to be tried.
    """
    tried: list[tuple[float, Difference]] = []
    nearest, settled = torch.inf, None
    for step in steps:
        difference = quotient(step)
        kink = difference.uneven > EVEN * float(difference.value.norm())
        if derivative is not None:
            distance, same = _distance(difference.value, derivative, difference.rounding)
            if same:
                return Comparison(True, step, distance)
            off = float((difference.value - derivative).norm())
            kink |= off <= BEYOND * difference.uneven
            nearest = min(nearest, distance) if kink else nearest
        if kink:
            continue
        for other_step, other in tried:
            rounding = max(difference.rounding, other.rounding)
            distance, same = _distance(difference.value, other.value, rounding)
            nearest = min(nearest, distance)
            if same and settled is None:
                settled = max(step, other_step)  # the larger step has less rounding
        tried.append((step, difference))
    return Comparison(False, settled, nearest)


def _distance(first: Tensor, second: Tensor, rounding: float) -> tuple[float, bool]:
    """The relative distance of two vectors, and whether they agree."""
    size = max(float(first.norm()), float(second.norm()))
    distance = float((first - second).norm())
    return distance / size if size else 0.0, distance <= CLOSE * size + rounding


HALF = {torch.float64: torch.float32, torch.complex128: torch.complex64}


class Point:
    """Tensors that can be moved along a line: parameters of a network, or an input.

    tensors: leaves in float64, which are written to and restored.
    tick: called after each evaluation of a function of them.
    """

    def __init__(self, tensors: Sequence[Tensor], tick: Callable[[], None] = lambda: None) -> None:
        self.tensors, self.tick = list(tensors), tick
        self.norm = float(flat(self.tensors).detach().norm()) or 1.0

    def direction(self, seed: int) -> list[Tensor]:
        """A random unit vector, in its parts, drawn in half the digits: three times as fast."""
        generator = torch.Generator().manual_seed(seed)  # the same on every device
        parts = [
            torch.randn(t.shape, generator=generator, dtype=HALF[t.dtype]).to(t.dtype)
            for t in self.tensors
        ]
        norm = flat(parts).norm()
        return [(part / norm).to(t) for part, t in zip(parts, self.tensors, strict=True)]

    @contextmanager
    def moved(self, direction: Sequence[Tensor], length: float) -> Iterator[None]:
        """Everything at t + length * direction; afterwards at t, to the bit."""
        before = [t.detach().clone() for t in self.tensors]
        try:
            with torch.no_grad():
                for t, part in zip(self.tensors, direction, strict=True):
                    t.add_(part, alpha=length)
            yield
        finally:
            with torch.no_grad():
                for t, kept in zip(self.tensors, before, strict=True):
                    t.copy_(kept)

    def quotient(
        self, of: Callable[[], Tensor], direction: Sequence[Tensor], known: Tensor | None = None
    ) -> Quotient:
        """The derivative along a unit vector of what a function of these tensors returns.

        known: what it returns here.
        """
        middle = (of() if known is None else known).detach()
        self.tick()

        def at(step: float) -> Difference:
            length = step * self.norm
            with self.moved(direction, length):
                above = of().detach()
            self.tick()
            with self.moved(direction, -length):
                below = of().detach()
            self.tick()
            rounding = ROUNDING * float(above.norm()) / length
            uneven = float((above - middle + below - middle).norm()) / (2 * length)
            uneven = max(uneven - rounding, 0.0)
            return Difference((above - below) / (2 * length), rounding, uneven)

        return at


def flat(parts: Sequence[Tensor]) -> Tensor:
    """Tensors as one vector."""
    return torch.cat([part.flatten() for part in parts])


def copy_in(model: nn.Module, precision: torch.dtype) -> nn.Module:
    """A deep copy in another precision, of complex numbers, too.

    Tensors that a module computes from its parameters, and keeps, are copied without their graph.
    Raises `MeasureError` where a module cannot be copied.
    """

    def converted(tensor: Tensor) -> Tensor:
        kind = precision.to_complex() if tensor.is_complex() else precision
        return tensor.to(kind) if tensor.is_complex() or tensor.is_floating_point() else tensor

    held = [v for module in model.modules() for v in vars(module).values()]
    kept = [v for v in held if type(v) is Tensor]
    kept += [buffer for buffer in model.buffers() if buffer.layout != torch.strided]
    plain: dict[int, Any] = {id(tensor): converted(tensor.detach().clone()) for tensor in kept}
    # a module has a dozen of these, each of which deepcopy takes apart
    plain |= {id(v): OrderedDict() for v in held if type(v) is OrderedDict and not v}
    try:
        return copy.deepcopy(model, plain)._apply(converted)
    except Exception as error:  # of whatever a module holds
        raise MeasureError(f"the network cannot be copied: {first_line(error)}") from error


class _InFloat64(TorchFunctionMode):
    """Casts to what has fewer digits are casts to float64."""

    CASTS = (Tensor.float, Tensor.half, Tensor.bfloat16)
    LOWER: ClassVar[dict[Any, torch.dtype]] = {
        **dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float64),
        torch.complex64: torch.complex128,
    }

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def wide(value: Any) -> Any:
            return self.LOWER.get(value, value) if type(value) is torch.dtype else value

        args = map(wide, args) if torch.dtype in map(type, args) else args
        named = {name: wide(value) for name, value in kwargs.items()} if kwargs else {}
        return (Tensor.double if func in self.CASTS else func)(*args, **named)


def double_copy(model: nn.Module) -> nn.Module:
    """A deep copy that computes in float64, also where the network itself rounds to less."""
    copied = copy_in(model, torch.float64)
    kind = type(copied)
    if isinstance(copied, torch.jit.ScriptModule):
        return copied

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _InFloat64():
            return kind.__call__(self, *args, **kwargs)

    copied.__class__ = type(kind.__name__, (kind,), {"__call__": call})
    return copied
