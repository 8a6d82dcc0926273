"""Hold the derivatives of a network on some samples, and sum squares over its parameters."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
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
from flatlab.derivatives.per_sample.singular_values import of_finite
from flatlab.derivatives.per_sample.stack import cat, networks_of
from flatlab.losses._base import Loss


@dataclass(frozen=True)
class Layer:
    """The derivatives at one layer. Tensors are (samples,) unless said otherwise.

    name: the layer's, as in `named_modules`.
    module: the layer.
    x2: ||x^l||^2.
    gamma2: ||Gamma^l||_F^2.
    weight2: ||df/dW_l||_F^2.
    bias2: ||df/db_l||_F^2.
    singular: singular values of J^l, (samples, N), float64.
    hessian_trace: Tr(A J^l J^l^T), A the Hessian of a loss in the outputs.
    scaled2: ||J^l diag(x^l)||_F^2.
    smallest2: the smallest eigenvalue of U^T U, U the columns that the weight is applied to; zero
        if they are dependent, or if it was not asked for.
    positions: columns of U, 1 if weights are not shared.
    output_positions: positions of the output of one use.
    elsewhere: the weight is also used outside layers.
    input_shape: of the input of one sample.
    """

    name: str
    module: Any
    x2: Tensor
    gamma2: Tensor
    weight2: Tensor
    bias2: Tensor
    singular: Tensor
    hessian_trace: Tensor
    scaled2: Tensor
    smallest2: Tensor
    positions: int
    output_positions: int
    elsewhere: bool
    input_shape: tuple[int, ...]

    @property
    def shared(self) -> bool:
        return self.positions > 1 or self.elsewhere or not isinstance(self.module, nn.Linear)

    @property
    def weight(self) -> Tensor:
        """(O, D): a kernel has one row for each output channel."""
        return self.module.weight.detach().flatten(1)


@dataclass(frozen=True)
class Derivatives:
    """The derivatives of a network on some samples. Tensors are (samples,) unless said otherwise.

    outputs: (samples, N).
    sharpness: ||df/dtheta||_F^2.
    adaptive: the sum over the parameters of theta_j^2 ||df/dtheta_j||^2, or None.
    x2: ||x||^2.
    singular: singular values of J, (samples, N), float64.
    gram: J J^T, (samples, N, N), or no numbers.
    scaled2: ||J diag(x)||_F^2.
    layers: the derivatives at each layer, in the order of their first use.
    findings: what the rules cover.
    """

    outputs: Tensor
    sharpness: Tensor
    adaptive: Tensor | None
    x2: Tensor
    singular: Tensor
    gram: Tensor
    scaled2: Tensor
    layers: list[Layer]
    findings: Findings


def hessian_traces(
    loss: Loss | None, outputs: Tensor, jacobians: list[Tensor], grams: list[Tensor]
) -> list[Tensor]:
    """Tr(J^T A J) of each sample, A the Hessian of the loss in the outputs; NaN without a loss."""
    if loss is None:
        return [torch.full_like(outputs[:, 0], torch.nan, dtype=torch.float64) for _ in jacobians]
    of_outputs = outputs.double()[:, None]
    traces: dict[int, Tensor] = {}
    wide = [k for k, gram in enumerate(grams) if len(gram)]
    if wide:
        unit = torch.eye(outputs.shape[1]).to(of_outputs).expand_as(grams[wide[0]])
        hessian = loss.hessian_product(of_outputs, unit)
        of_wide = torch.einsum("nij,nlij->nl", hessian, torch.stack([grams[k] for k in wide], 1))
        traces = dict(zip(wide, of_wide.unbind(1), strict=True))
    for k in set(range(len(jacobians))) - set(wide):
        columns = jacobians[k].double().mT
        traces[k] = (columns * loss.hessian_product(of_outputs, columns)).sum((1, 2))
    return [traces[k] for k in range(len(jacobians))]


def joined(parts: list[Derivatives]) -> Derivatives:
    """All samples of the parts."""

    def join(*records: Any) -> dict[str, Any]:
        values = {name: [vars(record)[name] for record in records] for name in vars(records[0])}
        tensors = {name: torch.cat(v) for name, v in values.items() if isinstance(v[0], Tensor)}
        return {**vars(records[0]), **tensors}

    layers = [Layer(**join(*same)) for same in zip(*(p.layers for p in parts), strict=True)]
    return Derivatives(**{**join(*parts), "layers": layers})


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
            weights = [network.weight for network in networks_of(group[0].module)]
            squares = weight_squares(u, g, weights, self.adaptive is not None and counted)
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
                networks = networks_of(holding[0][0].module)
                own = [getattr(network, holding[0][1]).detach() for network in networks]
                each = zip(squares.chunk(len(own)), own, strict=True)
                self._add(plain, cat([part @ v.flatten().square() for part, v in each], 0))


def by_sample(rows: Tensor, samples: int) -> Tensor:
    """(N, rows, ...) -> (samples, N, numbers)."""
    return rows.reshape(len(rows), samples, -1).transpose(0, 1)


def squared_norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=tuple(range(1, x.ndim))).square()


def _smallest(u: Tensor) -> Tensor:
    """Smallest eigenvalue of U^T U over the groups; zero if its columns are dependent."""
    width, positions = u.shape[2:]
    if positions > width:
        return u.new_zeros(len(u))
    values = of_finite(u.double(), torch.linalg.svdvals)
    independent = values[..., -1] > positions * torch.finfo(u.dtype).eps * values[..., 0]
    return torch.where(independent, values[..., -1].square(), 0.0).amin(1)
