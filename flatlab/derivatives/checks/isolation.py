"""Isolation of a measurement: its arithmetic, and the state of the model and of torch around it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import nn

from flatlab.precision import float32_products


@contextmanager
def preserving_state(model: nn.Module) -> Iterator[None]:
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
