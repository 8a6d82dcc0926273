"""Training steps recorded as CUDA graphs: launching their kernels one by one takes longer.

The steps of a stack run on a stream of their own, beside those of other stacks, and everything else
on the current stream. The two wait for each other where they meet: the current stream in `settle`,
before it sees the state, and the steps at their next launch, since the state may have been changed.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import torch

from flatlab.data._tensors import Split
from flatlab.lab.train.minibatches import Chunk, chunk_steps

if TYPE_CHECKING:
    from flatlab.lab.train.stack import Stack

STREAMS = 8
"""Shared by all stacks of a process."""

BURST = 10
"""The steps that are launched together, once there are as many."""

WARM_UP = 3


def recordable(device: torch.device) -> bool:
    """Whether the steps on a device are recorded."""
    return device.type == "cuda"


class RecordedSteps:
    """The steps of a stack on a GPU, recorded once as CUDA graphs of one and of `BURST` steps.

    Whatever changes from step to step is on the device: the recorded step reads its position in the
    order of the data there, and increments it.

    split: the training set.
    runs: the number of networks.
    training: the section `training` of their pack.
    """

    def __init__(self, split: Split, runs: int, training: Any) -> None:
        self.dtype, self.device = split.inputs.dtype, split.device
        self.longest = chunk_steps(runs, len(split), training, self.device.type)
        self.chunk: Chunk = {}
        self.position = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.stream, self.pool = next(_streams())
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.requested = 0  # steps that are not launched yet
        self.state_changed = True  # whether the current stream may have changed the state since

    def load(self, chunk: Chunk) -> None:
        """Set what the next steps use, after those that were asked for before."""
        self.launch()
        self._follow()
        with torch.cuda.stream(self.stream):
            for name, tensor in chunk.items():
                if name not in self.chunk:
                    dtype = self.dtype if tensor.is_floating_point() else tensor.dtype
                    shape = self.longest, *tensor.shape[1:]
                    self.chunk[name] = torch.zeros(shape, dtype=dtype, device=self.device)
                self.chunk[name][: len(tensor)].copy_(tensor)
            self.position.zero_()

    def step(self, stack: Stack) -> None:
        """Ask for a step."""
        if not self.graphs:
            self._record(stack)
        self.requested += 1
        if self.requested == max(self.graphs):
            self.launch()

    def launch(self) -> None:
        """Launch the steps that were asked for."""
        count, self.requested = self.requested, 0
        if not count:
            return
        self._follow()
        with torch.cuda.stream(self.stream):
            if count in self.graphs:
                self.graphs[count].replay()
            else:
                for _ in range(count):
                    self.graphs[1].replay()

    def _follow(self) -> None:
        """Let the next steps wait for what the current stream has done to the state."""
        if self.state_changed:
            self.stream.wait_stream(torch.cuda.current_stream(self.device))
            self.state_changed = False

    def settle(self) -> None:
        """Let the current stream see the state after all steps that were asked for."""
        self.launch()
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        self.state_changed = True

    def advance(self, stack: Stack) -> None:
        """The step that is recorded."""
        step = {name: t.index_select(0, self.position)[0] for name, t in self.chunk.items()}
        stack.advance(step)
        self.position.add_(1)

    def _record(self, stack: Stack) -> None:
        """Record the graphs, after a few steps that warm up the libraries and are then undone."""
        state = [*stack.views().values()]
        before = [tensor.clone() for tensor in state]
        self._follow()
        with torch.cuda.stream(self.stream):
            for _ in range(WARM_UP):
                self.position.zero_()
                self.advance(stack)
        for steps in {1, min(BURST, self.longest)}:
            with torch.cuda.stream(self.stream):
                self.position.zero_()
            self.graphs[steps] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graphs[steps], pool=self.pool, stream=self.stream):
                for _ in range(steps):
                    self.advance(stack)
        self.settle()
        for tensor, saved in zip(state, before, strict=True):
            tensor.copy_(saved)


@functools.cache
def _streams() -> itertools.cycle[Any]:
    """The streams of this process in turn, each with the memory of the graphs that it replays.

    These can share memory, since what a step leaves there is not needed by the next.
    """
    pairs = [(torch.cuda.Stream(), torch.cuda.graph_pool_handle()) for _ in range(STREAMS)]
    return itertools.cycle(pairs)
