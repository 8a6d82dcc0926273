"""Products with the Hessian of a mean loss, its Gauss-Newton and its empirical Fisher matrix.

With f the outputs of a network, l the loss of one sample and means over the samples, the Hessian is
H = d^2 mean l(f(x)) / dtheta^2, and its Gauss-Newton part G = mean J^T (d^2 l / df^2) J, where
J = df/dtheta; the empirical Fisher matrix is F = mean g g^T, where g is the gradient of the loss of
one sample. For a loss that is a sum, the means are sums. theta is the vector of all parameters
that require gradients. Where autograd has no second derivatives, products come from differences of
gradients, and of outputs, on a copy of the network in float64.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from flatlab.derivatives.checks.differences import Point, double_copy, flat
from flatlab.derivatives.per_sample.probe import run
from flatlab.losses._base import Loss

Product = Callable[[Tensor], Tensor]
Batches = Sequence[tuple[Tensor, Tensor]]
Along = Callable[[Callable[[], Tensor]], Tensor]
"""From a function of theta to its derivative along a vector."""


def trainable(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def hessian_product(
    model: nn.Module, batches: Batches, loss: Loss, step: float | None = None
) -> Product:
    """v -> H v, by differentiating the gradient once more.

    model: the network; theta is the vector of its trainable parameters.
    batches: inputs (samples, ...) and targets (samples, N); weighted by their numbers of samples.
    step: of differences of gradients instead, relative to |theta|; None: a second backward pass.
    """
    theta, samples = trainable(model), sum(len(inputs) for inputs, _ in batches)

    def gradient(
        network: nn.Module, inputs: Tensor, targets: Tensor, twice: bool = True
    ) -> tuple[Tensor, ...]:
        part = loss.values(run(network, inputs), targets).sum() * loss.share(1, samples)
        moving = trainable(network)
        return torch.autograd.grad(part, moving, create_graph=twice, materialize_grads=True)

    def product(kept: tuple[Tensor, ...], vector: Tensor) -> Tensor:
        return weighted_gradient(kept, theta, _split(vector, theta))

    def by_differences(copied: nn.Module, parts: Batches, along: Along) -> Tensor:
        zero = torch.zeros_like(flat(trainable(copied)))
        return along(lambda: sum((flat(gradient(copied, *part, False)) for part in parts), zero))

    if step is not None:
        return _of_differences(model, batches, step, by_differences)
    return _summed(partial(gradient, model), product, batches)


def gauss_newton_product(
    model: nn.Module, batches: Batches, loss: Loss, step: float | None = None
) -> Product:
    """v -> G v, by J v, the second derivative of the loss, and J^T.

    The arguments are those of `hessian_product`; with a step, J v is a difference of outputs.
    """
    return _product_through(lambda f, x, y: run(f, x), loss.curved, model, batches, loss, step)


def empirical_fisher_product(
    model: nn.Module, batches: Batches, loss: Loss, step: float | None = None
) -> Product:
    """v -> F v, by g^T v of each sample, and the sum of g times it.

    The arguments are those of `hessian_product`; with a step, g^T v is a difference of losses.
    """

    def values(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        return loss.values(run(model, inputs), targets)

    return _product_through(values, lambda f, v, y: v, model, batches, loss, step)


def _product_through(
    outputs_of: Callable[[nn.Module, Tensor, Tensor], Tensor],
    curved: Callable[[Tensor, Tensor, Tensor], Tensor],
    model: nn.Module,
    batches: Batches,
    loss: Loss,
    step: float | None,
) -> Product:
    """v -> J^T C J v, where J is the derivative of some outputs of each sample.

    outputs_of: these outputs, from a network, inputs and targets.
    curved: C times directions, from outputs, directions and targets.
    The rest: as for `hessian_product`.
    """
    theta, samples = trainable(model), sum(len(inputs) for inputs, _ in batches)

    def linearized(inputs: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        outputs = outputs_of(model, inputs, targets)
        weights = torch.zeros_like(outputs, requires_grad=True)
        flags = {"create_graph": True, "materialize_grads": True}
        return outputs, targets, weights, *torch.autograd.grad(outputs, theta, weights, **flags)

    def product(kept: tuple[Tensor, ...], vector: Tensor) -> Tensor:
        outputs, targets, weights, *back = kept
        # J^T w is linear in w, and its derivative with respect to w along v is J v
        forward = weighted_gradient(back, [weights], _split(vector, theta)).view_as(outputs)
        weighted = curved(outputs.detach(), forward, targets) * loss.share(1, samples)
        return weighted_gradient([outputs], theta, [weighted])

    def by_differences(copied: nn.Module, parts: Batches, along: Along) -> Tensor:
        moving = trainable(copied)
        total = torch.zeros_like(flat(moving))
        for inputs, targets in parts:
            outputs = partial(outputs_of, copied, inputs, targets)
            forward, f = along(outputs), outputs()
            weighted = curved(f.detach(), forward, targets) * loss.share(1, samples)
            total += flat(torch.autograd.grad(f, moving, weighted, materialize_grads=True))
        return total

    if step is not None:
        return _of_differences(model, batches, step, by_differences)
    return _summed(linearized, product, batches)


def _of_differences(
    model: nn.Module,
    batches: Batches,
    step: float,
    summed: Callable[[nn.Module, Batches, Along], Tensor],
) -> Product:
    """A product by differences, on a copy of the network and its samples in float64.

    summed: the product with v, from the copies and what differentiates functions of theta along v.
    """
    copied = double_copy(model)
    theta = Point(trainable(copied))
    parts = [
        (inputs.double() if inputs.is_floating_point() else inputs, targets.double())
        for inputs, targets in batches
    ]

    def product(vector: Tensor) -> Tensor:
        length = float(vector.norm()) or 1.0
        direction = _split(vector.double() / length, theta.tensors)

        def along(function: Callable[[], Tensor]) -> Tensor:
            return length * theta.quotient(function, direction)(step).value

        return summed(copied, parts, along).to(vector)

    return product


def _summed(
    prepare: Callable[[Tensor, Tensor], tuple[Tensor, ...]],
    product: Callable[[tuple[Tensor, ...], Tensor], Tensor],
    batches: Batches,
) -> Product:
    """The sum over the batches; the graph of a single batch is kept from product to product."""
    kept = prepare(*batches[0]) if len(batches) == 1 else None

    def total(vector: Tensor) -> Tensor:
        if kept is not None:
            return product(kept, vector)
        parts = (product(prepare(*batch), vector) for batch in batches)
        return sum(parts, start=torch.zeros_like(vector))

    return total


def weighted_gradient(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], vectors: Sequence[Tensor]
) -> Tensor:
    """The derivative of <outputs, vectors> with respect to the inputs, as one vector."""
    moving = [(o, v) for o, v in zip(outputs, vectors, strict=True) if o.requires_grad]
    if not moving:
        return torch.cat([torch.zeros_like(x).flatten() for x in inputs])
    along, weights = zip(*moving, strict=True)
    parts = torch.autograd.grad(along, inputs, weights, retain_graph=True, materialize_grads=True)
    return torch.cat([part.flatten() for part in parts])


def _split(vector: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    parts = vector.split([tensor.numel() for tensor in like])
    return [part.view_as(tensor) for part, tensor in zip(parts, like, strict=True)]
