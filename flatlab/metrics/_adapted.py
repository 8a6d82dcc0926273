"""Networks with several inputs or other outputs, as maps of one tensor to a vector per sample.

A network is copied without its parameters, which both share, and given another forward; names of
layers and parameters stay what they are.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.derivatives.errors import MeasureError
from flatlab.derivatives.probe import run

Structure = Tensor | tuple[Tensor, ...] | dict[str, Tensor]
"""The inputs of a network: a tensor, several, or several by name; (samples, ...) each."""
LOGITS = "logits"
"""The output that is meant where a network returns several by name."""


@dataclass(frozen=True)
class Layout:
    """How several inputs lie in one tensor, side by side.

    names: those of arguments; None: they are given by place.
    shapes: of each input, without the samples.
    types: of each input.
    """

    names: tuple[str, ...] | None
    shapes: tuple[tuple[int, ...], ...]
    types: tuple[torch.dtype, ...]

    @classmethod
    def of(cls, inputs: tuple[Tensor, ...] | dict[str, Tensor]) -> "Layout":
        parts = list(inputs.values()) if isinstance(inputs, dict) else list(inputs)
        names = tuple(inputs) if isinstance(inputs, dict) else None
        return cls(names, tuple(tuple(p.shape[1:]) for p in parts), tuple(p.dtype for p in parts))

    @property
    def mixed(self) -> bool:
        """Whether some inputs have real numbers and others integers."""
        return len({kind.is_floating_point for kind in self.types}) > 1

    def packed(self, inputs: tuple[Tensor, ...] | dict[str, Tensor]) -> Tensor:
        """(samples, numbers of all inputs): integers, unless an input has real numbers."""
        parts = list(inputs.values()) if isinstance(inputs, dict) else list(inputs)
        real = next((p.dtype for p in parts if p.is_floating_point()), torch.long)
        return torch.cat([part.reshape(len(part), -1).to(real) for part in parts], 1)

    def unpacked(self, x: Tensor) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        """Positional and named arguments of a network from the packed tensor."""
        sizes = [max(torch.Size(shape).numel(), 0) for shape in self.shapes]
        parts = []
        for part, shape, kind in zip(x.split(sizes, 1), self.shapes, self.types, strict=True):
            part = part.reshape(len(x), *shape)
            if not kind.is_floating_point:
                part = (part.round() if part.is_floating_point() else part).to(kind)
            parts.append(part)
        if self.names is None:
            return tuple(parts), {}
        return (), dict(zip(self.names, parts, strict=True))


def adapted(
    model: nn.Module, x: Tensor, layout: Layout | None, output: str | int | None
) -> tuple[nn.Module, int]:
    """The network as a map of (samples, ...) to (samples, N), itself where it is one; and classes.

    model: the network.
    x: samples, packed as `layout` says.
    layout: of several inputs; None: there is one.
    output: which output is meant, by its key, attribute or place; None: the only one, or `logits`.

    Outputs (samples,) become (samples, 1). (samples, positions, classes), and (samples, classes,
    height, width), become vectors in which the classes of a position lie side by side; their number
    is returned, and 0 where there are no positions.
    Raises `MeasureError` where it is not known which output is meant.
    """
    with torch.no_grad():
        raw: Any = run(_with_forward(model, layout, None, 0), x[:2].clone())
    step = None if isinstance(raw, Tensor) and output is None else _chosen(raw, output)
    if step is not None and not isinstance(raw := _part(raw, step), Tensor):
        raise MeasureError(f"the output {step!r} is {type(raw).__name__}, not a tensor")
    classes = 0 if raw.ndim < 3 else raw.shape[1 if raw.ndim > 3 else -1]
    if layout is None and step is None and raw.ndim == 2:
        return model, 0
    return _with_forward(model, layout, step, raw.ndim), classes


def _chosen(raw: Any, output: str | int | None) -> str | int:
    """Which of several outputs is meant."""
    known = _names(raw)
    if output is not None:
        if output not in known:
            there = ", ".join(map(repr, known)) or "nothing else"
            raise MeasureError(f"output={output!r}: the network returns {there}")
        return output
    if LOGITS in known:
        return LOGITS
    if len(known) == 1:
        return known[0]
    kind, there = type(raw).__name__, ", ".join(map(repr, known))
    raise MeasureError(f"the network returns a {kind}; say with output= which is meant: {there}")


def _names(raw: Any) -> list[str | int]:
    if isinstance(raw, Tensor):
        return []
    if isinstance(raw, Mapping):
        return [key for key, value in raw.items() if isinstance(value, Tensor)]
    if isinstance(raw, Sequence) and not isinstance(raw, str):
        return [*getattr(raw, "_fields", ()), *range(len(raw))]
    return [key for key, value in vars(raw).items() if isinstance(value, Tensor)]


def _part(raw: Any, step: str | int) -> Any:
    if isinstance(raw, Mapping) or isinstance(step, int):
        return raw[step]
    return getattr(raw, step)


def _with_forward(
    model: nn.Module, layout: Layout | None, step: str | int | None, ndim: int
) -> nn.Module:
    """The network with another forward.  ndim: dimensions of its outputs; 0: as they are."""
    if layout is None and not ndim:
        return model
    if isinstance(model, torch.jit.ScriptModule):
        raise MeasureError("a scripted network must map one tensor to one vector per sample")
    kind = type(model)

    def forward(self: Any, x: Tensor) -> Any:
        args, kwargs = layout.unpacked(x) if layout else ((x,), {})
        raw = kind.forward(self, *args, **kwargs)
        if not ndim:
            return raw
        raw = raw if step is None else _part(raw, step)
        if ndim == 1:
            return raw[:, None]
        return raw.movedim(1, -1).flatten(1) if ndim > 3 else raw.flatten(1)

    other = copy.copy(model)
    other.__class__ = type(kind.__name__, (kind,), {"forward": forward})
    return other
