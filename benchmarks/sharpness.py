"""Cost of the 48 sharpnesses of andriushchenko2023, and how far Auto-PGD gets in 20 steps."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import flatlab
from benchmarks.timing import paired, report
from flatlab.families.sharpness import Cell, cells_of, normalized
from flatlab.networks import lenet5, mlp, resnet

BATCH, DRAWS, STEPS, CLASSES = 128, 20, 20, 10


def networks() -> dict[str, tuple[nn.Module, Tensor, Tensor]]:
    """Networks with the framework's initialization, in evaluation mode, with samples and labels."""
    torch.manual_seed(0)
    image = (3, 16, 16)
    built = {
        "MLP 64-64-64-10": (mlp.build((64,), 10, mlp.Options(activation="relu", width=64)), 256),
        "LeNet5 3x3 @16": (
            lenet5.build(image, 10, lenet5.Options(activation="relu", kernel=3, padding=1)),
            512,
        ),
        "ResNet 8-16-32 @16": (
            resnet.build(image, 10, resnet.Options(activation="relu", widths=(8, 16, 32))),
            256,
        ),
    }
    return {
        name: (
            network.eval(),
            torch.randn(count, *((64,) if name.startswith("MLP") else image)),
            torch.randint(CLASSES, (count,)),
        )
        for name, (network, count) in built.items()
    }


def sharpness() -> None:
    """All definitions and radii at once against perturbed copies of the network, one by one."""
    for name, (network, inputs, labels) in networks().items():
        _, cells = cells_of("resnet")

        def ours(network: Any = network, inputs: Any = inputs, labels: Any = labels) -> Any:
            return flatlab.measure(network, inputs, labels, families=["sharpness"])

        def loop(
            network: Any = network, inputs: Any = inputs, labels: Any = labels, cells: Any = cells
        ) -> dict[tuple[int, int], float]:
            return {cell.place: one_by_one(network, inputs, labels, cell) for cell in cells}

        found, expected = ours()["sharpness_at_radius"].values, loop()
        for cell in cells:  # where the loss is almost linear all ascents end in the same corner
            if (cell.case, cell.norm, cell.place[1]) == ("worst", "linf", 0):
                share = found[cell.place] / expected[cell.place]
                assert abs(share - 1) < 0.01, (name, cell, share)
        report(f"{name}, 48 sharpnesses", *paired(ours, loop, slow=True), "perturbed copies")


def one_by_one(network: nn.Module, inputs: Tensor, labels: Tensor, cell: Cell) -> float:
    """One definition at one radius, as the authors' public code does it, by copies of the network.

    An ascent takes a forward and a backward pass at each point, and a forward pass behind it.
    """
    total = 0.0
    for x, y in zip(inputs.split(BATCH), labels.split(BATCH), strict=True):
        weights = [p.detach() for p in network.parameters()]
        scales = [torch.ones_like(w) if cell.scale == "standard" else w.abs() for w in weights]

        def moved(changes: list[Tensor], weights: list[Tensor] = weights) -> nn.Module:
            other = copy.deepcopy(network)
            with torch.no_grad():
                for p, w, d in zip(other.parameters(), weights, changes, strict=True):
                    p.copy_(w + d)
            return other

        def loss(other: nn.Module, x: Tensor = x, y: Tensor = y) -> Tensor:
            outputs = other(x)
            return cross_entropy(normalized(outputs) if cell.scale == "normalized" else outputs, y)

        with torch.no_grad():
            before = float(loss(network))
        if cell.case == "average":
            found = []
            for _ in range(DRAWS):
                changes = [cell.radius * s * _noise(s, cell.norm) for s in scales]
                with torch.no_grad():
                    found.append(float(loss(moved(changes))))
            value = sum(found) / DRAWS
        else:
            value = _ascended(loss, moved, scales, cell, before)
        total += (value - before) * len(x) / len(inputs)
    return total


def _noise(like: Tensor, norm: str) -> Tensor:
    return torch.randn_like(like) if norm == "l2" else 2 * torch.rand_like(like) - 1


def _ascended(loss: Any, moved: Any, scales: list[Tensor], cell: Cell, before: float) -> float:
    """The largest loss in 20 steps with momentum and half the size after each quarter of them."""
    changes = [torch.zeros_like(s) for s in scales]
    last, largest, size = changes, before, 2 * cell.radius
    for step in range(STEPS):
        other = moved(changes)
        loss(other).backward()
        slopes = [p.grad for p in other.parameters()]
        if cell.norm == "linf":
            ends = [
                (d + size * s * g.sign()).clamp(-cell.radius * s, cell.radius * s)
                for d, s, g in zip(changes, scales, slopes, strict=True)
            ]
        else:
            norm = torch.cat([g.flatten() for g in slopes]).norm()
            ends = [
                d + size * s * g / norm for d, s, g in zip(changes, scales, slopes, strict=True)
            ]
            ratios = [
                torch.where(s > 0, d / s, 0.0).flatten() for d, s in zip(ends, scales, strict=True)
            ]
            outside = float(torch.cat(ratios).norm()) / cell.radius
            ends = [d / max(1.0, outside) for d in ends]
        last, changes = (
            changes,
            [0.75 * end + 0.25 * before for end, before in zip(ends, last, strict=True)],
        )
        with torch.no_grad():
            largest = max(largest, float(loss(moved(changes))))
        if step % 5 == 4:
            size /= 2
    return largest
