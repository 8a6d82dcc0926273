"""Cost of estimating adaptive sharpness and the norm of Jacobians, on a ViT-Tiny."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.timing import paired, report
from flatlab.derivatives.checks.isolation import preserving_state
from flatlab.derivatives.estimates.random_perturbations import loss_changes
from flatlab.derivatives.jacobians.golub_kahan import (
    Jacobian,
    largest_singular_values,
    secant_slopes,
)
from flatlab.networks._timm import build

IMAGES, DRAWS, STEPS = 16, 2, 30
TOLERANCE = 1e-3


class Counted(nn.Module):
    """A network that counts its forward passes, and its backward passes to the inputs."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network, self.passes = network, 0

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        if x.requires_grad:
            x.register_hook(self._count)
        return self.network(x)

    def _count(self, gradient: Tensor) -> None:
        self.passes += 1


def adaptive() -> None:
    """Average-case sharpness against its bare forward passes; Krylov norm against the ascent."""
    torch.manual_seed(0)
    name = "vit_tiny_patch16_224"
    network = nn.Sequential(build(name), nn.Sigmoid()).eval()
    inputs = torch.randn(IMAGES, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    targets = nn.functional.one_hot(torch.arange(IMAGES), 1000)

    @torch.no_grad()
    def bare() -> None:
        for _ in range(2 * DRAWS + 1):
            network(inputs)

    ours, passes = paired(
        lambda: loss_changes(network, inputs, targets, draws=DRAWS), bare, repeats=3
    )
    print(f"{name}, {IMAGES} images: average-case sharpness takes {ours / passes:.2f} x its passes")
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    few = inputs[:2]
    counted = Counted(network)

    def krylov() -> Tensor:
        return largest_singular_values(Jacobian(network, few), TOLERANCE).values

    def ascent() -> Tensor:
        return secant_slopes(network, few, steps=STEPS)

    with preserving_state(network):
        found = largest_singular_values(Jacobian(network, few), TOLERANCE)
        exact = largest_singular_values(Jacobian(network, few), 1e-6, 60).values
        slopes = secant_slopes(counted, few, steps=STEPS)
        short = secant_slopes(network, few, start=1e-3, lr=1e-4, steps=8 * STEPS)
        times = paired(krylov, ascent, repeats=1)
    products = 2 + 2 * int(found.iterations.max())  # f and its first derivative, then J and J^T
    error = float((found.values / exact - 1).abs().max())
    print(f"{name}: norm to {error:.1e} in {products} passes, ascent takes {counted.passes}")
    print(
        f"  relative to ||J||: slope of the ascent {_range(slopes / exact)}, "
        f"of short secants {_range(short / exact)}"
    )
    report(f"{name}, norm of J", *times, name="ascent of 30 Adam steps")


def _range(ratios: Tensor) -> str:
    return f"{float(ratios.min()):.3f} to {float(ratios.max()):.3f}"
