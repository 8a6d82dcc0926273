"""The sharpness of macdonald2023: the largest eigenvalue of the Hessian, and of Gauss-Newton.

H is the Hessian of the mean training loss over the samples with respect to all trainable
parameters, G = mean J^T (d^2 loss/df^2) J its Gauss-Newton part, which ignores the curvature of the
network. Label smoothing is part of the loss, weight decay is not. The eigenvalues are the
algebraically largest, found by the Lanczos method from a fixed random start, with their residuals.

Along training, the eigenvector of the checkpoint before is a better start: it saves products. It is
added to the random one, so that an eigenvalue which has overtaken the largest is found as surely.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from flatlab.core.progress import ProgressBar
from flatlab.core.schema import Strict, means
from flatlab.derivatives.checks.isolation import batch_norm
from flatlab.derivatives.per_sample.memory import fitting
from flatlab.derivatives.per_sample.probe import run
from flatlab.derivatives.second_order.hessian_products import (
    Batches,
    Product,
    gauss_newton_product,
    hessian_product,
    trainable,
)
from flatlab.derivatives.second_order.lanczos import largest_eigenvalue
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, Settings

TOKENS = True
CHECKS = ("gradient", "hessian", "gauss-newton")
PRODUCTS = {"hessian": hessian_product, "gauss-newton": gauss_newton_product}
BATCH = 1000
"""Samples at a time, unless a batch size is given."""
TYPICAL = 20
"""Products that an eigenvalue takes, for the forecast."""

UNITS = "loss/parameter^2"
QUANTITIES = {
    "hessian_lambda_max": Quantity(
        "sharpness lambda_max(H), largest eigenvalue of the Hessian",
        UNITS,
        "macdonald2023 Sec. 3.1",
        label=r"sharpness $\lambda_{\max}(H)$",
    ),
    "hessian_residual": Quantity("|H v - lambda_max v| / |lambda_max|, |v| = 1"),
    "hessian_products": Quantity("number of products H v"),
    "hessian_converged": Quantity("whether the residual is below 1e-4"),
    "gauss_newton_lambda_max": Quantity(
        "lambda_max(G), largest eigenvalue of the Gauss-Newton matrix",
        UNITS,
        "macdonald2023 Eq. 3",
        label=r"Gauss-Newton $\lambda_{\max}(G)$",
    ),
    "gauss_newton_residual": Quantity("|G v - lambda_max v| / lambda_max, |v| = 1"),
    "gauss_newton_products": Quantity("number of products G v"),
    "gauss_newton_converged": Quantity("whether the residual is below 1e-4"),
}


class Options(Strict, frozen=True):
    curvature: Annotated[
        Literal["all"] | list[Literal["hessian", "gauss-newton"]],
        means("matrices whose largest eigenvalues are taken; of the training's loss"),
    ] = "all"
    batch_norm: Annotated[
        Literal["train", "eval"], means("statistics of all the samples at once, or running ones")
    ] = "eval"
    warm_start: Annotated[
        bool, means("start from the eigenvector of the checkpoint before, half of it random")
    ] = False


def measure(model: nn.Module, samples: SampleSet, settings: Settings) -> Measured:
    """The eigenvalues on one sample set.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(2, 2, bias=False).double()
    >>> _ = network.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 2.0]])})
    >>> x, classes = torch.tensor([[3.0, 4.0], [4.0, 0.0]]), torch.tensor([1, 0])
    >>> report = flatlab.measure(network, x, classes, families="hessian")
    >>> round(report["hessian_lambda_max"].item(), 6)  # of mean x x^T
    16.658003
    >>> bool(report["hessian_converged"])
    True
    """
    options: Options = settings.options
    theta = trainable(model)
    generator = torch.Generator().manual_seed(settings.seed)
    count = sum(parameter.numel() for parameter in theta)
    start = torch.randn(count, generator=generator, dtype=torch.float64).to(theta[0])
    before = settings.memory if options.warm_start else {}
    values: dict[str, float] = {}
    # Fused attention has no second derivative.
    with batch_norm(model, options.batch_norm), sdpa_kernel(SDPBackend.MATH):
        batches = batches_of(model, samples, settings)
        for name in PRODUCTS if options.curvature == "all" else options.curvature:
            first = start
            if name in before:
                first = start / torch.linalg.vector_norm(start) + before[name]
            product = PRODUCTS[name](model, batches, settings.loss, settings.difference_step)
            what = f"largest eigenvalue of the {name} matrix, in some {TYPICAL} products,"
            with ProgressBar(what, TYPICAL, settings.progress) as forecast:
                largest = largest_eigenvalue(counted(product, forecast.tick), first)
            if largest.vector.isfinite().all():
                before[name] = largest.vector
            head = name.replace("-", "_")
            values |= {
                f"{head}_lambda_max": largest.value,
                f"{head}_residual": largest.residual,
                f"{head}_products": largest.products,
                f"{head}_converged": float(largest.converged),
            }
            del product  # and its graph, before the next is built
    return Measured(values)


def batches_of(model: nn.Module, samples: SampleSet, settings: Settings) -> Batches:
    """All samples with their targets, in parts.

    They have the batch size that is set; or as many samples as have graphs that fit the budget, of
    which at most `BATCH`; without a budget `BATCH`. With the statistics of all samples in batch
    norm there is one part.
    """
    inputs = samples.inputs
    with torch.no_grad():
        outputs = run(model, inputs[:2]).shape[1]
    targets = samples.targets_for(outputs, settings.loss)
    size = settings.batch_size or BATCH
    if settings.options.batch_norm == "train":
        size = len(inputs)
    elif settings.budget and not settings.batch_size and settings.difference_step is None:
        one = [(inputs[:1], targets[:1])]
        size = fitting(lambda: hessian_product(model, one, settings.loss), settings.budget, size)
    return list(zip(inputs.split(size), targets.split(size), strict=True))


def counted(product: Product, tick: Callable[[], Any]) -> Product:
    """The same product, after which a progress bar counts it.  tick: called then."""

    def apply(vector: Tensor) -> Tensor:
        image = product(vector)
        tick()
        return image

    return apply
