"""What must not change: the arithmetic inside a measurement, and the model and torch outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch
from torch import nn


class MeasureError(RuntimeError):
    """A network that cannot be measured exactly; the message says why and what to do."""


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Leave buffers, random generators and flags as they are, also after an error.

    Inside: gradients on, autocast off, float32 products in full precision (no TF32, no bfloat16).
    """
    buffers = [
        (module, name, buffer, buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    devices = {tensor.device.type for tensor in (*model.parameters(), *model.buffers())} | {"cpu"}
    graphics = {p.device.index for p in model.parameters() if p.device.type == "cuda"}
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=graphics))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for device in devices:
            stack.enter_context(torch.autocast(device, enabled=False))
        stack.enter_context(full_precision())
        try:
            yield
        finally:
            with torch.no_grad():
                for module, name, buffer, before in buffers:
                    module._buffers[name] = buffer
                    if not torch.equal(buffer, before):
                        buffer.copy_(before)


@contextmanager
def full_precision() -> Iterator[None]:
    """Float32 matrix products and convolutions with all their bits, whatever the settings say.

    torch has an old and a new set of flags and may raise where a program mixes them: the old
    ones are set where they can be read, then what the new ones still allow is taken away.
    """
    undo: list[tuple[Any, str, Any]] = []

    def set_to(holder: Any, name: str, value: Any) -> None:
        undo.append((holder, name, getattr(holder, name)))
        setattr(holder, name, value)

    backends = torch.backends
    try:
        matmul = torch.get_float32_matmul_precision()
    except RuntimeError:
        matmul = None
    if matmul == "highest":  # setting it again would set what nobody set
        matmul = None
    try:
        if matmul is not None:
            torch.set_float32_matmul_precision("highest")
        with suppress(RuntimeError):
            set_to(backends.cudnn, "allow_tf32", False)
        kinds: list[Any] = [backends.cuda.matmul]
        for library, names in (
            (backends.cudnn, ("conv", "rnn")),
            (backends.mkldnn, ("matmul", "conv", "rnn")),
        ):
            kinds += [getattr(library, name) for name in names]
        for kind in kinds:
            if kind.fp32_precision not in ("none", "ieee"):
                set_to(kind, "fp32_precision", "ieee")
        yield
    finally:
        for holder, name, value in reversed(undo):
            setattr(holder, name, value)
        if matmul is not None:
            torch.set_float32_matmul_precision(matmul)


def check_mode(model: nn.Module) -> None:
    """Refuse modules that are random, or that mix the samples of a batch."""
    for name, module in model.named_modules():
        kind = f"layer {name!r} ({type(module).__name__})"
        dropout = isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0
        if dropout and module.training:
            raise MeasureError(f"{kind} drops at random in training mode; call model.eval()")
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            if module.training:
                raise MeasureError(
                    f"{kind} mixes the samples of a batch in training mode; call model.eval()"
                )
            if module.running_mean is None:
                raise MeasureError(
                    f"{kind} has no running statistics, so it mixes the samples of a batch even "
                    "in evaluation mode; build it with track_running_stats=True"
                )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise MeasureError(
            "no parameter of the network requires gradients, so that there is no sharpness; "
            "call model.requires_grad_(True)"
        )
