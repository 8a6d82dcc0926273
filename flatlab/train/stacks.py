"""Networks of one architecture that advance together: one kernel serves the same layer of all."""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.losses import loss_of
from flatlab.plan.registry import imported
from flatlab.splits import Split
from flatlab.train.builder import stack
from flatlab.train.chain import Layer
from flatlab.train.changes import Changes, changed
from flatlab.train.minibatches import Chunk, each_step
from flatlab.train.recorded import Recorded, recordable
from flatlab.train.regularizers import climbs_of

TRIED = 30
"""The steps in which a narrower stack must give the same bits before it takes over."""


class Group:
    """Runs that take their steps together, as one stack.

    A run that stands still need not be computed: a narrower stack can take the steps of the others.
    But kernels may round differently at another width, and no run may be affected by what becomes
    of its companions. So a narrower stack takes over only if it repeats `TRIED` steps of the stack
    of all runs to the bit; if it does not, runs that stand still are kept in it as padding.
    """

    def __init__(self, models: list[nn.Module], *of_all: Any) -> None:
        """of_all: the other arguments of `Stack`."""
        first = models[:1]
        self._make = lambda width: Stack(first * width, *of_all)
        self._all = self.working = Stack(models, *of_all)
        self.members = list(range(len(models)))
        self.resting: dict[int, dict[str, Tensor]] = {}
        self._tried_for = 0  # how many runs were resting at the last trial
        self._outdated = False  # whether `working` is ahead of `_all`
        self._start: list[Tensor] = []  # the state where the chunk begins

    def load(self, chunk: Chunk) -> None:
        whole = self.whole()
        self._chunk, self._start = chunk, whole.copy(self._start)
        if self._tried_for < len(self.resting) < len(whole):
            first = {name: tensor[:TRIED] for name, tensor in chunk.items()}
            self.working, self.members = self._narrowed(first)
            self._tried_for = len(self.resting)
        self._begin()

    def rewind(self) -> None:
        """Go back to where the chunk begins."""
        whole = self.whole()
        torch._foreach_copy_([*whole.views().values()], self._start)
        self._begin()

    def _begin(self) -> None:
        if self.working is not self._all:
            for number, member in enumerate(self.members):
                self.working.write(number, self._all.read(member))
        self.working.load({name: tensor[:, self.members] for name, tensor in self._chunk.items()})

    def _narrowed(self, chunk: Chunk) -> tuple["Stack", list[int]]:
        """The narrowest stack that takes these steps to the same bits, and its members."""
        states = [self._all.read(run) for run in range(len(self._all))]
        moving = [run for run in range(len(states)) if run not in self.resting]
        steps = len(chunk["order"])

        def trial(stack: Stack, members: list[int]) -> list[dict[str, Tensor]]:
            """The moving runs after the trial."""
            for number, member in enumerate(members):
                stack.write(number, states[member])
            for _ in range(0, TRIED, steps):  # a short chunk is repeated
                stack.load({name: tensor[:, members] for name, tensor in chunk.items()})
                for _ in range(steps):
                    stack.step()
            return [stack.read(members.index(run)) for run in moving]

        expected = trial(self._all, list(range(len(states))))
        for run, state in enumerate(states):  # undo the trial
            self._all.write(run, state)
        for padding in range(len(self.members) - len(moving)):
            members = sorted([*moving, *list(self.resting)[:padding]])
            narrower = self._make(len(members))
            pairs = zip(expected, trial(narrower, members), strict=True)
            if all(torch.equal(one[name], other[name]) for one, other in pairs for name in one):
                return narrower, members
        return self.working, self.members

    def step(self) -> None:
        if len(self.resting) < len(self._all):
            self.working.step()
            self._outdated = True

    def leave_out(self, number: int) -> None:
        """Let a run stand still in its present state."""
        self.resting[number] = self.whole().read(number)

    def whole(self) -> "Stack":
        """The stack of all runs, each in its present state."""
        if self._outdated:
            self._outdated, states = False, self.resting
            if self.working is not self._all:
                moved = {run: self.working.read(n) for n, run in enumerate(self.members)}
                states = moved | self.resting
            for run, state in states.items():
                self._all.write(run, state)
        return self._all


class Stack:
    """Networks of one architecture that advance together, with a step that can be recorded.

    rules: the files of `flatlab.train.layers` that stack them, by key.
    """

    def __init__(
        self,
        models: list[nn.Module],
        split: Split,
        training: Mapping[str, Any],
        rules: Sequence[str],
        changes: Changes,
    ) -> None:
        self.split, self.training, self.runs = split, training, len(models)
        self.changes = changes
        self.chain, self.tensors = stack(models, rules)
        self.loss = loss_of(training)
        self.climbs = climbs_of(training)
        watched = "epoch_loss" in (training.get("stop") or {})
        # The sum of the losses of each run's minibatches since the epoch began.
        self.losses = torch.zeros(self.runs, dtype=torch.float64, device=split.device)
        self.state = {"losses": self.losses} if watched else {}
        # Where a step takes its gradients. A twin leaves statistics of batch norm as they are.
        self.uphill = stack(models, rules)[0] if self.climbs else self.chain
        optimizer = imported("train/optimizers", training["optimizer"])
        self.update = optimizer.Stacked(self.chain.parameters, training, self.runs)
        recorded = recordable(split.device)
        self.recorded = Recorded(split, self.runs, training) if recorded else None

    def __len__(self) -> int:
        return self.runs

    def load(self, chunk: Chunk) -> None:
        alike = not isinstance(self.training["lr"], Mapping)
        chunk = {**chunk, "rates": chunk["rates"][:, 0] if alike else chunk["rates"]}
        if self.recorded:
            self.recorded.load(chunk)
        else:
            self.steps = each_step(chunk, self.split.inputs, alike)

    def step(self) -> None:
        if self.recorded:
            self.recorded.step(self)
        else:
            self.advance(next(self.steps))

    @torch.no_grad()
    def advance(self, now: Mapping[str, Tensor]) -> None:
        """One step.  now: what it uses of a chunk, (runs, ...)."""
        for rule in self.climbs:
            self._climb(rule, self._of_batch(now, self.chain))
        self.update.step(self._of_batch(now, self.uphill), now["rates"])

    def _climb(self, rule: ModuleType, gradients: list[Tensor]) -> None:
        """Set the parameters at which the step takes its gradients."""
        factors = rule.uphill(gradients, self.training, self.runs)
        tensors = zip(self.uphill.parameters, self.chain.parameters, gradients, strict=True)
        for each in tensors:
            there, here, gradient = (tensor.unflatten(0, (self.runs, -1)) for tensor in each)
            torch.addcmul(here, gradient, factors.view(-1, *[1] * (here.ndim - 1)), out=there)

    def _of_batch(self, now: Mapping[str, Tensor], chain: Layer) -> list[Tensor]:
        """Gradients of each run's loss on its minibatch, in parameter order."""
        order, size = now["order"], self.training["batch_size"]
        pieces = order.split(size, 1)
        gradients = self._gradients(pieces[0], chain, now)
        if len(pieces) > 1:
            shares = [self.loss.share(piece.shape[1], order.shape[1]) for piece in pieces]
            torch._foreach_mul_(gradients, shares[0])
            for piece, weight in zip(pieces[1:], shares[1:], strict=True):
                torch._foreach_add_(gradients, self._gradients(piece, chain, now), alpha=weight)
        return gradients

    def _gradients(self, index: Tensor, chain: Layer, now: Mapping[str, Tensor]) -> list[Tensor]:
        """Gradients of each run's loss on its samples (runs, batch), in parameter order."""
        if self.training["minibatches"] == "full":
            index = index[:1]  # all runs see the same samples: they are gathered once
        rows = index.flatten()  # `index_select` takes half the time of `[]`
        inputs, targets = (
            tensor.index_select(0, rows)
            .unflatten(0, index.shape)
            .expand(self.runs, *[-1] * tensor.ndim)
            for tensor in (self.split.inputs, self.split.targets)
        )
        inputs, targets = changed(self.changes, inputs, targets, now)
        outputs, backward = chain.forward(inputs, True)
        if self.state and chain is self.chain:
            losses = self.loss.of_batch(self.loss.values(outputs, targets)).double()
            self.losses.add_(losses, alpha=self.loss.share(index.shape[1], now["order"].shape[1]))
        return backward(self.loss.gradient(outputs, targets), False)[1]

    @torch.no_grad()
    def forward(self, inputs: Tensor) -> Tensor:
        self._wait()
        return self.chain.forward(inputs.expand(self.runs, *inputs.shape[1:]), False)[0]

    def read(self, number: int) -> dict[str, Tensor]:
        return {name: t[number].contiguous().clone() for name, t in self.views().items()}

    def write(self, number: int, state: Mapping[str, Tensor]) -> None:
        for name, tensor in self.views().items():
            tensor[number].copy_(state[name])

    def copy(self, into: list[Tensor]) -> list[Tensor]:
        """A copy of the whole state, written into an earlier one, if there is one."""
        state = [*self.views().values()]
        if not into:
            return [tensor.clone() for tensor in state]
        torch._foreach_copy_(into, state)
        return into

    def views(self) -> dict[str, Tensor]:
        """The whole state of the runs, (runs, ...) each; the stack computes with these tensors."""
        self._wait()
        views = {f"model.{name}": tensor for name, tensor in self.tensors.items()} | self.state
        for number, tensor in enumerate(self.update.state):
            flat = tensor.ndim == 4 or len(tensor) != self.runs  # a layer of images
            views[f"update.{number}"] = tensor.unflatten(0, (self.runs, -1)) if flat else tensor
        return views

    def epoch(self) -> Tensor:
        """The sum of the losses of each run's minibatches, (runs), of an epoch that ends here."""
        self._wait()
        losses = self.losses.cpu().clone()
        self.losses.zero_()
        return losses

    def finite(self) -> list[bool]:
        self._wait()
        tensors = [tensor for tensor in self.tensors.values() if tensor.is_floating_point()]
        zeros = torch._foreach_mul(tensors, 0.0)  # NaN where a number is not finite
        sums = torch.stack([zero.reshape(self.runs, -1).sum(1) for zero in zeros])
        return sums.isfinite().all(0).tolist()

    def _wait(self) -> None:
        if self.recorded:
            self.recorded.settle()
