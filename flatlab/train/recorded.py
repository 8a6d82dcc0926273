"""Training steps recorded as CUDA graphs: launching their kernels one by one takes longer."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from flatlab.train.minibatches import Chunk, chunk_steps

if TYPE_CHECKING:
    from flatlab.train.stacks import Stack

STREAMS = 8
WARM_UP = 3


class Recorded:
    """The steps of a stack on a GPU: recorded once as a CUDA graph, then replayed.

    Whatever changes from step to step is on the device: the recorded step reads its position in the
    order of the data there, and increments it.
    """

    def __init__(self, stack: Stack, device: torch.device) -> None:
        self.stack = stack
        self.chunk: Chunk = {}
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.stream = next(_streams()) if device.type == "cuda" else None
        self.graph: torch.cuda.CUDAGraph | None = None

    def load(self, chunk: Chunk) -> None:
        if self.stream:  # states may just have been written, on the stream of all else
            self.stream.wait_stream(torch.cuda.default_stream(self.position.device))
        with torch.cuda.stream(self.stream):
            for name, tensor in chunk.items():
                if name not in self.chunk:
                    self.chunk[name] = self._reserved(tensor)
                self.chunk[name][: len(tensor)].copy_(tensor)
            self.position.zero_()

    def _reserved(self, tensor: Tensor) -> Tensor:
        """Space on the device for the longest chunk."""
        split, training = self.stack.split, self.stack.training
        steps = chunk_steps(len(self.stack), len(split), training)
        dtype = split.inputs.dtype if tensor.is_floating_point() else tensor.dtype
        return torch.zeros(steps, *tensor.shape[1:], dtype=dtype, device=self.position.device)

    def step(self) -> None:
        if self.graph is None:
            self.graph = self._record()
        with torch.cuda.stream(self.stream):
            self.graph.replay()

    def advance(self) -> None:
        """The step that is recorded."""
        now = {name: each.index_select(0, self.position)[0] for name, each in self.chunk.items()}
        self.stack.advance(now)
        self.position.add_(1)

    def _record(self) -> torch.cuda.CUDAGraph:
        """Record a step, after a few that warm up the libraries and are then undone."""
        before = {name: tensor.clone() for name, tensor in self.stack.views().items()}
        torch.cuda.synchronize()
        with torch.cuda.stream(self.stream):
            for _ in range(WARM_UP):
                self.position.zero_()
                self.advance()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self.advance()
        for name, tensor in self.stack.views().items():
            tensor.copy_(before[name])
        self.position.zero_()
        torch.cuda.synchronize()
        return graph


@functools.cache
def _streams() -> itertools.cycle[Any]:
    """The streams of this process in turn: the stacks share a few of them."""
    return itertools.cycle([torch.cuda.Stream() for _ in range(STREAMS)])
