"""Networks of one architecture that advance together: one kernel for each layer of all of them.

On a GPU a step of a stack is recorded once as a CUDA graph and then replayed: launching its kernels
one by one takes longer than they do.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.losses import loss_of
from flatlab.splits import Split
from flatlab.train.builder import stack
from flatlab.train.chain import Chain
from flatlab.train.minibatches import chunk_steps
from flatlab.train.optimizers import optimizer_of

TRIED = 100
"""So many steps a narrower stack must give the same bits before it takes over."""

STREAMS = 8
WARM_UP = 3


class Group:
    """Runs that take their steps together, as one stack.

    One that stands still need not stay in it: the steps can be taken by a narrower stack. But
    kernels may round differently at another width, and no run may notice what becomes of the
    others. So a narrower stack first goes along beside the one at work, for `TRIED` steps, and
    takes its place only if all bits of all runs are the same. Where they are not, one of those that
    stand still is kept as a filling.
    """

    def __init__(
        self,
        models: list[nn.Module],
        split: Split,
        training: Mapping[str, Any],
        rules: Sequence[str],
    ) -> None:
        self._make = lambda width: Stack(models[:1] * width, split, training, rules)
        self._all = Stack(models, split, training, rules)
        self.working, self.members = self._all, list(range(len(models)))
        self.trial: tuple[Stack, list[int]] | None = None
        self.tried, self.filling = 0, 0
        self.resting: dict[int, dict[str, Tensor]] = {}
        self.ahead = 0
        """Steps that were taken since `whole` was asked for."""

    def load(self, order: Tensor, rates: Tensor) -> None:
        whole = self.whole()
        self._narrow()
        for part, members in self._stepping():
            if part is not whole:
                for number, member in enumerate(members):
                    part.write(number, whole.read(member))
            part.load(order[:, members], rates if rates.ndim == 1 else rates[:, members])

    def _narrow(self) -> None:
        """Let the stack on trial take over, or try one if there is one to try."""
        if self.trial and self.tried >= TRIED:
            (self.working, self.members), self.trial = self.trial, None
        moving = self._moving()
        candidates = sorted([*moving, *list(self.resting)[: self.filling]])
        if not self.trial and moving and len(candidates) < len(self.members):
            self.trial, self.tried = (self._make(len(candidates)), candidates), 0

    def _moving(self) -> list[int]:
        return [member for member in self.members if member not in self.resting]

    def _stepping(self) -> list[tuple[Stack, list[int]]]:
        if not self._moving():
            return []
        stacks = [(self.working, self.members)]
        return [*stacks, self.trial] if self.trial else stacks

    def step(self) -> None:
        for part, _ in self._stepping():
            part.step()
        self.ahead += 1

    def leave_out(self, number: int) -> None:
        """Let a run stand still in the state that it has now."""
        self.resting[number] = self.whole().read(number)
        self.trial, self.filling = None, 0

    def whole(self) -> Stack:
        """The stack of all runs, each where it is now."""
        if not self.ahead:
            return self._all
        moving = self._moving()
        self.tried += self.ahead
        self.ahead = 0
        if self.trial and not self._agree(*self.trial):
            self.trial, self.filling = None, self.filling + 1
        if self.working is not self._all:
            for member in moving:
                self._all.write(member, self.working.read(self.members.index(member)))
        for member, state in self.resting.items():
            self._all.write(member, state)
        return self._all

    def _agree(self, trial: Stack, candidates: list[int]) -> bool:
        """Whether the runs that move have the same bits in the stack on trial."""
        expected, found = self.working.views(), trial.views()
        places = [(self.members.index(m), candidates.index(m)) for m in self._moving()]
        return all(
            torch.equal(expected[name][here], found[name][there])
            for name in expected
            for here, there in places
        )


class Stack:
    """Networks of one architecture that advance together, with a step that can be recorded.

    rules: those of `flatlab.train.layers` that stack them, by key.
    """

    def __init__(
        self,
        models: list[nn.Module],
        split: Split,
        training: Mapping[str, Any],
        rules: Sequence[str],
    ) -> None:
        self.split, self.training, self.runs = split, training, len(models)
        self.chain: Chain
        self.chain, self.tensors = stack(models, rules)
        self.loss = loss_of(training)
        optimizer = optimizer_of(training)
        self.update = optimizer.Stacked(self.chain.parameters, training, self.runs)
        device = split.device
        self.recorded = Recorded(self, device) if device.type == "cuda" else None

    def __len__(self) -> int:
        return self.runs

    def load(self, order: Tensor, rates: Tensor) -> None:
        if self.recorded:
            self.recorded.load(order, rates)
        else:
            given = rates.tolist() if rates.ndim == 1 else rates.to(self.split.inputs)
            self.steps = zip(order, given, strict=True)

    def step(self) -> None:
        if self.recorded:
            self.recorded.step()
        else:
            self.advance(*next(self.steps))

    @torch.no_grad()
    def advance(self, order: Tensor, rate: float | Tensor) -> None:
        """One step on the samples `order` (runs, batch)."""
        size = self.training["batch_size"]
        pieces = order.split(size, 1) if order.shape[1] > size else [order]
        gradients = self._gradients(pieces[0])
        if len(pieces) > 1:
            whole = order.shape[1]
            shares = [self.loss.share(piece.shape[1], whole) for piece in pieces]
            torch._foreach_mul_(gradients, shares[0])
            for piece, weight in zip(pieces[1:], shares[1:], strict=True):
                torch._foreach_add_(gradients, self._gradients(piece), alpha=weight)
        self.update.step(gradients, rate)

    def _gradients(self, index: Tensor) -> list[Tensor]:
        """Of each run's loss on its samples (runs, batch), in the order of the parameters."""
        if self.training["minibatches"] == "full":
            index = index[:1]  # all runs see the same samples: they are gathered once
        rows = index.flatten()  # `index_select` takes half the time of `[]`
        inputs, targets = (
            tensor.index_select(0, rows)
            .unflatten(0, index.shape)
            .expand(self.runs, *[-1] * tensor.ndim)
            for tensor in (self.split.inputs, self.split.targets)
        )
        outputs, tape = self.chain.forward(inputs, True)
        gradient = self.loss.gradient(outputs, targets)
        return self.chain.backward(tape, gradient, False)[1]

    @torch.no_grad()
    def forward(self, inputs: Tensor) -> Tensor:
        self._wait()
        return self.chain.forward(inputs.expand(self.runs, *inputs.shape[1:]), False)[0]

    def read(self, number: int) -> dict[str, Tensor]:
        return {name: t[number].contiguous().clone() for name, t in self.views().items()}

    def write(self, number: int, state: Mapping[str, Tensor]) -> None:
        for name, tensor in self.views().items():
            tensor[number].copy_(state[name])

    def views(self) -> dict[str, Tensor]:
        """All that the runs are, (runs, ...) each: what is written here is what is used."""
        self._wait()
        views = {f"model.{name}": tensor for name, tensor in self.tensors.items()}
        for number, tensor in enumerate(self.update.state):
            flat = tensor.ndim == 4 or len(tensor) != self.runs  # of a layer of images
            views[f"update.{number}"] = tensor.unflatten(0, (self.runs, -1)) if flat else tensor
        return views

    def finite(self) -> list[bool]:
        self._wait()
        tensors = self.tensors.values()
        good = torch.stack([t.reshape(self.runs, -1).isfinite().all(1) for t in tensors])
        return good.all(0).tolist()

    def _wait(self) -> None:
        if self.recorded:
            torch.cuda.synchronize()


class Recorded:
    """The steps of a stack on a GPU: recorded once as a CUDA graph, then replayed.

    What changes from step to step lies on the device: the step reads its place in the order there,
    and moves on.
    """

    def __init__(self, stack: Stack, device: torch.device) -> None:
        self.stack, split, training = stack, stack.split, stack.training
        steps = chunk_steps(len(stack), len(split), training)
        batch = len(split) if training["minibatches"] == "full" else training["batch_size"]
        self.order = torch.zeros(steps, len(stack), batch, dtype=torch.int64, device=device)
        each = [len(stack)] if isinstance(training["lr"], Mapping) else []
        self.rates = torch.zeros(steps, *each, dtype=split.inputs.dtype, device=device)
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.stream = next_stream() if device.type == "cuda" else None
        self.graph: torch.cuda.CUDAGraph | None = None

    def load(self, order: Tensor, rates: Tensor) -> None:
        with torch.cuda.stream(self.stream):
            self.order[: len(order)].copy_(order)
            self.rates[: len(rates)].copy_(rates)
            self.position.zero_()

    def step(self) -> None:
        if self.graph is None:
            self.graph = self._record()
        with torch.cuda.stream(self.stream):
            self.graph.replay()

    def advance(self) -> None:
        """The step that is recorded."""
        order = self.order.index_select(0, self.position)[0]
        self.stack.advance(order, self.rates.index_select(0, self.position)[0])
        self.position.add_(1)

    def _record(self) -> torch.cuda.CUDAGraph:
        """The steps that warm the libraries up are undone."""
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
    return itertools.cycle([torch.cuda.Stream() for _ in range(STREAMS)])


def next_stream() -> Any:
    """A stream of this process, one after the other: stacks share a few of them."""
    return next(_streams())
