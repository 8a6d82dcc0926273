"""One forward and one backward pass, and what follows from them for each sample and layer."""

from __future__ import annotations

from dataclasses import dataclass, fields
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
from flatlab.derivatives.record import Use, recorded, rows_of_jacobian
from flatlab.derivatives.spectra import products, refine, singular_values

CHUNK_BYTES = {"cpu": 2**25, "cuda": 2**33}
"""Of derivatives held at a time: beyond this a larger batch is not faster, on a CPU slower."""
CHUNK_SAMPLES = 5
"""At least so many at a time where memory allows it: smaller products are slow."""


@dataclass(frozen=True)
class Layer:
    """What is known of one layer. Tensors are (samples,) unless said otherwise.

    x2: ||x^l||^2.  gamma2: ||Gamma^l||_F^2.  weight2, bias2: ||df/dW_l||_F^2, ||df/db_l||_F^2.
    singular: singular values of J^l, (samples, N), float64.  gram: J^l J^l^T, (samples, N, N).
    scaled2: ||J^l diag(x^l)||_F^2.  smallest2: the smallest eigenvalue of U^T U, zero where its
    columns are dependent or nobody asked.  positions: columns of U; 1 where weights are not shared.
    output_positions: of one use.  elsewhere: the weight is also used outside of layers.
    """

    name: str
    module: nn.Module
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
        """(O, D): a kernel is reshaped to a row per output channel."""
        weight: Any = self.module.weight
        return weight.detach().flatten(1)


@dataclass(frozen=True)
class Derivatives:
    """What is known of a network on some samples. Tensors are (samples,) unless said otherwise.

    outputs: (samples, N).  sharpness: ||df/dtheta||_F^2.  adaptive: the sum over the parameters
    of theta_j^2 ||df/dtheta_j||^2, or None.  singular, gram, scaled2, x2: as of a layer, for J.
    along2: ||J x||^2.  findings: what the rules covered.
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
    """Everything at once, in as many batches as memory asks for.

    inputs: (samples, ...), of the model's dtype and on its device. Call it inside `undisturbed`.
    adaptive: also the sums weighted by theta^2, for which convolutions cost twice as much.
    total: J^l through all that reads x^l, not through layer l alone.
    corrected: also `smallest2`, an eigenproblem of the size of the positions for each sample.
    Raises `MeasureError` where nothing exact can be had.
    """
    findings = _checked(model, inputs)
    size = batch_size or _fitting(findings, inputs)
    parts = []
    bar = tqdm(total=len(inputs), unit="sample", disable=not progress, leave=False)
    for chunk in inputs.split(size):
        parts.append(_chunk(model, chunk, findings, adaptive, total, corrected))
        bar.update(len(chunk))
    bar.close()
    return parts[0] if len(parts) == 1 else _joined(parts)


def sharpness(model: nn.Module, inputs: Tensor, batch_size: int | None = None) -> Tensor:
    """||df/dtheta||_F^2 of each sample, alone: no derivatives with respect to inputs are formed.

    Arguments and errors as of `derivatives`.
    """
    findings = _checked(model, inputs)
    parts = []
    for chunk in inputs.split(batch_size or _fitting(findings, inputs)):
        uses: list[Use] = []
        with recorded(findings.modules, uses, graft_inputs=True):
            outputs = run(model, chunk.detach())
        rows = rows_of_jacobian(outputs, [use.out for use in uses])
        squares = ParameterSquares(len(chunk), chunk, False, findings, model)
        with torch.no_grad():
            out = dict(zip(uses, rows, strict=True))
            squares.of_matrices(uses, out, False)
            squares.of_vectors(uses, out)
        squares.generic(model, chunk, findings)
        parts.append(squares.plain)
    return torch.cat(parts)


def _checked(model: nn.Module, inputs: Tensor) -> Findings:
    """What the rules cover, if these samples can be measured at all."""
    if not len(inputs):
        raise MeasureError("there are no samples")
    if not inputs.isfinite().all():
        number = int((~inputs.isfinite()).flatten(1).any(1).nonzero()[0])
        raise MeasureError(f"sample {number} has values that are not finite")
    check_mode(model)
    return probe(model, inputs)


def _fitting(findings: Findings, inputs: Tensor) -> int:
    """Samples whose derivatives fit the bound; refuses where one sample exceeds the memory."""
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
    return -(-len(inputs) // -(-len(inputs) // most))  # batches of one size


def _chunk(
    model: nn.Module,
    inputs: Tensor,
    findings: Findings,
    adaptive: bool,
    total: bool,
    corrected: bool,
) -> Derivatives:
    """All that is known of a few samples."""
    samples = len(inputs)
    inputs = inputs.detach().clone().requires_grad_()
    uses: list[Use] = []
    with recorded(findings.modules, uses, total=total, graft_inputs=True):
        outputs = run(model, inputs)
    edges = [] if findings.direct else [get_gradient_edge(inputs)]
    edges += [use.into for use in uses if isinstance(use.module, MATRICES)]
    edges += [use.out for use in uses]
    rows = rows_of_jacobian(outputs, edges)
    with torch.no_grad():
        jacobian = None if findings.direct else by_sample(rows.pop(0), samples)
        into, out = {}, {}
        for use in uses:
            if isinstance(use.module, MATRICES):
                into[use] = by_sample(rows.pop(0), samples)
        for use in uses:
            out[use] = rows.pop(0)
        by_layer = {name: [use for use in uses if use.name == name] for name in findings.layers}
        squares = ParameterSquares(samples, inputs, adaptive, findings, model)
        weight2, gamma2, positions, smallest2 = squares.of_matrices(uses, out, corrected)
        bias2 = squares.of_vectors(uses, out)
        for name, plain in squares.generic(model, inputs.detach(), findings).items():
            holder, _, kind = name.rpartition(".")  # a layer whose parameter is used elsewhere too
            if kind == "weight" and holder in weight2:
                weight2[holder] = plain
            elif kind == "bias" and holder in bias2:
                bias2[holder] = plain
        joined = [cat([into[use] for use in own], 2) for own in by_layer.values()]
        x = [cat([use.x.reshape(samples, -1) for use in own], 1) for own in by_layer.values()]
        if jacobian is not None:
            joined.append(jacobian)
            x.append(inputs.detach().flatten(1))
        whole = 0 if jacobian is None else len(joined) - 1  # where J is
        grams, scaled2, along2 = zip(
            *(products(each, x[k], k == whole) for k, each in enumerate(joined)), strict=True
        )
        singular = [
            refine(values, each)
            for values, each in zip(singular_values(torch.stack(grams)), joined, strict=True)
        ]
        layers = [
            Layer(
                name=name,
                module=own[0].module,
                x2=squared_norm(x[number].double()),
                gamma2=gamma2[name],
                weight2=weight2[name],
                bias2=bias2.get(name, inputs.new_zeros(samples)),
                singular=singular[number],
                gram=grams[number],
                scaled2=scaled2[number],
                smallest2=smallest2[name],
                positions=positions[name],
                output_positions=own[0].numbers // (samples * own[0].channels),
                elsewhere=f"{name}.weight" in findings.generic,
                input_shape=tuple(own[0].x.shape[1:]),
            )
            for number, (name, own) in enumerate(by_layer.items())
        ]
    return Derivatives(
        outputs=outputs.detach(),
        sharpness=squares.plain,
        adaptive=squares.adaptive,
        x2=squared_norm(x[whole].double()),
        singular=singular[whole],
        gram=grams[whole],
        scaled2=scaled2[whole],
        along2=along2[whole],
        layers=layers,
        findings=findings,
    )


def _joined(parts: list[Derivatives]) -> Derivatives:
    """The batches one after the other."""

    def join(records: list) -> dict:
        result: dict[str, Any] = {}
        for field in fields(records[0]):
            values = [getattr(record, field.name) for record in records]
            whole = isinstance(values[0], Tensor)
            result[field.name] = torch.cat(values) if whole else values[0]
        return result

    layers = [Layer(**join(list(same))) for same in zip(*(p.layers for p in parts), strict=True)]
    return Derivatives(**{**join(parts), "layers": layers})
