"""One forward and one backward pass, and all derivatives of each sample and layer from them."""

import warnings
from dataclasses import dataclass
from typing import Any

import psutil
import torch
from torch import Tensor, nn
from tqdm import tqdm

from flatlab.derivatives.autograd_check import Record, checked_record, record_of
from flatlab.derivatives.errors import MeasureError
from flatlab.derivatives.evaluation_mode import check_mode
from flatlab.derivatives.parameters import ParameterSquares, by_sample, cat, squared_norm
from flatlab.derivatives.probe import Findings, probe
from flatlab.derivatives.singular_values import exact_values, products, refine, singular_values
from flatlab.losses._base import Loss

CHUNK_BYTES = {"cpu": 2**25, "cuda": 2**31}
"""Derivatives held at a time: larger batches are no faster, and on a CPU slower."""
CHUNK_SAMPLES = 5
"""The fewest samples at a time if `LARGE` allows: smaller products are slow."""
LARGE = 2**30
"""Bytes of derivatives that are held at a time for that reason alone."""
MANY_OUTPUTS = 1000
"""With more, a warning comes before the measurement."""


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


def derivatives(
    model: nn.Module,
    inputs: Tensor,
    *,
    adaptive: bool = True,
    batch_size: int | None = None,
    corrected: bool = False,
    loss: Loss | None = None,
    progress: bool = False,
) -> Derivatives:
    """Everything at once, in as many batches as memory requires.

    model: maps (batch, ...) to (batch, N), each sample on its own.
    inputs: (samples, ...), with the model's dtype and on its device.
    adaptive: also the sums weighted by theta^2, for which convolutions cost twice as much.
    batch_size: samples at a time; None: as many as fit.
    corrected: also `smallest2`, an eigenproblem of size `positions` for each sample.
    loss: of `hessian_trace`; None: `gram` instead, N^2 numbers for each sample.
    progress: show a bar.

    Call it inside `preserving_state`. Raises `MeasureError` if no exact result is possible.

    >>> import torch
    >>> from flatlab.derivatives import derivatives
    >>> network = torch.nn.Linear(2, 1, bias=False).double()
    >>> torch.nn.init.constant_(network.weight, 2.0).shape
    torch.Size([1, 2])
    >>> exact = derivatives(network, torch.tensor([[3.0, 4.0]]).double())
    >>> exact.sharpness.tolist(), exact.adaptive.tolist()  # |x|^2, and weighted by theta^2 = 4
    ([25.0], [100.0])
    """
    if not len(inputs):
        raise MeasureError("there are no samples")
    if not inputs.isfinite().all():
        number = int((~inputs.isfinite()).flatten(1).any(1).nonzero()[0])
        raise MeasureError(f"sample {number} has values that are not finite")
    check_mode(model)
    findings = probe(model, inputs)
    parts: list[Derivatives] = []
    with tqdm(total=len(inputs), unit="sample", disable=not progress, leave=False) as bar:
        for chunk in inputs.split(batch_size or _fitting(findings, inputs)):
            if parts:
                record = record_of(model, chunk, findings)
            else:
                findings, record = checked_record(model, chunk, findings)
            part = _of_record(model, record, findings, adaptive, corrected, loss)
            del record
            # Copied into what the record has freed: between its large blocks, small results would
            # keep the C library from returning them, 0.7 MB for each sample of a LeNet-5.
            parts.append(_joined([part]))
            del part
            bar.update(len(chunk))
    return parts[0] if len(parts) == 1 else _joined(parts)


def _fitting(findings: Findings, inputs: Tensor) -> int:
    """How many samples fit at a time; refuses if a single one exceeds the memory."""
    each = 2 * findings.outputs * findings.numbers * inputs.element_size()
    available = _available(inputs.device)
    grams = (
        8
        * findings.outputs
        * min(findings.outputs, findings.numbers)
        * (2 * len(findings.layers) + 4)
    )
    held = each + grams
    remedy = "measure a part of the outputs: wrap the network in a module that returns them"
    if held > available:
        raise MeasureError(
            f"{findings.outputs} outputs need {held / 1e9:.1f} GB for one sample, there are "
            f"{available / 1e9:.1f}; {remedy}"
        )
    if findings.outputs > MANY_OUTPUTS:
        warnings.warn(
            f"{findings.outputs} outputs need {held / 1e9:.1f} GB, and time that grows with at "
            f"least the square of their number; to be faster, {remedy}",
            stacklevel=2,
        )
    fewest = CHUNK_SAMPLES if CHUNK_SAMPLES * held <= LARGE else 1
    wanted = max(fewest, CHUNK_BYTES.get(inputs.device.type, CHUNK_BYTES["cuda"]) // each)
    most = max(1, min(len(inputs), wanted, available // 2 // held))
    return -(-len(inputs) // -(-len(inputs) // most))  # batches of equal size


def _available(device: torch.device) -> int:
    """Bytes of memory that are free; on a GPU also those that torch keeps for later use."""
    if device.type != "cuda":
        return psutil.virtual_memory().available
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + kept


def _of_record(
    model: nn.Module,
    record: Record,
    findings: Findings,
    adaptive: bool,
    corrected: bool,
    loss: Loss | None,
) -> Derivatives:
    samples = len(record.inputs)
    with torch.no_grad():
        squares = ParameterSquares(model, record.inputs, findings, record.out, adaptive, corrected)
        into = {use: by_sample(row, samples) for use, row in record.into.items()}
        by_layer = [[use for use in into if use.name == name] for name in findings.layers]
        jacobians = [cat([into[use] for use in uses], 2) for uses in by_layer]
        x = [cat([use.x.reshape(samples, -1) for use in uses], 1) for uses in by_layer]
        if not findings.direct:
            jacobians.append(by_sample(record.whole, samples))
            x.append(record.inputs.flatten(1))
        whole = 0 if findings.direct else len(jacobians) - 1  # where J is
        maps = _maps(jacobians, x, whole, loss is None)
        grams = [of_map.pop("gram") for of_map in maps]
        own_maps = jacobians[: len(by_layer)]
        traces = _hessian_traces(loss, record.outputs, own_maps, grams[: len(by_layer)])
        layers = [
            Layer(
                name=name,
                module=uses[0].module,
                hessian_trace=trace,
                output_positions=uses[0].numbers // (samples * len(uses[0].module.weight)),
                elsewhere=f"{name}.weight" in findings.generic,
                input_shape=tuple(uses[0].x.shape[1:]),
                **of_map,
                **squares.layers[name],
            )
            for name, uses, of_map, trace in zip(
                findings.layers, by_layer, maps, traces, strict=False
            )
        ]
    return Derivatives(
        outputs=record.outputs,
        sharpness=squares.plain,
        adaptive=squares.adaptive,
        layers=layers,
        findings=findings,
        gram=grams[whole][: 0 if loss else samples],
        **maps[whole],
    )


def _maps(
    jacobians: list[Tensor], x: list[Tensor], whole: int, needs_gram: bool
) -> list[dict[str, Any]]:
    """The common fields of both records for each Jacobian.

    needs_gram: also for that of the network where it has more outputs than inputs. The others need
    none then.
    """
    wide = [k for k, each in enumerate(jacobians) if each.shape[1] <= each.shape[2]]
    computed = [
        products(each, x[k], k in wide or (needs_gram and k == whole))
        for k, each in enumerate(jacobians)
    ]
    grams, scaled2 = zip(*computed, strict=True)
    of_wide = singular_values(torch.stack([grams[k] for k in wide])) if wide else ()
    refined = {k: refine(values, jacobians[k]) for k, values in zip(wide, of_wide, strict=True)}
    singular = (
        refined[k] if k in refined else exact_values(each) for k, each in enumerate(jacobians)
    )
    x2 = (squared_norm(each.double()) for each in x)
    names, numbers = ("x2", "singular", "gram", "scaled2"), (x2, singular, grams, scaled2)
    return [dict(zip(names, each, strict=True)) for each in zip(*numbers, strict=True)]


def _hessian_traces(
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


def _joined(parts: list[Derivatives]) -> Derivatives:
    def join(*records: Any) -> dict[str, Any]:
        values = {name: [vars(record)[name] for record in records] for name in vars(records[0])}
        tensors = {name: torch.cat(v) for name, v in values.items() if isinstance(v[0], Tensor)}
        return {**vars(records[0]), **tensors}

    layers = [Layer(**join(*same)) for same in zip(*(p.layers for p in parts), strict=True)]
    return Derivatives(**{**join(*parts), "layers": layers})
