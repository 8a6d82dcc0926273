"""Isolation of a measurement: modes of the model, its state, and that of torch around it.

Two rules hold for all that is measured. What a network, and what its samples are drawn with, hold
is afterwards what it was: numbers, modes, hooks, attributes, gradients, random streams. And what
changes how derivatives are computed, but not the function, is off: recomputation, compilation,
mixed precision, and hooks on gradients.
"""

import cmath
import random
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from types import MethodType, SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.utils.checkpoint
from torch import Tensor, nn
from torch.nn.modules import module as of_all_modules
from torch.nn.parameter import is_lazy
from torch.utils.data import DataLoader, Dataset, Sampler

from flatlab.core.errors import MeasureError
from flatlab.precision import float32_products

GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
DRAWING = (*GENERATORS, DataLoader, Dataset, Sampler)
"""What may hold a random stream."""
CONTAINERS = dict, list, set, deque
UNCHANGING = {type(None), bool, int, float, str}
"""Most of what modules hold."""
EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
HOOKS = "_backward_hooks", "_backward_pre_hooks"
"""Of modules, on gradients."""
WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Types of so many bytes, by which numbers are compared that may be NaN."""


@contextmanager
def preserving_state(
    model: nn.Module, samples: Any = None
) -> Iterator[Callable[[Mapping[str, Tensor]], None]]:
    """Leave the network, random streams and flags as they were, even after an error.

    samples: what they are drawn from, if it draws at random.

    Inside, gradients are on, autocast is off, float32 products have full precision, and cuDNN takes
    algorithms that repeat bit for bit, chosen without a trial. The function that it gives begins
    anew with other weights, a state dictionary: all else is as it was.
    """
    _check_numbers(model)
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
            stack.enter_context(_set(cudnn, name, value))
        undo = stack.enter_context(_as_it_was(model, samples))
        stack.enter_context(_computed_once())
        _differentiate_plainly(model)

        @torch.no_grad()
        def begin_anew(weights: Mapping[str, Tensor]) -> None:
            undo()
            for name, tensor in model.state_dict(keep_vars=True).items():
                tensor.copy_(weights[name])  # `load_state_dict` takes several times as long
            _differentiate_plainly(model)

        yield begin_anew


@contextmanager
def _as_it_was(*roots: Any) -> Iterator[Callable[[], None]]:
    """Afterwards, and when asked to, set all that modules hold, and random streams, to what is now.

    Tensors get their numbers, flags and gradients, containers their items, and modules, which are
    containers of attributes, all of these.
    """
    steps: list[Callable[[], object]] = []
    seen: dict[int, Any] = {}
    todo: list[Any] = [*roots, torch.default_generator, random._inst, np.random.mtrand._rand]
    while todo:
        thing = todo.pop()
        if type(thing) in UNCHANGING or id(thing) in seen:
            continue
        seen[id(thing)] = thing  # so that no other gets its identity
        if isinstance(thing, CONTAINERS):
            steps.append(partial(_refill, thing, thing.copy()) if thing else thing.clear)
            todo += thing.values() if isinstance(thing, dict) else thing
        elif isinstance(thing, tuple):
            todo += thing
        elif isinstance(thing, nn.Module):
            todo.append(vars(thing))
        elif isinstance(thing, Tensor):
            steps.append(_of_tensor(thing))
        elif isinstance(thing, GENERATORS):
            steps.append(_of_generator(thing))
        elif isinstance(thing, DRAWING):
            todo += [each for each in vars(thing).values() if isinstance(each, DRAWING)]

    @torch.no_grad()
    def undo() -> None:
        for step in steps:
            step()

    try:
        yield undo
    finally:
        undo()


def _of_tensor(tensor: Tensor) -> Callable[[], None]:
    before, leaf = tensor.detach().clone(), tensor.is_leaf
    required, gradient = tensor.requires_grad, tensor.grad if leaf else None
    hooks = tensor._backward_hooks

    def undo() -> None:
        if tensor.shape != before.shape or tensor.dtype != before.dtype:
            tensor.data = before
        elif not _same(tensor, before):
            tensor.detach().copy_(before)
        if tensor.requires_grad != required:
            tensor.requires_grad_(required)
        if leaf and tensor.grad is not gradient:
            tensor.grad = gradient
        if tensor._backward_hooks is not hooks:
            tensor._backward_hooks = hooks

    return undo


def _same(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors have the same numbers, bit for bit."""
    if first.layout != torch.strided:
        first, second = first.to_dense(), second.to_dense()
    if first.is_complex():
        first, second = (torch.view_as_real(each.resolve_conj()) for each in (first, second))
    whole = WHOLE[first.dtype.itemsize]  # bytes take four times as long
    return torch.equal(first.view(whole), second.view(whole))


def _of_generator(generator: Any) -> Callable[[], object]:
    if isinstance(generator, np.random.Generator):
        bits = generator.bit_generator
        return partial(setattr, bits, "state", bits.state)
    if isinstance(generator, random.Random):
        return partial(generator.setstate, generator.getstate())
    return partial(generator.set_state, generator.get_state())


def _refill(held: Any, items: Any) -> None:
    held.clear()
    (held.extend if isinstance(held, list | deque) else held.update)(items)


@contextmanager
def _set(holder: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, before)


@contextmanager
def _computed_once() -> Iterator[None]:
    """Nothing is computed again, compiled, in mixed precision, or seen by hooks of all modules."""
    with ExitStack() as stack:
        twice: Any = torch.utils.checkpoint
        for name in [*vars(twice)]:
            if name == "CheckpointFunction":
                # what is checkpointed is computed once: a second time it is the same
                once = SimpleNamespace(apply=lambda function, preserved, *given: function(*given))
                stack.enter_context(_set(twice, name, once))
            elif name.startswith("_checkpoint_without_reentrant_generator"):
                stack.enter_context(_set(twice, name, _nothing))
        mixed: Any = torch.autocast
        stack.enter_context(_set(mixed, "__enter__", lambda self: self))
        stack.enter_context(_set(mixed, "__exit__", lambda self, *error: None))
        if "torch._dynamo" in sys.modules:  # something may be compiled
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        for name in ("_global_backward_hooks", "_global_backward_pre_hooks"):
            stack.enter_context(_set(of_all_modules, name, OrderedDict()))
        yield


def _differentiate_plainly(model: nn.Module) -> None:
    """Let autograd's derivatives be those of the function that the network computes.

    What is changed, `_as_it_was` undoes.
    """
    for parameter in model.parameters():
        parameter.grad = None
        if parameter._backward_hooks:
            parameter._backward_hooks = None
    for module in model.modules():
        for name in HOOKS:
            if getattr(module, name):
                setattr(module, name, OrderedDict())
        if isinstance(module, EMBEDDINGS):
            module.sparse = module.scale_grad_by_freq = False
        padded: Any = module  # on which anything may be set
        if type(module) is nn.Embedding and padded.padding_idx is not None:
            padded.held = padded.padding_idx, padded.weight[padded.padding_idx].detach().clone()
            padded.padding_idx, padded.forward = None, MethodType(_with_row_held, padded)


def _nothing(*arguments: Any, **named: Any) -> Iterator[None]:
    """Before and after what is checkpointed."""
    yield


def _with_row_held(embedding: Any, tokens: Tensor) -> Tensor:
    """The rows of tokens; that of padding is no parameter, and stays whatever the weight does."""
    row, values = embedding.held
    rows = nn.Embedding.forward(embedding, tokens)
    return torch.where((tokens == row)[..., None], values.to(rows), rows)


def _check_numbers(model: nn.Module) -> None:
    """Refuse networks whose tensors have no numbers."""
    if not isinstance(model, nn.Module):
        raise MeasureError(f"the network is {type(model).__name__}, not a torch Module")
    for tensor in (*model.parameters(), *model.buffers()):
        if is_lazy(tensor):
            raise MeasureError("the network has lazy layers that have no numbers; call it once")
        if tensor.is_meta:
            raise MeasureError(
                "the network is on the meta device, where tensors have no numbers; call "
                "model.to_empty(device='cpu') and load its weights"
            )


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


def check_samples(model: nn.Module, inputs: Tensor) -> None:
    """Refuse modes of the network, and samples, that cannot be measured."""
    if not len(inputs):
        raise MeasureError("there are no samples")
    if not is_finite(inputs):
        number = int((~inputs.isfinite()).flatten(1).any(1).nonzero()[0])
        raise MeasureError(f"sample {number} has values that are not finite")
    check_mode(model)


@torch.no_grad()
def is_finite(*tensors: Tensor) -> bool:
    """Whether all numbers are finite, in one pass and without a copy."""
    devices = {tensor.device for tensor in tensors}
    sums = (sum(t.sum() for t in tensors if t.device == device) for device in devices)
    if all(map(cmath.isfinite, sums)):  # 20 times as fast as norms, and so only if every term is
        return True
    norms = (torch.linalg.vector_norm(tensor, float("inf")) for tensor in tensors)
    return all(bool(norm.isfinite()) for norm in norms)


@contextmanager
def batch_norm(model: nn.Module, mode: str | None) -> Iterator[None]:
    """Let batch norm use the statistics of the batch (`train`) or the running ones (`eval`).

    None: as it is. Those of batches leave the running ones, which another family may use.
    """
    with ExitStack() as undo:
        for module in model.modules() if mode else ():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                undo.enter_context(_set(module, "training", mode == "train"))
                if mode == "train":
                    undo.enter_context(_set(module, "track_running_stats", False))
        yield
