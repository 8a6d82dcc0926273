"""Squared gradients of all trainable parameters, each counted once, from those of the layers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from flatlab.derivatives.generic import generic_squares
from flatlab.derivatives.layers import (
    MATRICES,
    bias_gradient,
    columns,
    normalization_gradients,
    weight_squares,
)
from flatlab.derivatives.probe import Findings
from flatlab.derivatives.record import Use
from flatlab.derivatives.spectra import safe_svdvals


class ParameterSquares:
    """Adds up the squared gradients of the trainable parameters, each counted once."""

    def __init__(
        self, samples: int, like: Tensor, adaptive: bool, findings: Findings, model: nn.Module
    ) -> None:
        self.samples = samples
        self.rows: dict[Use, Tensor] = {}  # squares of Gamma, of uses with one position
        self.plain = like.new_zeros(samples).detach()
        self.adaptive = self.plain.clone() if adaptive else None
        generic = {id(model.get_parameter(name)) for name in findings.generic}
        self.counted = {
            id(parameter)
            for parameter in model.parameters()
            if parameter.requires_grad and id(parameter) not in generic
        }

    def add(self, plain: Tensor, adaptive: Tensor | None) -> None:
        self.plain += plain
        if self.adaptive is not None and adaptive is not None:
            self.adaptive += adaptive

    def generic(self, model: nn.Module, inputs: Tensor, findings: Findings) -> dict[str, Tensor]:
        """By name: ||df/dtheta||_F^2 of the parameters that no rule covers."""
        result = {}
        for name, (plain, adaptive) in generic_squares(model, inputs, findings.generic).items():
            self.add(plain, adaptive)
            result[name] = plain
        return result

    def of_matrices(
        self, uses: list[Use], out: dict[Use, Tensor], corrected: bool
    ) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, int], dict[str, Tensor]]:
        """By layer: ||df/dW||_F^2, ||Gamma||_F^2, positions, smallest eigenvalue of U^T U."""
        by_weight: defaultdict[int, list[Use]] = defaultdict(list)
        for use in uses:
            if isinstance(use.module, MATRICES):
                by_weight[id(use.module.weight)].append(use)
        weight2, gamma2, positions, smallest2 = {}, {}, {}, {}
        for identity, group in by_weight.items():
            parts = [columns(use, out[use], self.samples) for use in group]
            u, g = (cat(same, -1) for same in zip(*parts, strict=True))
            weight = group[0].module.weight
            counted = identity in self.counted
            adaptive = self.adaptive is not None and counted
            squares = weight_squares(u, g, weight, adaptive)  # type: ignore[arg-type]
            if counted:
                self.add(squares.plain, squares.adaptive)
            if squares.rows is not None:
                self.rows[group[0]] = squares.rows
            for use in group:
                weight2[use.name] = squares.plain
                own = [out[other] for other in group if other.name == use.name]
                gamma2[use.name] = (
                    squares.gamma
                    if len(own) == len(group)
                    else torch.stack([squared_norm(by_sample(g, self.samples)) for g in own]).sum(0)
                )
                positions[use.name] = u.shape[-1]
                smallest2[use.name] = _smallest(u) if corrected else u.new_zeros(len(u))
        return weight2, gamma2, positions, smallest2

    def of_vectors(self, uses: list[Use], out: dict[Use, Tensor]) -> dict[str, Tensor]:
        """By layer: ||df/db||_F^2. Counts biases, and the parameters of normalizations."""
        holders: defaultdict[int, list[tuple[Use, str]]] = defaultdict(list)
        for use in uses:
            names = ("bias",) if isinstance(use.module, MATRICES) else ("weight", "bias")
            for name in names:
                if getattr(use.module, name) is not None:
                    holders[id(getattr(use.module, name))].append((use, name))
        normalizations = {
            use: dict(zip(("weight", "bias"), gradients, strict=True))
            for use in uses
            if not isinstance(use.module, MATRICES)
            for gradients in [normalization_gradients(use, out[use], self.samples)]
        }
        result: dict[str, Tensor] = {}
        for identity, holding in holders.items():
            ((use, name), *more) = holding
            if not more and use in self.rows:
                squares = self.rows[use]
            else:
                gradient = sum(
                    normalizations[use][name]
                    if use in normalizations
                    else bias_gradient(use, out[use], self.samples)
                    for use, name in holding
                )
                squares = gradient.square().sum(0)  # type: ignore[union-attr]
            plain = squares.sum(1)  # of (samples, numbers)
            result |= {use.name: plain for use, _ in holding}
            if identity in self.counted:
                parameter = getattr(use.module, name).detach().flatten()
                self.add(plain, squares @ parameter.square())
        return result


def by_sample(rows: Tensor, samples: int) -> Tensor:
    """(N, rows, ...) -> (samples, N, numbers)."""
    return rows.reshape(len(rows), samples, -1).transpose(0, 1)


def cat(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """One after the other; a single one is not copied."""
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors), dim)


def squared_norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=tuple(range(1, x.ndim))).square()


def _smallest(u: Tensor) -> Tensor:
    """Smallest eigenvalue of U^T U over the groups; zero where its columns are dependent."""
    width, positions = u.shape[2:]
    if positions > width:
        return u.new_zeros(len(u))
    values = safe_svdvals(u.double())
    independent = values[..., -1] > positions * torch.finfo(u.dtype).eps * values[..., 0]
    return torch.where(independent, values[..., -1].square(), 0.0).amin(1)
