"""The loss of a batch as a function of changes of the weights of a network.

Frozen parameters and buffers do not change. The network itself is never written to.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from flatlab.core.errors import MeasureError
from flatlab.families._sharpness.auto_pgd import Evaluation
from flatlab.losses._base import Loss

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
