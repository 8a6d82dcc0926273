"""A GPU that is not there: tensors stay on the CPU, and streams and graphs are followed in order.

Operations are carried out at once, where a GPU would do those of other streams later or at the same
time. So their order is followed instead, by vector clocks: what touches memory must come after
whatever else has written it, by the order of its own stream or because streams wait for each other.
A graph is a list of operations, which replaying repeats in the same memory.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from flatlab.data._tensors import Split

aten, from_numpy, to = torch.ops.aten, torch.from_numpy, Split.to
SYNCHRONIZING = {
    aten._local_scalar_dense.default,
    aten.equal.default,
    aten.is_nonzero.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten.lift_fresh.default,  # of numbers that the host has
}
"""What makes the host wait for the device, or copies from pageable memory of the host."""


def first(args):
    return [leaf for leaf in tree_leaves(args) if isinstance(leaf, Tensor)][:1]


class Race(AssertionError):
    """Two streams touch the same memory in no certain order."""


class NotRecordable(AssertionError):
    """A graph on a GPU cannot contain this."""


class Stream:
    """seen: how many operations of each stream come before its next one."""

    def __init__(self, gpu):
        self.gpu, self.seen = gpu, Counter[Stream]()

    def wait_stream(self, other):
        self.seen |= other.seen

    def synchronize(self):
        self.gpu.host |= self.seen


class Graph:
    """reads, writes: memory that is not its own."""

    def __init__(self, gpu):
        self.gpu, self.stream = gpu, None
        self.calls: list[tuple[Any, Any, Any, Any]] = []
        self.own, self.reads, self.writes = set[int](), set[int](), set[int]()
        self.before: dict[int, tuple[Tensor, Tensor]] = {}

    def replay(self):
        assert self.gpu.stream is self.stream, "its memory is that of another stream's graphs"
        self.gpu.launched.append(self)
        self.gpu.follow(self.reads, self.writes, "a graph")
        with mock.patch.object(self.gpu, "replaying", True):
            for function, args, kwargs, results in self.calls:
                given = {id(tensor) for tensor in tree_leaves((args, kwargs))}
                again = tree_leaves(function(*args, **kwargs))
                for new, old in zip(again, tree_leaves(results), strict=True):
                    if isinstance(old, Tensor) and id(old) not in given:
                        old.copy_(new)

    def undo(self):
        """Recording carries out nothing on a GPU."""
        with mock.patch.object(self.gpu, "replaying", True):
            for memory, kept in self.before.values():
                memory.copy_(kept)
        self.before = {}


class FakeGPU(TorchDispatchMode):
    """Follows all operations.

    operations: how many there were.  waits: of the host.  launched: the graphs that were replayed.
    """

    def __init__(self):
        super().__init__()
        self.host = Counter[Stream]()
        self.stream = Stream(self)
        self.writer: dict[int, tuple[Stream, int]] = {}
        self.readers: dict[int, dict[Stream, int]] = {}
        self.kept: dict[int, Any] = {}  # so that no memory is given out twice
        self.of_host: set[int] = set()
        self.pools: dict[Any, Stream] = {}
        self.operations, self.waits = 0, 0
        self.launched: list[Graph] = []
        self.recording: Graph | None = None
        self.replaying = False

    def follow(self, reads, writes, what):
        """An operation on the current stream."""
        stream = self.stream
        stream.seen |= self.host
        for memory in reads | writes:
            before = [self.writer[memory]] if memory in self.writer else []
            before += self.readers.pop(memory, {}).items() if memory in writes else []
            if any(stream.seen[other] < number for other, number in before):
                raise Race(f"{what} does not wait for what another stream does")
        stream.seen[stream] += 1
        for memory in writes:
            self.writer[memory] = stream, stream.seen[stream]
        for memory in reads - writes:
            self.readers.setdefault(memory, {})[stream] = stream.seen[stream]

    def memory(self, values):
        tensors = [value for value in tree_leaves(values) if isinstance(value, Tensor)]
        found = {each.untyped_storage().data_ptr(): each.untyped_storage() for each in tensors}
        self.kept |= found
        return set(found)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.replaying:
            return function(*args, **kwargs)
        self.operations += 1
        given = dict(zip((a.name for a in function._schema.arguments), args, strict=False)) | kwargs
        infos = {a.name: a.alias_info for a in function._schema.arguments}
        changed = [v for name, v in given.items() if infos[name] and infos[name].is_write]
        reads, writes = self.memory((args, kwargs)), self.memory(changed)
        if function in SYNCHRONIZING:
            self._wait(function)
        if self.recording:
            self._keep(changed)
        result = function(*args, **kwargs)
        new = self.memory(result) - reads
        if self.memory(first(args)) & self.of_host:
            self.of_host |= new
            return result
        if not new and not writes and function not in SYNCHRONIZING:
            return result  # a view
        writes |= new
        if self.recording:
            self.recording.calls.append((function, args, kwargs, result))
            self.recording.own |= new
            self.recording.reads |= reads - self.recording.own
            self.recording.writes |= writes - self.recording.own
        else:
            self.follow(reads, writes, str(function))
        return result

    def from_numpy(self, array):
        """A tensor of the host: what is computed from it first of all is no work of the GPU."""
        tensor = from_numpy(array)
        self.of_host |= self.memory(tensor)
        return tensor

    def to(self, split, *args):
        """What is moved to the GPU is no longer the host's."""
        moved = to(split, *args)
        self.of_host -= self.memory([*vars(moved).values()])
        return moved

    def _wait(self, function):
        if self.recording:
            raise NotRecordable(f"{function} makes the host wait, or copies from it")
        self.waits += 1
        self.stream.synchronize()

    def _keep(self, changed):
        for tensor in (leaf for leaf in tree_leaves(changed) if isinstance(leaf, Tensor)):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in self.recording.own | self.recording.before.keys():
                whole = torch.empty(0, dtype=torch.uint8).set_(storage)
                self.recording.before[storage.data_ptr()] = whole, whole.clone()

    @contextlib.contextmanager
    def on(self, stream):
        with mock.patch.object(self, "stream", stream):
            yield

    @contextlib.contextmanager
    def record(self, graph, pool, stream):
        assert self.pools.setdefault(pool, stream) is stream, "graphs of two streams share memory"
        self.synchronize()
        graph.stream = stream
        with self.on(stream), mock.patch.object(self, "recording", graph):
            yield
        graph.undo()

    def synchronize(self):
        """Of the device."""
        for stream in {self.stream, *self.pools.values()}:
            stream.synchronize()


@contextlib.contextmanager
def fake_gpu():
    """Record the steps of networks on the CPU, and follow what they do."""
    from flatlab.lab.train import cuda_graphs, stack

    gpu = FakeGPU()
    fakes = {
        "Stream": lambda: Stream(gpu),
        "current_stream": lambda device=None: gpu.stream,
        "stream": gpu.on,
        "CUDAGraph": lambda: Graph(gpu),
        "graph": gpu.record,
        "graph_pool_handle": object,
        "synchronize": gpu.synchronize,
        "_sleep": lambda cycles: None,
    }
    with contextlib.ExitStack() as undo:
        for name, fake in fakes.items():
            undo.enter_context(mock.patch.object(torch.cuda, name, fake))
        undo.enter_context(mock.patch.object(torch, "from_numpy", gpu.from_numpy))
        undo.enter_context(mock.patch.object(Split, "to", lambda *given: gpu.to(*given)))
        undo.enter_context(mock.patch.object(stack, "recordable", return_value=True))
        undo.callback(cuda_graphs._streams.cache_clear)
        cuda_graphs._streams.cache_clear()
        yield undo.enter_context(gpu)
