"""One forward and one backward pass, and all derivatives of each sample and layer from them."""

from dataclasses import dataclass
from typing import Any

import psutil
import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge
from tqdm import tqdm

from flatlab.derivatives.guard import MeasureError, check_mode
from flatlab.derivatives.layers import MATRICES
from flatlab.derivatives.parameters import ParameterSquares, by_sample, cat, squared_norm
from flatlab.derivatives.probe import Findings, probe, run
from flatlab.derivatives.record import recorded, rows_of_jacobian
from flatlab.derivatives.spectra import products, refine, singular_values

CHUNK_BYTES = {"cpu": 2**25, "cuda": 2**33}
"""Derivatives held at a time: larger batches are no faster, and on a CPU slower."""
CHUNK_SAMPLES = 5
"""The fewest samples at a time if memory allows: smaller products are slow."""


@dataclass(frozen=True)
class Layer:
    """The derivatives at one layer. Tensors are (samples,) unless said otherwise.

    x2: ||x^l||^2.  gamma2: ||Gamma^l||_F^2.  weight2, bias2: ||df/dW_l||_F^2, ||df/db_l||_F^2.
    singular: singular values of J^l, (samples, N), float64.  gram: J^l J^l^T, (samples, N, N).
    scaled2: ||J^l diag(x^l)||_F^2.  smallest2: the smallest eigenvalue of U^T U; zero if its
    columns are dependent, or if it was not asked for.  positions: columns of U, 1 if weights are
    not shared.  output_positions: of one use.  elsewhere: the weight is also used outside layers.
    """

    name: str
    module: Any
    x2: Tensor
    gamma2: Tensor
    weight2: Tensor
    bias2: Tensor
    singular: Tensor
    gram: Tensor
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

    outputs: (samples, N).  sharpness: ||df/dtheta||_F^2.  adaptive: the sum over the parameters
    of theta_j^2 ||df/dtheta_j||^2, or None.  x2, singular, gram, scaled2: as for a layer, with J.
    along2: ||J x||^2.  findings: what the rules cover.
    """

    outputs: Tensor
    sharpness: Tensor
    adaptive: Tensor | None
    x2: Tensor
    singular: Tensor
    gram: Tensor
    scaled2: Tensor
    along2: Tensor
    layers: list[Layer]
    findings: Findings


def derivatives(
    model: nn.Module,
    inputs: Tensor,
    *,
    adaptive: bool = True,
    total: bool = False,
    batch_size: int | None = None,
    corrected: bool = False,
    progress: bool = False,
) -> Derivatives:
    """Everything at once, in as many batches as memory requires.

    inputs: (samples, ...), with the model's dtype and on its device. Call it inside `undisturbed`.
    adaptive: also the sums weighted by theta^2, for which convolutions cost twice as much.
    total: J^l through everything that reads x^l, not through layer l alone.
    corrected: also `smallest2`, an eigenproblem of size `positions` for each sample.
    Raises `MeasureError` if no exact result is possible.
    """
    if not len(inputs):
        raise MeasureError("there are no samples")
    if not inputs.isfinite().all():
        number = int((~inputs.isfinite()).flatten(1).any(1).nonzero()[0])
        raise MeasureError(f"sample {number} has values that are not finite")
    check_mode(model)
    findings = probe(model, inputs)
    parts = []
    with tqdm(total=len(inputs), unit="sample", disable=not progress, leave=False) as bar:
        for chunk in inputs.split(batch_size or _fitting(findings, inputs)):
            parts.append(_chunk(model, chunk, findings, adaptive, total, corrected))
            bar.update(len(chunk))
    return parts[0] if len(parts) == 1 else _joined(parts)


def _fitting(findings: Findings, inputs: Tensor) -> int:
    """How many samples fit at a time; refuses if a single one exceeds the memory."""
    each = 2 * findings.outputs * findings.numbers * inputs.element_size()
    if inputs.device.type == "cuda":
        available = torch.cuda.mem_get_info(inputs.device)[0]
    else:
        available = psutil.virtual_memory().available
    if each > available:
        raise MeasureError(
            f"{findings.outputs} outputs need {each / 1e9:.1f} GB for one sample, there are "
            f"{available / 1e9:.1f}; measure a part of the outputs: wrap the network in a module "
            "that returns them"
        )
    wanted = max(CHUNK_SAMPLES, CHUNK_BYTES.get(inputs.device.type, CHUNK_BYTES["cuda"]) // each)
    most = max(1, min(len(inputs), wanted, available // 2 // each))
    return -(-len(inputs) // -(-len(inputs) // most))  # batches of equal size


def _chunk(
    model: nn.Module, inputs: Tensor, found: Findings, adaptive: bool, total: bool, corrected: bool
) -> Derivatives:
    samples = len(inputs)
    inputs = inputs.detach().clone().requires_grad_()
    with recorded(found.modules, total=total, graft_inputs=True) as uses:
        outputs = run(model, inputs)
    matrices = [use for use in uses if isinstance(use.module, MATRICES)]
    edges = [*(use.out for use in uses), *(use.into for use in matrices)]
    edges += [] if found.direct else [get_gradient_edge(inputs)]
    rows = rows_of_jacobian(outputs, edges)
    out, rows = dict(zip(uses, rows, strict=False)), rows[len(uses) :]
    with torch.no_grad():
        squares = ParameterSquares(model, inputs.detach(), found, out, adaptive, corrected)
        into = {use: by_sample(row, samples) for use, row in zip(matrices, rows, strict=False)}
        by_layer = [[use for use in matrices if use.name == name] for name in found.layers]
        jacobians = [cat([into[use] for use in own], 2) for own in by_layer]
        x = [cat([use.x.reshape(samples, -1) for use in own], 1) for own in by_layer]
        if not found.direct:
            jacobians.append(by_sample(rows[-1], samples))
            x.append(inputs.detach().flatten(1))
        whole = 0 if found.direct else len(jacobians) - 1  # where J is
        maps, along2 = _maps(jacobians, x, whole)
        layers = [
            Layer(
                name=name,
                module=own[0].module,
                output_positions=own[0].numbers // (samples * len(own[0].module.weight)),
                elsewhere=f"{name}.weight" in found.generic,
                input_shape=tuple(own[0].x.shape[1:]),
                **of_map,
                **squares.layers[name],
            )
            for name, own, of_map in zip(found.layers, by_layer, maps, strict=False)
        ]
    return Derivatives(
        outputs=outputs.detach(),
        sharpness=squares.plain,
        adaptive=squares.adaptive,
        along2=along2,
        layers=layers,
        findings=found,
        **maps[whole],
    )


def _maps(
    jacobians: list[Tensor], x: list[Tensor], whole: int
) -> tuple[list[dict[str, Any]], Tensor]:
    """The common fields of both records for each Jacobian, and ||J x||^2 for one of them."""
    found = [products(each, x[k], k == whole) for k, each in enumerate(jacobians)]
    grams, scaled2, along2 = zip(*found, strict=True)
    singular = map(refine, singular_values(torch.stack(grams)), jacobians)
    x2 = (squared_norm(each.double()) for each in x)
    names, numbers = ("x2", "singular", "gram", "scaled2"), (x2, singular, grams, scaled2)
    return [dict(zip(names, each, strict=True)) for each in zip(*numbers, strict=True)], along2[
        whole
    ]


def _joined(parts: list[Derivatives]) -> Derivatives:
    def join(*records: Any) -> dict[str, Any]:
        values = {name: [vars(record)[name] for record in records] for name in vars(records[0])}
        tensors = {name: torch.cat(v) for name, v in values.items() if isinstance(v[0], Tensor)}
        return {**vars(records[0]), **tensors}

    layers = [Layer(**join(*same)) for same in zip(*(p.layers for p in parts), strict=True)]
    return Derivatives(**{**join(*parts), "layers": layers})
