"""What a step or a measurement must do at least, and what a GPU is busy with meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd import DeviceType
from torch.utils.flop_counter import FlopCounterMode


class Least(NamedTuple):
    """Bytes that are moved and floating-point operations that are done."""

    bytes: float
    operations: float


@dataclass(frozen=True)
class Work:
    """One network.  outputs: numbers that its linear and convolution layers return for a sample.

    forward, both: floating-point operations for a sample, forward alone and with the backward pass.
    """

    weights: int
    outputs: int
    forward: int
    both: int

    def training(self, batch: int) -> Least:
        """A step of plain SGD in float32.

        Weights are read in both passes and by the update, and written; their gradients are written
        and read. Outputs of layers are written and read twice, and so are their gradients.
        """
        return Least(4 * 6 * (self.weights + batch * self.outputs), batch * self.both)

    def measuring(self, samples: int, outputs: int, numbers: torch.finfo) -> Least:
        """The derivatives of all outputs of some samples.

        One forward pass, and for each output one backward pass and the gradients of the weights.
        The derivatives at both ends of each activation are written, and read twice.
        """
        moved = 3 * 2 * outputs * self.outputs * numbers.bits // 8
        return Least(samples * moved, samples * (1 + 2 * outputs) * self.forward)


def work_of(model: nn.Module, shape: tuple[int, ...]) -> Work:
    """Counted in a forward and a backward pass of one sample."""
    device = next(model.parameters()).device
    outputs: list[int] = []
    hooks = [
        layer.register_forward_hook(lambda module, given, output: outputs.append(output.numel()))
        for layer in model.modules()
        if isinstance(layer, nn.Linear | nn.Conv2d)
    ]
    with FlopCounterMode(display=False) as counter:
        total = model(torch.rand(1, *shape, device=device)).sum()
        forward = counter.get_total_flops()
        total.backward()
    for hook in hooks:
        hook.remove()
    model.zero_grad()
    weights = sum(parameter.numel() for parameter in model.parameters())
    return Work(weights, sum(outputs), forward, counter.get_total_flops())


def wait() -> None:
    """Wait until a GPU that is in use has finished."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def profiled(function: Callable[[], Any], device: str) -> list[dict[str, Any]]:
    """What runs on the device meanwhile, the longest first: name, calls, microseconds.

    On a CPU these are the operations.
    """
    on_gpu = device == "cuda"
    kind = torch.profiler.ProfilerActivity.CUDA if on_gpu else torch.profiler.ProfilerActivity.CPU
    where, time = (
        (DeviceType.CUDA, "self_device_time_total")
        if on_gpu
        else (DeviceType.CPU, "self_cpu_time_total")
    )
    wait()
    with torch.profiler.profile(activities=[kind]) as profile:
        function()
        wait()
    found = [
        {"name": event.key, "calls": event.count, "us": getattr(event, time)}
        for event in profile.key_averages()
        if event.device_type == where and not getattr(event, "is_user_annotation", False)
    ]
    return sorted(found, key=lambda kernel: -kernel["us"])
