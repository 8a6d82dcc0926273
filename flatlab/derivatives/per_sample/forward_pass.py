"""Run some samples forward, and take derivatives at the layers, checked against plain autograd.

Rules by kind of layer can be wrong without an error: a layer may do more than its type says, and a
hook may change what it returns. So, on one sample, a random combination of the outputs, from a
fixed seed, is differentiated by autograd in the untouched network: with respect to the inputs and
to every parameter that a rule covers. What was recorded for the same sample and output must give
the same gradients. A layer for which it does not is left to autograd.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge
from torch.linalg import vector_norm

from flatlab.core.errors import MIXES, MeasureError, first_line
from flatlab.derivatives.per_sample.hooks import Use, pulled_back, recorded, rows_of_jacobian
from flatlab.derivatives.per_sample.layers import MATRICES, columns, vector_gradients
from flatlab.derivatives.per_sample.probe import (
    Findings,
    calls_of,
    far_apart,
    graph_of,
    reading,
    run,
)
from flatlab.losses._base import Loss


@dataclass(frozen=True)
class Record:
    """Derivatives of outputs of some samples at the layers: of N outputs, or combinations of them.

    inputs: (samples, ...).
    x: what `whole` is with respect to: the inputs, or the embeddings of tokens.
    outputs: all outputs of the network, (samples, outputs).
    out: derivatives with respect to the output of each use, (N, rows, ...).
    into: those with respect to its input, through this layer alone, (N, rows, ...).
    whole: those with respect to the inputs, (N, samples, ...); empty if they are not wanted.
    casts: whether the network computes in another precision somewhere.
    generic: derivatives of a combination with respect to parameters that no rule covers, by name,
        summed over the samples.
    """

    inputs: Tensor
    x: Tensor
    outputs: Tensor
    out: dict[Use, Tensor]
    into: dict[Use, Tensor]
    whole: Tensor
    casts: bool
    generic: dict[str, Tensor] = field(default_factory=dict)


class Wanted(NamedTuple):
    """What is wanted of the derivatives.

    parameters: their squares.
    jacobian: J.
    layers: J^l and what belongs to single layers; the others must be wanted too.
    adaptive: also the squares weighted by theta^2.
    corrected: also `smallest2` of layers.
    loss: of `hessian_trace`; None: `gram` instead.
    """

    parameters: bool = True
    jacobian: bool = True
    layers: bool = True
    adaptive: bool = True
    corrected: bool = False
    loss: Loss | None = None


EVERYTHING = Wanted()


class ForwardPass:
    """A forward pass whose graph is kept for any number of backward passes.

    Raises `MeasureError` if these samples go other ways through the network than the probe's.
    """

    def __init__(
        self, model: nn.Module, inputs: Tensor, findings: Findings, wanted: Wanted = EVERYTHING
    ) -> None:
        self.inputs = inputs.detach().clone().requires_grad_(inputs.is_floating_point())
        self.findings = findings
        with (
            recorded(findings.modules, fast_input_gradient=True) as self.uses,
            reading(model, self.inputs) as self.source,
        ):
            self.outputs = run(model, self.inputs)
        self.parameters = dict(model.named_parameters())
        in_graph, operations = graph_of(self.outputs)
        late = [name for name in findings.unused if in_graph[id(self.parameters[name])]]
        if late or calls_of(self.uses, len(inputs)) != findings.calls:
            raise MeasureError(
                "samples go different ways through the network"
                + (f": some need {late[0]!r} and others do not" if late else "")
                + "; measure those that go the same way together, or one of the ways alone"
            )
        self.casts = "ToCopyBackward0" in operations.values()
        self.matrices = [use for use in self.uses if isinstance(use.module, MATRICES)]
        self.ends = self.uses if wanted.parameters else []
        self.starts = self.matrices if wanted.layers else []
        self.shared = findings.direct and wanted.layers  # J is that of the first layer
        self.edges = [*(use.out for use in self.ends), *(use.into for use in self.starts)]
        if wanted.jacobian and not self.shared:
            self.edges.append(get_gradient_edge(self.source.leaf))

    def rows(self, which: slice = slice(None)) -> Record:
        """The derivatives of some of the outputs, of all by default."""
        return self._record(rows_of_jacobian(self.outputs, self.edges, which))

    def along(self, direction: Tensor) -> Record:
        """The derivatives of <direction, f>: N is 1.  direction: (samples, outputs)."""
        names = self.findings.generic
        parameters = [get_gradient_edge(self.parameters[name]) for name in names]
        rows = pulled_back(self.outputs, [*self.edges, *parameters], direction)
        of_edges, of_parameters = rows[: len(self.edges)], rows[len(self.edges) :]
        return self._record(
            [row[None] for row in of_edges], dict(zip(names, of_parameters, strict=True))
        )

    def _record(self, rows: list[Tensor], generic: dict[str, Tensor] | None = None) -> Record:
        inputs, outputs = self.inputs.detach(), self.outputs.detach()
        first = len(self.ends)
        out = dict(zip(self.ends, rows, strict=False))
        into = dict(zip(self.starts, rows[first:], strict=False))
        rest = rows[first + len(self.starts) :]
        whole = rest[0] if rest else outputs.new_zeros(0)
        whole = into[self.matrices[0]] if self.shared else whole
        return Record(
            inputs, self.source.values, outputs, out, into, whole, self.casts, generic or {}
        )


CLOSE = {torch.float64: 1e-10, torch.float32: 1e-3}
"""Two gradients are the same if they differ by at most this share of the norm of one."""
NOT_PLAIN = "its gradients are not those of plain autograd"
CANCELLED = 1e-3
"""A norm counts as no smaller than this share of the largest, which rounding errors scale with."""


def checked_record(
    model: nn.Module, inputs: Tensor, findings: Findings, wanted: Wanted = EVERYTHING
) -> tuple[Findings, Record]:
    """The record of all outputs, and what the rules cover: nothing unlike plain autograd.

    Raises `MeasureError` if J differs, or if the outputs of a sample depend on its batch.
    """
    record = ForwardPass(model, inputs, findings, wanted).rows()
    if findings.checked or not findings.finite:
        return findings, record
    if names := _unlike_autograd(model, record, findings):
        findings = findings.without(model, names, NOT_PLAIN)
        record = ForwardPass(model, inputs, findings, wanted).rows()
        if names := _unlike_autograd(model, record, findings):
            raise MeasureError(f"gradients differ from plain autograd at {', '.join(names)}")
    return replace(findings, checked=wanted.parameters and wanted.jacobian), record


def checked_findings(model: nn.Module, inputs: Tensor, findings: Findings) -> Findings:
    """What the rules cover, from one backward pass: that of a random combination of the outputs.

    Raises what `checked_record` does.
    """
    for last in (False, True):
        graph = ForwardPass(model, inputs, findings)
        direction = _combination(graph.outputs[-1])
        record = graph.along(direction.expand_as(graph.outputs))
        names = _unlike_autograd(model, record, findings, direction) if findings.finite else []
        if not names:
            break
        if last:
            raise MeasureError(f"gradients differ from plain autograd at {', '.join(names)}")
        findings = findings.without(model, names, NOT_PLAIN)
    return findings


def _combination(outputs: Tensor) -> Tensor:
    """A random combination of the outputs, always the same: (N,)."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(len(outputs), generator=generator).to(outputs)


def _unlike_autograd(
    model: nn.Module, record: Record, findings: Findings, along: Tensor | None = None
) -> list[str]:
    """Names of the layers whose gradients for the last sample differ from plain autograd.

    along: the combination of the outputs that the record is of; None: it is of all of them.

    The sample is differentiated alone. A difference is confirmed in its batch, where the forward
    pass is the recorded one to the bit, so that no kink or tie can lie between the two; and one
    output after the other, as some networks round a part of their computation to float32.
    """
    outputs = record.outputs[-1]
    direction = _combination(outputs)
    named = dict(model.named_parameters())
    generic = {id(named[name]) for name in findings.generic}
    one = torch.ones_like(direction[:1]), direction[None]
    ours = _recorded_gradients(record, direction if along is None else one[0], generic)
    each = (direction, torch.eye(len(direction)).to(direction)) if along is None else one
    precision = outputs.dtype
    names: list[str] = []
    for inputs, combined in ((record.inputs[-1:], one), (record.inputs, each)):
        last, theirs = _autograd(model, inputs, *combined, findings.modules)
        if far_apart(last, outputs):
            raise MeasureError(MIXES)
        norms = {key: float(vector_norm(gradient)) for key, gradient in theirs.items()}
        floor = CANCELLED * max(norms.values())
        names = []
        for key, (gradient, users) in ours.items():
            allowed = CLOSE[precision] * max(norms[key], floor)
            apart = vector_norm(gradient - theirs[key].flatten())
            if float(apart) > allowed:  # not if it is not finite
                names += users
        if not names:
            break
        precision = torch.float32 if record.casts else precision
    if "" in names:
        raise MeasureError(
            "the input gradient differs from plain autograd, so flatlab refuses to report exact "
            "values for this network"
        )
    return list(dict.fromkeys(names))


def _autograd(
    model: nn.Module,
    inputs: Tensor,
    factors: Tensor,
    directions: Tensor,
    modules: Mapping[str, nn.Module],
) -> tuple[Tensor, dict[int, Tensor]]:
    """The outputs f of the last sample, and gradients by plain autograd.

    The sum over the directions of a factor times the gradient of <direction, f>, by identity: with
    respect to each trainable parameter, and under 0 to the sample. Layers are given copies of
    their inputs only where autograd refuses otherwise: a network may change what a layer needs.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    for copied in ({}, modules):
        x = inputs.clone().requires_grad_(inputs.is_floating_point())
        with recorded(copied), reading(model, x) as source:
            last = run(model, x)[-1]
        edges: list[Tensor] = [source.leaf, *parameters]
        sums: list[Tensor] = []
        try:
            for factor, direction in zip(factors.tolist(), directions, strict=True):
                flags: dict[str, Any] = {"retain_graph": True, "materialize_grads": True}
                rows = torch.autograd.grad(last @ direction, edges, **flags)
                part = [*rows] if factor == 1 else [factor * row for row in rows]
                sums = [a + b for a, b in zip(sums, part, strict=True)] if sums else part
        except RuntimeError as error:
            problem = f"plain autograd cannot differentiate the network: {first_line(error)}"
            continue
        return last.detach(), dict(
            zip([0, *map(id, parameters)], [sums[0][-1], *sums[1:]], strict=True)
        )
    raise MeasureError(problem)


def _recorded_gradients(
    record: Record, direction: Tensor, generic: set[int]
) -> dict[int, tuple[Tensor, list[str]]]:
    """The same gradients from the record, flattened, and the names of the layers they are of.

    generic: identities of the parameters that no rule covers, which are left out.
    """
    samples = len(record.inputs)

    def last(rows: Tensor) -> Tensor:
        last_rows = rows[:, rows.shape[1] - rows.shape[1] // samples :]
        return (direction @ last_rows.reshape(len(last_rows), -1)).view(last_rows.shape[1:])

    by_parameter: dict[int, tuple[Tensor, list[str]]] = {}
    for use, gammas in record.out.items():
        use_of_last = replace(use, x=use.x[len(use.x) - len(use.x) // samples :])
        gamma = last(gammas)[None]
        gradients = vector_gradients(use_of_last, gamma, 1)
        if isinstance(use.module, MATRICES):
            u, g = columns(use_of_last, gamma, 1)
            gradients["weight"] = torch.matmul(g[0, :, 0], u[0].mT)
        for name, gradient in gradients.items():
            parameter = use.module._parameters.get(name)
            if parameter is None or not parameter.requires_grad or id(parameter) in generic:
                continue
            gradient = gradient.flatten()
            before, names = by_parameter.get(id(parameter), (None, []))
            gradient = gradient if before is None else before + gradient
            by_parameter[id(parameter)] = gradient, [*names, use.name]
    whole = {0: (last(record.whole).flatten(), [""])} if record.whole.numel() else {}
    return by_parameter | whole
