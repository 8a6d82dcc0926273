"""One forward and one backward pass, and all derivatives of each sample and layer from them."""

from typing import Any

import torch
from torch import Tensor, nn

from flatlab.core.forecast import Forecast
from flatlab.derivatives.checks.evaluation_mode import check_samples
from flatlab.derivatives.per_sample.autograd_check import checked_record
from flatlab.derivatives.per_sample.forward_pass import EVERYTHING, ForwardPass, Record, Wanted
from flatlab.derivatives.per_sample.memory import fits, samples_at_a_time
from flatlab.derivatives.per_sample.output_blocks import in_blocks
from flatlab.derivatives.per_sample.parameters import ParameterSquares, by_sample, cat, squared_norm
from flatlab.derivatives.per_sample.probe import Findings, probe
from flatlab.derivatives.per_sample.singular_values import (
    exact_values,
    products,
    refine,
    singular_values,
)
from flatlab.derivatives.per_sample.values import Derivatives, hessian_traces, joined, layers_of
from flatlab.losses._base import Loss


def derivatives(
    model: nn.Module,
    inputs: Tensor,
    *,
    adaptive: bool = True,
    batch_size: int | None = None,
    corrected: bool = False,
    loss: Loss | None = None,
    wanted: Wanted = EVERYTHING,
    budget: int | None = None,
    progress: bool = False,
) -> Derivatives:
    """Everything at once, in as many batches as memory requires.

    model: maps (batch, ...) to (batch, N), each sample on its own.
    inputs: (samples, ...), with the model's dtype and on its device.
    adaptive: also the sums weighted by theta^2, for which convolutions cost twice as much.
    batch_size: samples at a time; None: as many as fit.
    corrected: also `smallest2`, an eigenproblem of size `positions` for each sample.
    loss: of `hessian_trace`; None: `gram` instead, N^2 numbers for each sample.
    wanted: of the derivatives; what is not costs nothing and has no numbers.
    budget: bytes for derivatives; None: the same on every machine. What one sample needs beyond it
        is computed in blocks of outputs, over and over: Gram matrices are all that is kept.
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
    check_samples(model, inputs)
    findings = probe(model, inputs)
    if not fits(findings, inputs, budget):
        return in_blocks(
            model, inputs, findings, adaptive, corrected, loss, budget, progress, wanted
        )
    parts: list[Derivatives] = []
    with Forecast(f"derivatives of {len(inputs)} samples", len(inputs), progress) as forecast:
        for chunk in inputs.split(batch_size or samples_at_a_time(findings, inputs, budget)):
            if parts:
                record = ForwardPass(model, chunk, findings, wanted).rows()
            else:
                findings, record = checked_record(model, chunk, findings, wanted)
            part = _of_record(model, record, findings, adaptive, corrected, loss, wanted)
            del record
            # Copied into what the record has freed: between its large blocks, small results would
            # keep the C library from returning them, 0.7 MB for each sample of a LeNet-5.
            parts.append(joined([part]))
            del part
            forecast.tick(len(chunk))
    return parts[0] if len(parts) == 1 else joined(parts)


def _of_record(
    model: nn.Module,
    record: Record,
    findings: Findings,
    adaptive: bool,
    corrected: bool,
    loss: Loss | None,
    wanted: Wanted,
) -> Derivatives:
    samples = len(record.inputs)
    if not wanted.layers:
        with torch.no_grad():
            return _of_network(model, record, findings, adaptive, loss, wanted)
    with torch.no_grad():
        squares = ParameterSquares(model, record.inputs, findings, record.out, adaptive, corrected)
        into = {use: by_sample(row, samples) for use, row in record.into.items()}
        by_layer = [[use for use in into if use.name == name] for name in findings.layers]
        jacobians = [cat([into[use] for use in uses], 2) for uses in by_layer]
        x = [cat([use.x.reshape(samples, -1) for use in uses], 1) for uses in by_layer]
        if not findings.direct:
            jacobians.append(by_sample(record.whole, samples))
            x.append(record.x.flatten(1))
        whole = 0 if findings.direct else len(jacobians) - 1  # where J is
        maps = _maps(jacobians, x, whole, loss is None)
        grams = [of_map.pop("gram") for of_map in maps]
        own_maps = jacobians[: len(by_layer)]
        traces = hessian_traces(loss, record.outputs, own_maps, grams[: len(by_layer)])
        layers = layers_of(findings, by_layer, samples, maps, traces, squares.layers)
    return Derivatives(
        outputs=record.outputs,
        sharpness=squares.plain,
        adaptive=squares.adaptive,
        layers=layers,
        findings=findings,
        gram=grams[whole][: 0 if loss else samples],
        **maps[whole],
    )


def _of_network(
    model: nn.Module,
    record: Record,
    findings: Findings,
    adaptive: bool,
    loss: Loss | None,
    wanted: Wanted,
) -> Derivatives:
    """Without what belongs to layers."""
    samples, nothing = len(record.inputs), record.outputs.new_zeros(())
    plain, weighted = nothing.expand(samples), None
    if wanted.parameters:
        squares = ParameterSquares(model, record.inputs, findings, record.out, adaptive, False)
        plain, weighted = squares.plain, squares.adaptive
    x = record.x.flatten(1)
    none = record.outputs.new_zeros(samples, 0, dtype=torch.float64)
    of_map = {"x2": squared_norm(x.double()), "singular": none, "scaled2": none.sum(1)}
    gram = none[:0, :, None]
    if wanted.jacobian:
        (of_map,) = _maps([by_sample(record.whole, samples)], [x], 0, loss is None)
        gram = of_map.pop("gram")
    return Derivatives(
        outputs=record.outputs,
        sharpness=plain,
        adaptive=weighted,
        layers=[],
        findings=findings,
        gram=gram[: 0 if loss else samples],
        **of_map,
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
