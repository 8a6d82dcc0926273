"""Squared gradients of all trainable parameters, from the derivatives at the layers."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.derivatives.per_sample.hooks import Use, generic_squares
from flatlab.derivatives.per_sample.layers import (
    MATRICES,
    columns,
    vector_gradients,
    weight_squares,
)
from flatlab.derivatives.per_sample.probe import Findings
from flatlab.derivatives.per_sample.singular_values import safe_svdvals


class ParameterSquares:
    """The squared gradients of the trainable parameters, by sample, each parameter counted once.

    plain: ||df/dtheta||_F^2, (samples,).
    adaptive: the sum of theta_j^2 ||df/dtheta_j||^2, (samples,), or None.
    layers: by name, `weight2`, `bias2`, `gamma2`, `smallest2` and `positions` of `Layer`.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Tensor,
        findings: Findings,
        out: dict[Use, Tensor],
        adaptive: bool,
        corrected: bool,
        rest: Mapping[str, Tensor] | None = None,
    ) -> None:
        """The sums over N outputs, or combinations of outputs.

        out: the derivatives with respect to the output of each use, (N, rows, ...).
        rest: `generic_squares` of the parameters that no rule covers, if known.
        """
        self.samples, self.out, self.corrected = len(inputs), out, corrected
        self.layers: dict[str, dict[str, Any]] = {}
        self.plain = next(iter(model.parameters())).new_zeros(self.samples)
        self.adaptive = self.plain.clone() if adaptive else None
        self._rows: dict[Use, Tensor] = {}  # squares of Gamma, of uses with one position
        named = dict(model.named_parameters())
        generic = {id(named[name]) for name in findings.generic}
        trainable = {id(p) for p in model.parameters() if p.requires_grad}
        self._counted = trainable - generic
        self._add_matrices()
        self._add_vectors()
        if rest is None:
            rest = generic_squares(model, inputs, findings.generic, findings.modules)
        for name, (total, weighted) in rest.items():
            self._add(total, weighted)
            layer, _, kind = name.rpartition(".")  # a layer's parameter used elsewhere, too
            if layer in self.layers and kind in ("weight", "bias"):
                self.layers[layer][f"{kind}2"] = total

    def _add(self, plain: Tensor, adaptive: Tensor | None) -> None:
        self.plain += plain
        if self.adaptive is not None and adaptive is not None:
            self.adaptive += adaptive

    def _add_matrices(self) -> None:
        by_weight: defaultdict[Any, list[Use]] = defaultdict(list)
        for use in self.out:
            if isinstance(use.module, MATRICES):  # a weight that is computed is another each time
                weight = use.module._parameters.get("weight")
                by_weight[use.module if weight is None else weight].append(use)
        for key, group in by_weight.items():
            identity = id(key)
            parts = [columns(use, self.out[use], self.samples) for use in group]
            u, g = (cat(same, -1) for same in zip(*parts, strict=True))
            counted = identity in self._counted
            squares = weight_squares(
                u, g, group[0].module.weight, self.adaptive is not None and counted
            )
            if counted:
                self._add(squares.plain, squares.adaptive)
            if squares.rows is not None:
                self._rows[group[0]] = squares.rows
            names = [use.name for use in group]
            for name in set(names):
                gamma2 = squares.gamma
                if names.count(name) < len(names):  # the layer shares its weight with others
                    gradients = (self.out[use] for use in group if use.name == name)
                    each2 = [squared_norm(by_sample(each, self.samples)) for each in gradients]
                    gamma2 = torch.stack(each2).sum(0)
                self.layers[name] = {
                    "weight2": squares.plain,
                    "bias2": torch.zeros_like(self.plain),
                    "gamma2": gamma2,
                    "smallest2": _smallest(u) if self.corrected else u.new_zeros(len(u)),
                    "positions": u.shape[-1],
                }

    def _add_vectors(self) -> None:
        holders: defaultdict[nn.Parameter, list[tuple[Use, str]]] = defaultdict(list)
        for use in self.out:
            for name in ("bias",) if isinstance(use.module, MATRICES) else ("weight", "bias"):
                if (parameter := getattr(use.module, name)) is not None:
                    holders[parameter].append((use, name))
        gradients: dict[Use, dict[str, Tensor]] = {}
        for parameter, holding in holders.items():
            if len(holding) == 1 and holding[0][0] in self._rows:
                squares = self._rows[holding[0][0]]
            else:
                for use in {use for use, _ in holding} - gradients.keys():
                    gradients[use] = vector_gradients(use, self.out[use], self.samples)
                parts = (gradients[use][name] for use, name in holding)
                squares = sum(parts, self.plain.new_zeros(())).square().sum(0)
            plain = squares.sum(1)  # of (samples, numbers)
            for user, _ in holding:
                if user.name in self.layers:
                    self.layers[user.name]["bias2"] = plain
            if id(parameter) in self._counted:
                self._add(plain, squares @ parameter.detach().flatten().square())


def by_sample(rows: Tensor, samples: int) -> Tensor:
    """(N, rows, ...) -> (samples, N, numbers)."""
    return rows.reshape(len(rows), samples, -1).transpose(0, 1)


def cat(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """The tensors one after the other; a single one is not copied."""
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors), dim)


def squared_norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=tuple(range(1, x.ndim))).square()


def _smallest(u: Tensor) -> Tensor:
    """Smallest eigenvalue of U^T U over the groups; zero if its columns are dependent."""
    width, positions = u.shape[2:]
    if positions > width:
        return u.new_zeros(len(u))
    values = safe_svdvals(u.double())
    independent = values[..., -1] > positions * torch.finfo(u.dtype).eps * values[..., 0]
    return torch.where(independent, values[..., -1].square(), 0.0).amin(1)
