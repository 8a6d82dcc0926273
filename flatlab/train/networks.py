"""The networks of a pack under training, in one of three modes.

batched: all of them as one stack, a few kernels for each layer.
graphs: each of them a stack of its own; on a GPU they run side by side on several streams.
loop: one after the other, by the framework's own modules, autograd and optimizer: the reference.

On a GPU a step of a stack is recorded once as a CUDA graph and then replayed: launching its kernels
one by one takes longer than they do.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from flatlab.objective import framework_loss, loss_gradient, share
from flatlab.splits import Split
from flatlab.train.layers import Chain, stack
from flatlab.train.updates import GradientDescent

CHUNK_STEPS = 100
"""At most so many steps are loaded at a time; then it is seen whether a network has diverged."""

CHUNK_INDICES = 2**23
"""At most so many sample indices are loaded at a time."""

TRIED = 100
"""So many steps a narrower stack must give the same bits before it takes over."""

STREAMS = 8
WARM_UP = 3


class Networks(Protocol):
    """Several networks that are trained step by step; `run` counts them from 0."""

    def load(self, order: Tensor, rates: Tensor) -> None:
        """What the next steps use: order (steps, runs, batch), sample indices; rates (steps), or
        (steps, runs) where each run has its own.
        """

    def step(self) -> None:
        """One step of all runs that are not left out."""

    def leave_out(self, run: int) -> None:
        """From now on a run stands still: it stays as it is, whatever steps the others take."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs (runs, samples, outputs) in evaluation mode; inputs (runs or 1, samples, ...)."""

    def read(self, run: int) -> dict[str, Tensor]:
        """A copy of all that one run is: `model.<name>`, its state dictionary, and `update.<n>`."""

    def write(self, run: int, state: Mapping[str, Tensor]) -> None:
        """Make one run what `read` returned."""

    def finite(self) -> list[bool]:
        """Whether all numbers of a run's model are finite."""


class Loop:
    """One network after the other, by the framework's own means."""

    def __init__(
        self, models: list[nn.Sequential], split: Split, training: Mapping[str, Any]
    ) -> None:
        self.models, self.split, self.training = models, split, training
        rule = {name: training[name] for name in ("momentum", "weight_decay")}
        self.optimizers = [torch.optim.SGD(model.parameters(), lr=0.0, **rule) for model in models]
        self.left = list(range(len(models)))

    def load(self, order: Tensor, rates: Tensor) -> None:
        of_runs = rates.reshape(len(rates), -1).expand(-1, len(self.models))
        self.steps = zip(order.to(self.split.device), of_runs.tolist(), strict=True)
        for model in self.models:
            model.train()

    def step(self) -> None:
        order, rates = next(self.steps)
        for run in self.left:
            model, update = self.models[run], self.optimizers[run]
            update.param_groups[0]["lr"] = rates[run]
            update.zero_grad()
            for index in order[run].split(self.training["batch_size"]):
                outputs = model(self.split.inputs[index])
                loss = framework_loss(outputs, self.split.targets[index], self.training)
                (loss * share(len(index), order.shape[1], self.training)).backward()
            update.step()

    def leave_out(self, run: int) -> None:
        self.left.remove(run)

    def forward(self, inputs: Tensor) -> Tensor:
        training = [model.training for model in self.models]
        try:
            with torch.no_grad():
                sets = inputs.expand(len(self.models), *inputs.shape[1:])
                pairs = zip(self.models, sets, strict=True)
                return torch.stack([model.eval()(given) for model, given in pairs])
        finally:
            for model, was in zip(self.models, training, strict=True):
                model.train(was)

    def _tensors(self, run: int) -> dict[str, Tensor]:
        model, update = self.models[run], self.optimizers[run]
        tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
        if self.training["momentum"]:
            for number, parameter in enumerate(model.parameters()):
                state = update.state[parameter]
                if state.get("momentum_buffer") is None:  # the framework makes it when it steps
                    state["momentum_buffer"] = torch.zeros_like(parameter)
                tensors[f"update.{number}"] = state["momentum_buffer"]
        return tensors

    def read(self, run: int) -> dict[str, Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self._tensors(run).items()}

    def write(self, run: int, state: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in self._tensors(run).items():
                tensor.copy_(state[name])

    def finite(self) -> list[bool]:
        states = (model.state_dict().values() for model in self.models)
        return [all(bool(t.isfinite().all()) for t in state) for state in states]


class Stacks:
    """Networks in stacks: one of all of them, or one of each."""

    def __init__(
        self,
        models: list[nn.Sequential],
        split: Split,
        training: Mapping[str, Any],
        together: bool,
    ) -> None:
        parts = [models] if together else [[model] for model in models]
        self.groups = [Group(part, split, training) for part in parts]
        width = len(parts[0])
        self.place = [divmod(run, width) for run in range(len(models))]

    def load(self, order: Tensor, rates: Tensor) -> None:
        width = order.shape[1] // len(self.groups)
        many = [rates] * len(self.groups) if rates.ndim == 1 else rates.split(width, 1)
        for group, *of_group in zip(self.groups, order.split(width, 1), many, strict=True):
            group.load(*of_group)

    def step(self) -> None:
        for group in self.groups:
            group.step()

    def leave_out(self, run: int) -> None:
        group, number = self.place[run]
        self.groups[group].leave_out(number)

    def forward(self, inputs: Tensor) -> Tensor:
        sets = inputs.split(len(self.place) // len(self.groups)) if len(inputs) > 1 else [inputs]
        given = sets if len(sets) > 1 else itertools.repeat(sets[0], len(self.groups))
        return torch.cat(
            [group.whole().forward(x) for group, x in zip(self.groups, given, strict=True)]
        )

    def read(self, run: int) -> dict[str, Tensor]:
        group, number = self.place[run]
        return self.groups[group].whole().read(number)

    def write(self, run: int, state: Mapping[str, Tensor]) -> None:
        group, number = self.place[run]
        self.groups[group].whole().write(number, state)

    def finite(self) -> list[bool]:
        return [good for group in self.groups for good in group.whole().finite()]


class Group:
    """Runs that take their steps together, as one stack.

    One that stands still need not stay in it: the steps can be taken by a narrower stack. But
    kernels may round differently at another width, and no run may notice what becomes of the
    others. So a narrower stack first goes along beside the one at work, for `TRIED` steps, and
    takes its place only if all bits of all runs are the same. Where they are not, one of those that
    stand still is kept as a filling.
    """

    def __init__(
        self, models: list[nn.Sequential], split: Split, training: Mapping[str, Any]
    ) -> None:
        self._make = lambda width: Stack(models[:1] * width, split, training)
        self._all = Stack(models, split, training)
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
    """Networks of one architecture that advance together, with a step that can be recorded."""

    def __init__(
        self, models: list[nn.Sequential], split: Split, training: Mapping[str, Any]
    ) -> None:
        self.split, self.training, self.runs = split, training, len(models)
        self.chain: Chain
        self.chain, self.tensors = stack(models)
        self.update = GradientDescent(self.chain.parameters, training)
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
            shares = [share(piece.shape[1], whole, self.training) for piece in pieces]
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
        gradient = loss_gradient(outputs, targets, self.training)
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


MODES: dict[str, Any] = {
    "batched": functools.partial(Stacks, together=True),
    "graphs": functools.partial(Stacks, together=False),
    "loop": Loop,
}


def chunk_steps(runs: int, samples: int, training: Mapping[str, Any]) -> int:
    """How many steps are loaded at a time."""
    batch = samples if training["minibatches"] == "full" else training["batch_size"]
    return max(1, min(CHUNK_STEPS, CHUNK_INDICES // (runs * batch)))


@functools.cache
def _streams() -> itertools.cycle[Any]:
    return itertools.cycle([torch.cuda.Stream() for _ in range(STREAMS)])


def next_stream() -> Any:
    """A stream of this process, one after the other: stacks share a few of them."""
    return next(_streams())
