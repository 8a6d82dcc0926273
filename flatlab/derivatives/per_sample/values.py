"""The derivatives of a network on some samples: what the engine returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.derivatives.per_sample.hooks import Use
from flatlab.derivatives.per_sample.probe import Findings
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


def layers_of(
    findings: Findings,
    by_layer: Sequence[Sequence[Use]],
    samples: int,
    maps: Sequence[Mapping[str, Any]],
    traces: Sequence[Tensor],
    squares: Mapping[str, Mapping[str, Any]],
) -> list[Layer]:
    """The records of layers.

    by_layer: the uses of each layer, in the order of `findings`.
    maps: of J^l, the fields `x2`, `singular` and `scaled2`.
    traces: `hessian_trace` of each.
    squares: further fields, by name.
    """
    return [
        Layer(
            name=name,
            module=uses[0].module,
            hessian_trace=trace,
            output_positions=uses[0].numbers // (samples * len(uses[0].module.weight)),
            elsewhere=f"{name}.weight" in findings.generic,
            input_shape=tuple(uses[0].x.shape[1:]),
            **of_map,
            **squares[name],
        )
        for name, uses, of_map, trace in zip(findings.layers, by_layer, maps, traces, strict=False)
    ]


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
