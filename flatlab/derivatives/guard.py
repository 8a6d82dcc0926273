"""Guards of a measurement: its arithmetic, and the state of the model and of torch around it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch
from torch import nn

MIXES = (
    "the outputs of one sample depend on another sample of the batch; nothing per sample is "
    "defined. If a layer uses statistics of the batch, call model.eval()"
)


class MeasureError(RuntimeError):
    """The network cannot be measured exactly; the message says why and what to do."""


def first_line(error: Exception) -> str:
    """What an error of torch says, without its hints."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def is_of_memory(error: Exception) -> bool:
    """Whether an error of torch says that memory does not suffice."""
    return "out of memory" in str(error) or "DefaultCPUAllocator" in str(error)


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Leave buffers, random generators and flags as they were, even after an error.

    Inside, gradients are on, autocast is off and float32 products have full precision.
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
    """Full precision for float32 matrix products and convolutions, whatever the settings.

    torch has an old and a new set of flags and may raise an error if a program mixes them: the old
    ones are set if they can be read, then whatever the new ones still allow is turned off.
    """
    backends: Any = torch.backends
    with ExitStack() as undo:

        def set_to(holder: Any, name: str, value: Any) -> None:
            undo.callback(setattr, holder, name, getattr(holder, name))
            setattr(holder, name, value)

        with suppress(RuntimeError):
            matmul = torch.get_float32_matmul_precision()
            if matmul != "highest":  # setting it again would count as a use of the old flags
                undo.callback(torch.set_float32_matmul_precision, matmul)
                torch.set_float32_matmul_precision("highest")
        with suppress(RuntimeError):
            set_to(backends.cudnn, "allow_tf32", False)
        on_gpu = backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn
        on_cpu = backends.mkldnn.matmul, backends.mkldnn.conv, backends.mkldnn.rnn
        for kind in (*on_gpu, *on_cpu):
            if kind.fp32_precision not in ("none", "ieee"):
                set_to(kind, "fp32_precision", "ieee")
        yield


def check_mode(model: nn.Module) -> None:
    """Refuse modules that draw at random, or that mix the samples of a batch."""
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
            "no parameter of the network requires gradients, so there is no sharpness; "
            "call model.requires_grad_(True)"
        )
