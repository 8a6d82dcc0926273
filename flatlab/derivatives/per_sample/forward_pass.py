"""A forward pass of some samples, and backward passes from it: derivatives at the layers."""

from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from flatlab.core.errors import MeasureError
from flatlab.derivatives.per_sample.graph import graph_of
from flatlab.derivatives.per_sample.hooks import Use, pulled_back, recorded, rows_of_jacobian
from flatlab.derivatives.per_sample.layers import MATRICES
from flatlab.derivatives.per_sample.probe import Findings, calls_of, run
from flatlab.derivatives.per_sample.source import reading


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
    """

    parameters: bool = True
    jacobian: bool = True
    layers: bool = True


EVERYTHING = Wanted()


class ForwardPass:
    """A forward pass whose graph is kept for any number of backward passes.

    model: the network.
    inputs: (samples, ...).
    findings: of `probe`.
    wanted: of the derivatives.

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
        self.casts = "ToCopyBackward0" in operations
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
