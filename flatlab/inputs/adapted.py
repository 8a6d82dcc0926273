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
from flatlab.derivatives.per_sample.probe import run

Structure = Tensor | tuple[Tensor, ...] | dict[str, Tensor]
"""The inputs of a network: a tensor, several, or several by name; (samples, ...) each."""
LOGITS = "logits"
"""The output that is meant where a network returns several by name."""
ATTENTION = "attention_mask"
"""The input that says which positions of a sequence are no padding."""
DIGIT = 20
"""Bits of a digit of an integer that the real numbers beside it do not hold."""


@dataclass(frozen=True)
class Layout:
    """How inputs lie in one tensor, side by side; masks are the last of them.

    names: those of arguments; None: they are given by place.
    shapes: of each input, without the samples.
    types: of each input.
    digits: whether each input has integers that the real numbers beside it do not hold: three
        digits of them lie in their place.
    padding: whether the last input is an attention mask, which the network takes.
    positions: numbers of a last part, which says what positions of a sample count.
    """

    names: tuple[str, ...] | None
    shapes: tuple[tuple[int, ...], ...]
    types: tuple[torch.dtype, ...]
    digits: tuple[bool, ...]
    padding: bool = False
    positions: int = 0

    @classmethod
    def of(cls, inputs: Structure, positions: int = 0) -> "Layout":
        parts = _parts(inputs)
        names = tuple(sorted(inputs, key=ATTENTION.__eq__)) if isinstance(inputs, dict) else None
        types, padding = tuple(p.dtype for p in parts), names is not None and ATTENTION in names
        held = [2 / torch.finfo(kind).eps for kind in types if kind.is_floating_point]

        def beyond(part: Tensor) -> bool:
            whole = not part.is_floating_point() and part.dtype.itemsize > 2 and part.numel() > 0
            return bool(held) and whole and int(part.long().abs().max()) > held[0]

        digits = tuple(map(beyond, parts))
        shapes = tuple((*[3] * d, *p.shape[1:]) for p, d in zip(parts, digits, strict=True))
        return cls(names, shapes, types, digits, padding, positions)

    @property
    def mixed(self) -> bool:
        """Whether some inputs have real numbers and others, that are no masks, integers."""
        types = self.types[:-1] if self.padding else self.types
        return len({kind.is_floating_point for kind in types}) > 1

    @property
    def masks(self) -> int:
        """How many numbers of a sample, the last ones, are masks."""
        return self.positions + (torch.Size(self.shapes[-1]).numel() if self.padding else 0)

    def packed(self, inputs: Structure, kept: Tensor | None = None) -> Tensor:
        """(samples, numbers of all inputs): integers, unless an input has real numbers.

        kept: the positions that count, (samples, positions).
        """
        digit = 2**DIGIT - 1
        parts = [
            torch.stack([part >> 2 * DIGIT, part >> DIGIT & digit, part & digit], 1)
            if long
            else part
            for part, long in zip(_parts(inputs), self.digits, strict=True)
        ]
        numbers = parts[:-1] if self.padding else parts
        real = next((p.dtype for p in numbers if p.is_floating_point()), torch.long)
        parts = parts if kept is None else [*parts, kept]
        return torch.cat([part.reshape(len(part), -1).to(real) for part in parts], 1)

    def unpacked(self, x: Tensor) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        """Positional and named arguments of a network from the packed tensor."""
        parts = []
        for part, kind, digits in zip(self._split(x), self.types, self.digits, strict=True):
            if part.is_floating_point() and not kind.is_floating_point:
                part = part.round()
            if digits:
                high, middle, low = part.long().unbind(1)
                part = (high << 2 * DIGIT) + (middle << DIGIT) + low
            same = part.is_floating_point() == kind.is_floating_point
            parts.append(part if same else part.to(kind))
        if self.names is None:
            return tuple(parts), {}
        return (), dict(zip(self.names, parts, strict=True))

    def _split(self, x: Tensor) -> Iterator[Tensor]:
        start = 0
        for shape in self.shapes:
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
        attended = next(reversed(self.unpacked(x)[1].values())) != 0 if self.padding else None
        if values.shape != x.shape:  # embeddings
            fits = attended is not None and values.shape[:2] == attended.shape
            return values * attended[..., None] if fits and attended is not None else values
        parts = []
        for part in self._split(values):
            if attended is not None and part.shape[:2] == attended.shape:
                part = part * attended.view(*attended.shape, *[1] * (part.ndim - 2))
            parts.append(part.flatten(1))
        whole = torch.cat(parts, 1)
        unmasked = x.shape[1] - self.masks
        return torch.cat([whole[:, :unmasked], torch.zeros_like(x[:, unmasked:])], 1)


def _parts(inputs: Structure) -> list[Tensor]:
    """Inputs in the order of `Layout`."""
    if isinstance(inputs, Tensor):
        return [inputs]
    if isinstance(inputs, dict):
        return [inputs[name] for name in sorted(inputs, key=ATTENTION.__eq__)]
    return list(inputs)


@dataclass(frozen=True)
class Outputs:
    """What a network returns.

    shape: of one sample, without the samples.
    key: of it among several outputs; None: the network returns it alone.
    """

    shape: tuple[int, ...]
    key: str | int | None

    @property
    def classes(self) -> int:
        """Outputs for each position, where samples have positions; otherwise 0."""
        return 0 if len(self.shape) < 2 else self.shape[0 if len(self.shape) > 2 else -1]

    def natural(self, flat: Tensor) -> Tensor:
        """Outputs (samples, ...) as the network returns them, from one vector for each sample."""
        if len(self.shape) < 3:
            return flat.reshape(len(flat), *self.shape)
        return flat.reshape(len(flat), *self.shape[1:], self.shape[0]).movedim(-1, 1)


def outputs_of(
    model: nn.Module, x: Tensor, layout: Layout | None, output: str | int | None
) -> Outputs:
    """What the network returns, on two samples.

    model: the network.
    x: samples, packed as `layout` says.
    layout: of several inputs; None: there is one.
    output: which output is meant, by its key, attribute or place; None: the only one, or `logits`.

    Raises `MeasureError` where it is not known which output is meant.
    """
    with torch.no_grad():
        raw: Any = run(_with_forward(model, layout, None), x[:2].clone())
    key = None if isinstance(raw, Tensor) and output is None else _chosen(raw, output)
    if key is not None and not isinstance(raw := _part(raw, key), Tensor):
        raise MeasureError(f"the output {key!r} is {type(raw).__name__}, not a tensor")
    return Outputs(tuple(raw.shape[1:]) if raw.ndim else (1,), key)


def adapted(model: nn.Module, layout: Layout | None, outputs: Outputs) -> nn.Module:
    """The network as a map of (samples, ...) to (samples, N), itself where it is one.

    Outputs (samples,) become (samples, 1). (samples, positions, classes), and (samples, classes,
    height, width), become vectors in which the classes of a position lie side by side. Outputs at
    positions that do not count are 0, so that they have no derivatives.
    """
    plain = layout is None and outputs.key is None and len(outputs.shape) == 1
    return model if plain else _with_forward(model, layout, outputs)


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


def _part(raw: Any, key: str | int) -> Any:
    if isinstance(raw, Mapping) or isinstance(key, int):
        return raw[key]
    return getattr(raw, key)


def _with_forward(model: nn.Module, layout: Layout | None, outputs: Outputs | None) -> nn.Module:
    """The network with another forward.  outputs: that are meant; None: all as they are."""
    if layout is None and outputs is None:
        return model
    if isinstance(model, torch.jit.ScriptModule):
        raise MeasureError("a scripted network must map one tensor to one vector per sample")
    kind = type(model)

    def forward(self: Any, x: Tensor) -> Any:
        args, kwargs = layout.unpacked(x) if layout else ((x,), {})
        raw = kind.forward(self, *args, **kwargs)
        if outputs is None:
            return raw
        raw = raw if outputs.key is None else _part(raw, outputs.key)
        if raw.ndim == 1:
            return raw[:, None]
        flat = raw.movedim(1, -1).flatten(1) if raw.ndim > 3 else raw.flatten(1)
        if layout is None or not layout.positions:
            return flat
        return flat * layout.kept(x).repeat_interleave(outputs.classes, 1).to(flat)

    other = copy.copy(model)
    # The class, not an attribute of the copy: `type(model).forward` decides what rules cover.
    changed = {"forward": forward, "flatlab_seen": staticmethod(layout.seen)} if layout else {}
    other.__class__ = type(kind.__name__, (kind,), changed or {"forward": forward})
    return other
