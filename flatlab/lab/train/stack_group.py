"""Runs that take their steps together, in a stack that becomes smaller when runs have ended."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from flatlab.lab.train.minibatches import Chunk
from flatlab.lab.train.stack import Stack

TRIAL_STEPS = 30
"""The steps in which a smaller stack must give the same bits before it takes over."""


class StackGroup:
    """Runs that take their steps together, as one stack.

    models: the networks, whose weights are copied.
    make: the stack of some networks: `Stack` with all its other arguments.

    A run that is frozen need not be computed: a smaller stack can take the steps of the others.
    But kernels may round differently at another width, and no run may be affected by what becomes
    of its companions. So a smaller stack takes over only if it repeats `TRIAL_STEPS` steps of the
    stack of all runs to the bit; if it does not, frozen runs are kept in it as padding.
    """

    def __init__(self, models: list[nn.Module], make: Callable[[list[nn.Module]], Stack]) -> None:
        self._first, self._make = models[:1], make
        self._full = self.active_stack = make(models)
        self.slots = list(range(len(models)))
        """The run in each place of the active stack."""
        self.finished: dict[int, dict[str, Tensor]] = {}
        """The states of runs that are frozen."""
        self._tried_with = 0  # how many runs were frozen at the last trial
        self._outdated = False  # whether the active stack is ahead of the full one
        self._start: list[Tensor] = []  # the state where the chunk begins

    def load(self, chunk: Chunk) -> None:
        full = self.full_stack()
        self._chunk, self._start = chunk, full.copy(self._start)
        if self._tried_with < len(self.finished) < len(full):
            trial_chunk = {name: tensor[:TRIAL_STEPS] for name, tensor in chunk.items()}
            self.active_stack, self.slots = self._try_smaller_stack(trial_chunk)
            self._tried_with = len(self.finished)
        self._begin()

    def rewind(self) -> None:
        """Go back to where the chunk begins."""
        full = self.full_stack()
        torch._foreach_copy_([*full.views().values()], self._start)
        self._begin()

    def _begin(self) -> None:
        if self.active_stack is not self._full:
            for slot, run in enumerate(self.slots):
                self.active_stack.write(slot, self._full.read(run))
        self.active_stack.load(
            {name: tensor[:, self.slots] for name, tensor in self._chunk.items()}
        )

    def _try_smaller_stack(self, chunk: Chunk) -> tuple[Stack, list[int]]:
        """The smallest stack that takes these steps to the same bits, and its runs."""
        states = [self._full.read(run) for run in range(len(self._full))]
        moving = [run for run in range(len(states)) if run not in self.finished]
        steps = len(chunk["order"])

        def trial(stack: Stack, slots: list[int]) -> list[dict[str, Tensor]]:
            """The moving runs after the trial."""
            for slot, run in enumerate(slots):
                stack.write(slot, states[run])
            for _ in range(0, TRIAL_STEPS, steps):  # a short chunk is repeated
                stack.load({name: tensor[:, slots] for name, tensor in chunk.items()})
                for _ in range(steps):
                    stack.step()
            return [stack.read(slots.index(run)) for run in moving]

        expected = trial(self._full, list(range(len(states))))
        for run, state in enumerate(states):  # undo the trial
            self._full.write(run, state)
        for padding in range(len(self.slots) - len(moving)):
            slots = sorted([*moving, *list(self.finished)[:padding]])
            smaller = self._make(self._first * len(slots))
            pairs = zip(expected, trial(smaller, slots), strict=True)
            if all(torch.equal(one[name], other[name]) for one, other in pairs for name in one):
                return smaller, slots
        return self.active_stack, self.slots

    def step(self) -> None:
        if len(self.finished) < len(self._full):
            self.active_stack.step()
            self._outdated = True

    def freeze(self, number: int) -> None:
        """Let a run stand still in its present state."""
        self.finished[number] = self.full_stack().read(number)

    def full_stack(self) -> Stack:
        """The stack of all runs, each in its present state."""
        if self._outdated:
            self._outdated, states = False, self.finished
            if self.active_stack is not self._full:
                moved = {run: self.active_stack.read(slot) for slot, run in enumerate(self.slots)}
                states = moved | self.finished
            for run, state in states.items():
                self._full.write(run, state)
        return self._full
