"""Networks with several inputs or other outputs, as maps of one tensor to a vector per sample.

A network is copied without its parameters, which both share, and given another forward. A wrapper
around it would be simpler, but it would put a prefix before every name of a layer and a parameter,
by which users choose, rules find their modules and results are labelled, and what asks for the type
of the network or hooks it would see the wrapper.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError

Structure = Tensor | tuple[Tensor, ...] | dict[str, Tensor]
"""The inputs of a network: a tensor, several, or several by name; (samples, ...) each."""
LOGITS = "logits"
"""The output that is meant where a network returns several by name."""
ATTENTION = "attention_mask"
"""The input that says which positions of a sequence are no padding."""


CALLED = "_forward_", "_compiled_call", "forward"
"""How names of attributes begin by which a module is called in another way than its class says."""


@dataclass(frozen=True)
class Layout:
    """How inputs lie in one tensor, side by side: real numbers, and behind them masks.

    Integers beside real numbers are no part of it, as what holds real numbers holds few of them:
    a number of each sample, the last one or before `positions`, says which of theirs are meant.

    shapes: of each input by its name or place, without the samples, in this order.
    types: of each input.
    beside: inputs that are integers beside real ones, of all samples.
    padding: whether the last input is an attention mask, which the network takes.
    positions: numbers of a last part, which says what positions of a sample count.
    """

    shapes: Mapping[str | int, tuple[int, ...]]
    types: Mapping[str | int, torch.dtype]
    beside: Mapping[str | int, Tensor]
    padding: bool = False
    positions: int = 0

    @classmethod
    def of(cls, inputs: Structure, positions: int = 0) -> "Layout":
        parts = _parts(inputs)
        kept, real = [*parts], any(parts[n].is_floating_point() for n in parts if n != ATTENTION)
        if real:
            kept = [n for n in parts if n == ATTENTION or parts[n].is_floating_point()]
        shapes = {name: tuple(parts[name].shape[1:]) for name in kept}
        types = {name: parts[name].dtype for name in kept}
        beside = {name: part for name, part in parts.items() if name not in kept}
        return cls(shapes, types, beside, ATTENTION in parts, positions)

    @property
    def masks(self) -> int:
        """How many numbers of a sample, the last ones, are none of its real inputs."""
        mask = torch.Size(self.shapes[ATTENTION]).numel() if self.padding else 0
        return mask + bool(self.beside) + self.positions

    def packed(self, inputs: Structure, kept: Tensor | None = None) -> Tensor:
        """(samples, numbers of all inputs): integers, unless an input has real numbers.

        kept: the positions that count, (samples, positions).
        """
        given = _parts(inputs)
        parts = [given[name] for name in self.shapes]
        numbers = parts[:-1] if self.padding else parts
        real = next((p.dtype for p in numbers if p.is_floating_point()), torch.long)
        if self.beside:
            parts.append(torch.arange(len(parts[0]), device=parts[0].device))
        parts += [] if kept is None else [kept]
        return torch.cat([part.reshape(len(part), -1).to(real) for part in parts], 1)

    def unpacked(self, x: Tensor) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        """Positional and named arguments of a network from the packed tensor."""
        parts: dict[Any, Tensor] = {}
        for (name, kind), part in zip(self.types.items(), self._split(x), strict=True):
            real = part.is_floating_point() and kind.is_floating_point
            parts[name] = part if real else part.round().to(kind)
        if self.beside:
            which = x[:, x.shape[1] - self.positions - 1].detach().round().long()
            parts |= {name: part[which] for name, part in self.beside.items()}
        if 0 in parts:
            return tuple(parts[place] for place in sorted(parts)), {}
        return (), parts

    def _split(self, x: Tensor) -> Iterator[Tensor]:
        start = 0
        for shape in self.shapes.values():
            end = start + torch.Size(shape).numel()
            yield x[:, start:end].reshape(len(x), *shape)
            start = end

    def kept(self, x: Tensor) -> Tensor:
        """The positions that count, (samples, positions)."""
        return x[:, x.shape[1] - self.positions :].detach().round() != 0

    def seen(self, x: Tensor, values: Tensor) -> Tensor:
        """What derivatives are with respect to, 0 where it is a mask or padding.

        x: packed.  values: x itself, or the embeddings of tokens, (samples, ...).
        """
        attended = self.unpacked(x)[1][ATTENTION] != 0 if self.padding else None

        def without_padding(part: Tensor) -> Tensor:
            if attended is None or part.shape[:2] != attended.shape:
                return part
            return part * attended.view(*attended.shape, *[1] * (part.ndim - 2))

        if values.shape != x.shape:  # embeddings
            return without_padding(values)
        parts = [without_padding(part).flatten(1) for part in self._split(values)]
        whole = torch.cat(parts, 1)[:, : x.shape[1] - self.masks]
        return torch.cat([whole, torch.zeros_like(x[:, whole.shape[1] :])], 1)


def by_name(inputs: Any) -> dict[Any, Any]:
    """Each input by its name, or its place."""
    if isinstance(inputs, dict):
        return inputs
    return dict(enumerate(inputs if isinstance(inputs, tuple) else (inputs,)))


def in_form(inputs: Any, parts: dict[Any, Any]) -> Any:
    """Parts by name, or by place, in the form of inputs: one, several, or several by name."""
    if isinstance(inputs, dict):
        return parts
    return tuple(parts.values()) if isinstance(inputs, tuple) else parts[0]


def _parts(inputs: Structure) -> dict[Any, Tensor]:
    """Inputs by name or place, in the order of `Layout`: an attention mask is the last."""
    parts = by_name(inputs)
    return {name: parts[name] for name in sorted(parts, key=lambda name: name == ATTENTION)}


@dataclass(frozen=True)
class Outputs:
    """What a network returns.

    shape: of one sample, without the samples.
    key: of it among several outputs; None: the network returns it alone.
    second: whether, where samples have positions, classes are the second axis, and not the last.
    """

    shape: tuple[int, ...]
    key: str | int | None
    second: bool

    @property
    def classes(self) -> int:
        """Outputs for each position, where samples have positions; otherwise 0."""
        return 0 if len(self.shape) < 2 else self.shape[0 if self.second else -1]

    def meant(self, raw: Any) -> Tensor:
        """The output that is meant, of what the network returns."""
        part: Tensor = raw if self.key is None else _named(raw)[self.key]
        return part

    def flat(self, raw: Tensor) -> Tensor:
        """One vector for each sample, in which the classes of a position lie side by side."""
        return (raw.movedim(1, -1) if self.second else raw).reshape(len(raw), -1)

    def natural(self, flat: Tensor) -> Tensor:
        """Outputs (samples, ...) as the network returns them, from `flat` ones."""
        if not self.second:
            return flat.reshape(len(flat), *self.shape)
        return flat.reshape(len(flat), *self.shape[1:], self.classes).movedim(-1, 1)


def outputs_of(
    raw: Any, output: str | int | None, targets: Tensor | None, axis: int | None
) -> Outputs:
    """What a network returns, from an example of it.

    output: which output is meant, by its key, attribute or place; None: the only one, or `logits`.
    targets: as given.
    axis: that of classes where samples have positions, 1 or -1; None: that which labels leave.

    Raises `MeasureError` where it is not known which output is meant, or which axis.
    """
    key = None if isinstance(raw, Tensor) and output is None else _chosen(raw, output)
    if key is not None and not isinstance(raw := _named(raw)[key], Tensor):
        raise MeasureError(f"the output {key!r} is {type(raw).__name__}, not a tensor")
    if raw.is_complex():
        raise MeasureError(f"outputs are {raw.dtype}; return their real and imaginary parts")
    shape = tuple(raw.shape[1:])
    second = len(shape) > 2 if axis is None else axis == 1
    if axis is None and targets is not None and not targets.is_floating_point():
        fits = [tuple(targets.shape[1:]) == each for each in (shape[:-1], shape[1:])]
        if len(shape) > 1 and all(fits):
            raise MeasureError(
                f"outputs are {tuple(raw.shape)[1:]} and labels {shape[1:]} for each sample: "
                "class_axis=1 says that classes come first, as in torch's losses, class_axis=-1 "
                "that they come last"
            )
        second = fits[1] if any(fits) else second
    return Outputs(shape, key, second and len(shape) > 1)


def adapted(model: nn.Module, layout: Layout | None, outputs: Outputs) -> nn.Module:
    """The network as a map of (samples, ...) to (samples, N), itself where it is one.

    Outputs (samples,) become (samples, 1). Those at positions become vectors in which the classes
    of a position lie side by side. Outputs at positions that do not count are 0, so that they have
    no derivatives.
    """
    if layout is None and outputs.key is None and len(outputs.shape) == 1:
        return model
    if isinstance(model, torch.jit.ScriptModule):
        raise MeasureError("a scripted network must map one tensor to one vector per sample")
    kind, other = type(model), copy.copy(model)

    def forward(self: Any, x: Tensor) -> Any:
        args, kwargs = layout.unpacked(x) if layout else ((x,), {})
        given = object.__new__(kind)  # with its hooks, and perhaps a forward of its own
        vars(given).update(vars(self) | self.flatlab_called)
        flat = outputs.flat(outputs.meant(given(*args, **kwargs)))
        if layout is None or not layout.positions:
            return flat
        return flat * layout.kept(x).repeat_interleave(outputs.classes, 1).to(flat)

    own = vars(other)
    own["flatlab_called"] = {name: own[name] for name in own if name.startswith(CALLED)}
    for name, value in own["flatlab_called"].items():
        own[name] = type(value)() if isinstance(value, dict) else None
    own.pop("forward", None)
    # The class, not an attribute of the copy: `type(model).forward` decides what rules cover.
    changed = {"forward": forward, "flatlab_seen": staticmethod(layout.seen)} if layout else {}
    other.__class__ = type(kind.__name__, (kind,), changed or {"forward": forward})
    return other


def _chosen(raw: Any, output: str | int | None) -> str | int:
    """Which of several outputs is meant."""
    known = [*_named(raw)]
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


def _named(raw: Any) -> dict[str | int, Any]:
    """Several outputs by their keys, attributes or places."""
    if isinstance(raw, Tensor):
        return {}
    if isinstance(raw, Sequence) and not isinstance(raw, str):
        return {
            **{name: getattr(raw, name) for name in getattr(raw, "_fields", ())},
            **dict(enumerate(raw)),
        }
    parts = raw if isinstance(raw, Mapping) else vars(raw)
    return {key: value for key, value in parts.items() if isinstance(value, Tensor)}
