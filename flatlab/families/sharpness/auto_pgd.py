"""Auto-PGD: the largest value of a function of changes of weights in a neighbourhood of zero.

A change is d = c g, elementwise, where c >= 0 has a scale for each weight and the coordinates g lie
in |g|_p <= rho, p = 2 or infinity. Weights with c = 0 are frozen. The method is that of Croce and
Hein (2020), for weights in andriushchenko2023, Algorithm 1.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from flatlab.core.errors import MeasureError
from flatlab.losses._base import Loss

STEP = 0.75
"""The weight of a step in the next point; the rest repeats the step before."""
IMPROVING = 0.75
"""The share of the steps between two checkpoints that have to increase the value."""
NEWTON = 60
"""Steps of Newton's method, at most; about ten are taken."""

Evaluation = tuple[float, Callable[[], Tensor]]
"""The value at a change d, and what computes the gradient there, which is not always needed."""


@dataclass(frozen=True)
class Neighbourhood:
    """A neighbourhood of zero, and how Auto-PGD moves in it.

    norm: of the coordinates, l2 or linf.
    radius: rho.
    scale: c, (weights).
    steepest: in the ellipsoid, ascend as in a ball of coordinates. Otherwise as in the text of
        andriushchenko2023: d moves along c times the gradient, and then to the nearest change of
        weights. These two do not belong together: where they end, d is proportional to c^3 times
        the gradient, which is not the best change even of a linear function, c^2 times the
        gradient.
    """

    norm: str
    radius: float
    scale: Tensor
    steepest: bool = True

    def step(self, g: Tensor, gradient: Tensor, size: float) -> Tensor:
        """A step of ascent and the projection of where it leads.  gradient: with respect to d."""
        if self.norm == "l2" and self.steepest:
            along = _unit(self.scale * gradient)
        else:
            free = gradient.where(self.scale > 0, 0.0)
            along = free.sign() if self.norm == "linf" else _unit(free)
        return self.project(g + size * along)

    def project(self, g: Tensor) -> Tensor:
        """The nearest coordinates in the neighbourhood."""
        if self.norm == "linf":
            return g.clamp(-self.radius, self.radius)
        if self.steepest:
            return g * (self.radius / torch.linalg.vector_norm(g)).clamp(max=1)
        return onto_ellipsoid(g, self.scale, self.radius)

    def draw(self, generator: torch.Generator) -> Tensor:
        """Random coordinates: uniform in the box, or of length rho in a uniform direction."""
        g = torch.empty_like(self.scale)
        if self.norm == "linf":
            return g.uniform_(-self.radius, self.radius, generator=generator)
        return self.radius * _unit(g.normal_(generator=generator).where(self.scale > 0, 0.0))


def onto_ellipsoid(g: Tensor, scale: Tensor, radius: float) -> Tensor:
    """The coordinates nearest to g with |g|_2 <= radius, by the distance |c (g - g')|_2.

    They are g c^2 / (c^2 + m), where m >= 0 gives them the norm `radius`. The reciprocal of that
    norm is a concave function of m, so that Newton's method approaches its root from below.
    """
    if torch.linalg.vector_norm(g) <= radius:
        return g
    squares = (scale / scale.max()).square()
    least = torch.finfo(g.dtype).tiny
    shift = torch.full_like(squares[0], least)
    for _ in range(NEWTON):
        inside = g * (squares / (squares + shift))
        norm = torch.linalg.vector_norm(inside)
        if norm <= radius * (1 + 1e-6):
            break
        slope = (inside.square() / (squares + shift)).sum()
        shift = (shift + (norm / radius - 1) * norm.square() / slope).clamp(min=least)
    return inside * (radius / norm).clamp(max=1)


def checkpoints(steps: int) -> list[int]:
    """The steps after which the step size may be halved: 0, and shares of all steps."""
    shares = [0, 22]
    while shares[-1] <= 100:
        shares.append(shares[-1] + max(shares[-1] - shares[-2] - 3, 6))
    return sorted({-(-share * steps // 100) for share in shares[:-1]})


def ascend(
    function: Callable[[Tensor], Evaluation],
    field: Neighbourhood,
    steps: int,
    origin: Evaluation,
    start: Tensor | None = None,
) -> list[float]:
    """The largest value that was met at the beginning and after 1, ... `steps` steps.

    function: of d.
    field: the neighbourhood.
    steps: of the ascent.
    origin: what is found at d = 0, a point of every neighbourhood, so that it counts wherever the
        ascent starts.
    start: coordinates; None: those of d = 0.
    """
    point = before = best = torch.zeros_like(field.scale)
    value, slope = origin
    largest, best_slope = value, slope
    if start is not None:
        point = before = start
        value, slope = once(function(field.scale * point))
        if value > largest:
            largest, best, best_slope = value, point, slope
    history, values, size = [largest], [value], 2 * field.radius
    marks, last, largest_then, halved = checkpoints(steps)[1:], 0, largest, False
    for k in range(steps):
        new = field.step(point, slope(), size)
        if k:
            onward = STEP * (new - point) + (1 - STEP) * (point - before)
            new = field.project(point + onward)
        point, before = new, point
        value, slope = once(function(field.scale * point))
        if value > largest:
            largest, best, best_slope = value, point, slope
        history.append(largest)
        values.append(value)
        if k not in marks:
            continue
        rises = sum(values[i + 1] > values[i] for i in range(last, k))
        few, stuck = rises < IMPROVING * (k - last), not halved and largest == largest_then
        last, largest_then, halved = k, largest, few or stuck
        if halved:
            size, slope = size / 2, best_slope
            point = before = best
            values[-1] = largest
    return history


def once(evaluation: Evaluation) -> Evaluation:
    """What is found, with a gradient that is computed at most once."""
    return evaluation[0], functools.cache(evaluation[1])


def _unit(x: Tensor) -> Tensor:
    """x / |x|_2, and zero where that is zero."""
    return x / torch.linalg.vector_norm(x).clamp(min=torch.finfo(x.dtype).tiny)


Transform = Callable[[Tensor], Tensor]
"""What is done to outputs (samples, N) before the loss."""


class BatchLoss:
    """The loss of one batch as a function of changes of all trainable parameters as one vector.

    model: the network, which is never written to.
    inputs: (samples, ...).
    targets: (samples, N).
    loss: of a sample, computed in float64.
    size: samples at a time; None: all.
    tick: called at each evaluation.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Tensor,
        targets: Tensor,
        loss: Loss,
        size: int | None = None,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
            raise MeasureError(
                "a scripted network cannot be evaluated at other weights; measure the module that "
                "it was made from"
            )
        size = size or len(inputs)
        self._chunks = list(zip(inputs.split(size), targets.double().split(size), strict=True))
        self._model, self._loss, self._share = model, loss, loss.share(1, len(inputs))
        self._tick = tick
        theta = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
        self._shapes = {name: p.shape for name, p in theta.items()}
        self.weights = torch.cat([p.flatten() for p in theta.values()])

    def values(self, change: Tensor, transforms: Sequence[Transform]) -> Tensor:
        """The loss at w + change for each transform of the same outputs: (transforms,)."""
        self._tick()
        with torch.no_grad():
            return torch.stack(list(self._parts(self.weights + change, transforms))).sum(0)

    def evaluate(self, change: Tensor, transform: Transform) -> Evaluation:
        """The loss at w + change, and what computes its gradient from the graph that is kept."""
        self._tick()
        point = (self.weights + change).requires_grad_()
        parts = self._parts(point, [transform])
        if len(self._chunks) == 1:
            (kept,) = next(parts)
            return kept.item(), lambda: torch.autograd.grad(kept, point)[0]
        value, gradient = 0.0, torch.zeros_like(self.weights)
        for (part,) in parts:
            value += part.item()
            gradient += torch.autograd.grad(part, point)[0]
        return value, lambda: gradient

    def _parts(self, point: Tensor, transforms: Sequence[Transform]) -> Iterator[Tensor]:
        """What each chunk contributes, (transforms,) each."""
        for x, y in self._chunks:
            pieces = point.split([shape.numel() for shape in self._shapes.values()])
            named = zip(self._shapes.items(), pieces, strict=True)
            theta = {name: piece.view(shape) for (name, shape), piece in named}
            outputs = functional_call(self._model, theta, (x.clone(),)).double()
            losses = [self._loss.values(change(outputs), y).sum() for change in transforms]
            yield torch.stack(losses) * self._share


def laid_out(model: nn.Module, inputs: Tensor) -> Tensor:
    """The inputs in the layout in which passes are fastest: images with their channels last.

    That is so in float32 on a CPU. Networks that view feature maps as vectors do not accept it.
    """
    if inputs.ndim != 4 or (inputs.device.type, inputs.dtype) != ("cpu", torch.float32):
        return inputs
    images = inputs.contiguous(memory_format=torch.channels_last)
    try:
        with torch.no_grad():
            model(images[:2].clone())
    except RuntimeError:
        return inputs
    return images
