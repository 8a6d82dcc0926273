"""Guards of a measurement: its arithmetic, and the state of the model and of torch around it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import nn

from flatlab.precision import float32_products

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
    return any(
        sign in str(error) for sign in ("out of memory", "DefaultCPUAllocator", "ALLOC_FAILED")
    )


def is_of_device(error: Exception) -> bool:
    """Whether a GPU has failed, and not for lack of memory: nothing works in this process then."""
    signs = "CUDA error", "CUBLAS_STATUS", "CUDNN_STATUS"
    failed = isinstance(error, torch.AcceleratorError) or any(s in str(error) for s in signs)
    return failed and not is_of_memory(error)


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Leave buffers, random generators and flags as they were, even after an error.

    Inside, gradients are on, autocast is off, float32 products have full precision, and cuDNN takes
    algorithms that repeat bit for bit, chosen without a trial.
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
        stack.enter_context(float32_products())
        cudnn = torch.backends.cudnn
        for name, value in (("deterministic", True), ("benchmark", False)):
            stack.callback(setattr, cudnn, name, getattr(cudnn, name))
            setattr(cudnn, name, value)
        try:
            yield
        finally:
            with torch.no_grad():
                for module, name, buffer, before in buffers:
                    module._buffers[name] = buffer
                    if not torch.equal(buffer, before):
                        buffer.copy_(before)


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
