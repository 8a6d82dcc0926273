"""Compute all derivatives of each sample and layer from one forward and one backward pass.

Where the derivatives of one sample do not fit, blocks of outputs are differentiated. Squares are
sums over the outputs, block by block. Singular values follow from J J^T, which needs the rows of
two blocks at a time: all pairs of blocks are differentiated, so that with half the memory the time
is twice as long. Where J has fewer columns than rows, it is kept. `torch.func` has no way between
all outputs at once, which do not fit, and one at a time, a pass for each.
"""

from typing import Any

import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.core.progress import ProgressBar
from flatlab.derivatives.checks.isolation import check_samples
from flatlab.derivatives.per_sample.forward_pass import (
    EVERYTHING,
    ForwardPass,
    Record,
    Wanted,
    checked_findings,
    checked_record,
)
from flatlab.derivatives.per_sample.hooks import Use, generic_squares
from flatlab.derivatives.per_sample.memory import fits, limit, samples_at_a_time
from flatlab.derivatives.per_sample.probe import Findings, probe
from flatlab.derivatives.per_sample.singular_values import (
    exact_values,
    products,
    refine,
    singular_values,
)
from flatlab.derivatives.per_sample.stack import cat
from flatlab.derivatives.per_sample.values import (
    Derivatives,
    Layer,
    ParameterSquares,
    by_sample,
    hessian_traces,
    joined,
    squared_norm,
)
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
    findings: Findings | None = None,
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
    findings: of `probe`, on this network and these samples; None: it is asked.

    Call it inside `preserving_state`. Raises `MeasureError` if no exact result is possible.

    >>> import torch
    >>> from flatlab.derivatives.per_sample.engine import derivatives
    >>> network = torch.nn.Linear(2, 1, bias=False).double()
    >>> torch.nn.init.constant_(network.weight, 2.0).shape
    torch.Size([1, 2])
    >>> exact = derivatives(network, torch.tensor([[3.0, 4.0]]).double())
    >>> exact.sharpness.tolist(), exact.adaptive.tolist()  # |x|^2, and weighted by theta^2 = 4
    ([25.0], [100.0])
    """
    wanted = wanted._replace(adaptive=adaptive, corrected=corrected, loss=loss)
    if findings is None:
        check_samples(model, inputs)
        findings = probe(model, inputs)
    if not fits(findings, inputs, budget):
        return in_blocks(model, inputs, findings, wanted, budget, progress)
    parts: list[Derivatives] = []
    chunks = inputs.split(batch_size or samples_at_a_time(findings, inputs, budget))
    with ProgressBar(f"derivatives of {len(inputs)} samples", len(inputs), progress) as forecast:
        for chunk in chunks:
            if parts:
                record = ForwardPass(model, chunk, findings, wanted).rows()
            else:
                findings, record = checked_record(model, chunk, findings, wanted)
            part = _of_record(model, record, findings, wanted)
            del record
            # Copied into what the record has freed: between its large blocks, small results would
            # keep the C library from returning them, 0.7 MB for each sample of a LeNet-5.
            parts.append(joined([part]) if len(chunks) > 1 else part)
            del part
            forecast.tick(len(chunk))
    return parts[0] if len(parts) == 1 else joined(parts)


@torch.no_grad()
def _of_record(model: nn.Module, record: Record, findings: Findings, wanted: Wanted) -> Derivatives:
    samples = len(record.inputs)
    kinds = wanted.adaptive, wanted.corrected
    rest: dict[str, Tensor] | None = None if wanted.parameters else {}
    squares = ParameterSquares(model, record.inputs, findings, record.out, *kinds, rest)
    into = {use: by_sample(row, samples) for use, row in record.into.items()}
    names = findings.layers if wanted.layers else []
    by_layer = [[use for use in into if use.name == name] for name in names]
    jacobians = [cat([into[use] for use in uses], 2) for uses in by_layer]
    x = [cat([use.x.reshape(samples, -1) for use in uses], 1) for uses in by_layer]
    shared = findings.direct and wanted.layers
    if wanted.jacobian and not shared:
        jacobians.append(by_sample(record.whole, samples))
        x.append(record.x.flatten(1))
    place = 0 if shared else len(by_layer)
    maps = _maps(jacobians, x, place, wanted.loss is None) if jacobians else []
    of_parameters = squares.plain, squares.adaptive, squares.layers
    return _assembled(record.outputs, findings, wanted, of_parameters, by_layer, maps, jacobians)


def _assembled(
    outputs: Tensor,
    findings: Findings,
    wanted: Wanted,
    squares: tuple[Tensor, Tensor | None, dict[str, dict[str, Any]]],
    by_layer: list[list[Use]],
    maps: list[dict[str, Any]],
    jacobians: list[Tensor],
) -> Derivatives:
    """The derivatives of some samples; what is not wanted has no numbers.

    squares: ||df/dtheta||^2, the same weighted by theta^2, and further fields of layers by name.
    by_layer: the uses of each layer that is wanted.
    maps: the fields `x2`, `singular`, `scaled2` and `gram` of J^l of each layer, and of J at the
        end, unless it is that of the first layer or not wanted.
    jacobians: these, or no numbers where `gram` has some.
    """
    samples, own, loss = len(outputs), len(by_layer), wanted.loss
    grams = [of_map.pop("gram") for of_map in maps]
    traces = hessian_traces(loss, outputs, jacobians[:own], grams[:own])
    layers = [
        Layer(
            name=name,
            module=uses[0].module,
            hessian_trace=trace,
            output_positions=uses[0].numbers // (samples * len(uses[0].module.weight)),
            elsewhere=f"{name}.weight" in findings.generic,
            input_shape=tuple(uses[0].x.shape[1:]),
            **of_map,
            **squares[2][name],
        )
        for name, uses, of_map, trace in zip(findings.layers, by_layer, maps, traces, strict=False)
    ]
    none = outputs.new_zeros(samples, 0, dtype=torch.float64)
    whole, gram = {"x2": none.sum(1), "singular": none, "scaled2": none.sum(1)}, none[:, :, None]
    if wanted.jacobian:
        place = own if len(maps) > own else 0
        whole, gram = maps[place], grams[place]
        if loss is None and not len(gram):
            gram = jacobians[place].double() @ jacobians[place].double().mT
    return Derivatives(
        outputs=outputs,
        sharpness=squares[0],
        adaptive=squares[1],
        layers=layers,
        findings=findings,
        gram=gram[: 0 if loss else samples],
        **whole,
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


COLUMNS = 2**16
"""Columns of Jacobians that are multiplied at a time, in float64."""
SUMS = ("weight2", "bias2", "gamma2")


def in_blocks(
    model: nn.Module,
    inputs: Tensor,
    findings: Findings,
    wanted: Wanted,
    budget: int | None,
    progress: bool,
) -> Derivatives:
    """The derivatives, sample by sample.  The arguments are those of `derivatives`."""
    outputs, free = findings.outputs, limit(inputs.device, budget)
    maps = len(findings.layers) + 2 if wanted.layers else 2 * wanted.jacobian
    grams = 8 * outputs * min(outputs, findings.numbers) * maps
    row = 8 * findings.numbers * inputs.element_size()  # two blocks, and what they are made of
    if grams + row > free:
        raise MeasureError(
            f"singular values of {outputs} outputs need {(grams + row) / 1e9:.1f} GB, "
            f"{free / 1e9:.1f} GB is free; pass accuracy=0.02 for an estimate, or raise memory="
        )
    rows = min(outputs, (free - grams) // row)
    findings = checked_findings(model, inputs[:2], findings)
    blocks = -(-outputs // rows)
    steps = len(inputs) * (blocks * (blocks + 1) // 2 if wanted.jacobian else blocks)
    what = f"derivatives of {outputs} outputs of {len(inputs)} samples in blocks of {rows}"
    parts = []
    with ProgressBar(what, steps, progress) as forecast:
        for sample in inputs.split(1):
            part = Blocks(model, sample, findings, rows, forecast, wanted)
            parts.append(part.derivatives())
    return joined(parts)


class Blocks:
    """One sample, a block of rows of all Jacobians at a time."""

    def __init__(
        self,
        model: nn.Module,
        sample: Tensor,
        findings: Findings,
        rows: int,
        forecast: ProgressBar,
        wanted: Wanted,
    ) -> None:
        """sample: (1, ...).  findings: of `checked_findings`.  rows: of a block.

        The maps are the Jacobians of the layers, if these are wanted, and J at the end, unless it
        is that of the first layer.
        """
        self.model, self.sample, self.findings, self.wanted = model, sample, findings, wanted
        self.rows, self.forecast = rows, forecast
        self.graph = ForwardPass(model, sample, findings, wanted)
        uses = self.graph.matrices if wanted.layers else []
        names = findings.layers if wanted.layers else []
        self.by_layer = [[use for use in uses if use.name == name] for name in names]
        self.x = [cat([use.x.reshape(1, -1) for use in own], 1) for own in self.by_layer]
        if wanted.jacobian and not self.graph.shared:
            self.x.append(self.graph.source.values.flatten(1))
        outputs = self.graph.outputs
        self.wide = [x.shape[1] >= outputs.shape[1] for x in self.x]
        square = (1, outputs.shape[1], outputs.shape[1])
        self.grams = [
            outputs.new_zeros(square if wide else (0, 0, 0), dtype=torch.float64)
            for wide in self.wide
        ]
        self.kept: list[list[Tensor]] = [[] for _ in self.x]
        self.scaled2 = [outputs.new_zeros(1, dtype=torch.float64) for _ in self.x]

    def derivatives(self) -> Derivatives:
        squares = self._squares()
        with torch.no_grad():
            tall = [torch.cat(rows)[None] if rows else self.x[0][:0] for rows in self.kept]
            maps = [
                {
                    "x2": squared_norm(x.double()),
                    "singular": singular_values(gram) if len(gram) else exact_values(rows),
                    "scaled2": scaled2,
                    "gram": gram,
                }
                for x, gram, rows, scaled2 in zip(
                    self.x, self.grams, tall, self.scaled2, strict=True
                )
            ]
            outputs = self.graph.outputs.detach()
            return _assembled(
                outputs, self.findings, self.wanted, squares, self.by_layer, maps, tall
            )

    def _squares(self) -> tuple[Tensor, Tensor | None, dict[str, dict[str, Any]]]:
        """||df/dtheta||^2, the same weighted by theta^2, and those of layers, in all outputs."""
        names = self.findings.generic if self.wanted.parameters else []
        rest = generic_squares(self.model, self.sample, names, self.findings.modules)
        starts = range(0, self.graph.outputs.shape[1], self.rows)
        parts = []
        for start in starts:
            record = self._rows(start)
            with torch.no_grad():
                kinds = self.wanted.adaptive, self.wanted.corrected
                part = ParameterSquares(
                    self.model, self.sample, self.findings, record.out, *kinds, rest
                )
                rest = {name: torch.zeros_like(squares) for name, squares in rest.items()}
                parts.append((part.plain, part.adaptive, part.layers))
                jacobians = self._jacobians(record)
                self._add(jacobians, start)
            del record
            for before in range(0, start if any(self.wide) else 0, self.rows):
                others = self._jacobians(self._rows(before))
                self._multiply(jacobians, others, start, before)
        plains, weighteds, layers = zip(*parts, strict=True)
        sums = {
            name: own
            | {key: torch.stack([part[name][key] for part in layers]).sum(0) for key in SUMS}
            for name, own in layers[0].items()
        }
        weighted = torch.stack(weighteds).sum(0) if self.wanted.adaptive else None
        return torch.stack(plains).sum(0), weighted, sums

    def _rows(self, start: int) -> Record:
        record = self.graph.rows(slice(start, start + self.rows))
        self.forecast.tick()
        return record

    def _jacobians(self, record: Record) -> list[Tensor]:
        """A block of rows of each J: (rows, M)."""
        jacobians = [
            cat([by_sample(record.into[use], 1) for use in own], 2)[0] for own in self.by_layer
        ]
        if self.wanted.jacobian and not self.graph.shared:
            jacobians.append(by_sample(record.whole, 1)[0])
        return jacobians

    def _add(self, jacobians: list[Tensor], start: int) -> None:
        """A block of rows: what needs no other."""
        for place, jacobian in enumerate(jacobians):
            for part, x in zip(
                jacobian.split(COLUMNS, 1), self.x[place].split(COLUMNS, 1), strict=True
            ):
                self.scaled2[place] += torch.linalg.vector_norm(part.double() * x).square()
            if not self.wide[place]:
                self.kept[place].append(jacobian.clone())
        self._multiply(jacobians, jacobians, start, start)

    @torch.no_grad()
    def _multiply(self, first: list[Tensor], second: list[Tensor], row: int, column: int) -> None:
        """Products of the rows of two blocks, into J J^T.  row, column: where the blocks start."""
        for place, wide in enumerate(self.wide):
            if not wide:
                continue
            pairs = zip(
                first[place].split(COLUMNS, 1), second[place].split(COLUMNS, 1), strict=True
            )
            product = sum(a.double() @ b.double().mT for a, b in pairs)
            height, width = product.shape
            gram = self.grams[place][0]
            gram[row : row + height, column : column + width] = product
            gram[column : column + width, row : row + height] = product.mT
