"""What is measured is the network that was given: by values of plain ones, or refused by name."""

import itertools
import types
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    checkpoint_wrapper,
)
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)

import flatlab
from tests.measurement.given import LABELS, TOKENS, A, Tanh, X, around, measured, perceptron, right
from tests.networks.written import Written
from tests.refusals import refused


class Text(nn.Module):
    def __init__(self, padded=None, bag=False, mean=False, **how):
        super().__init__()
        torch.manual_seed(1)
        self.e = (nn.EmbeddingBag if bag else nn.Embedding)(6, 4, **how)
        self.h, self.padded, self.bag, self.mean = nn.Linear(4, 3), padded, bag, mean
        with torch.no_grad():
            self.e.weight.normal_()
        self.double()

    def forward(self, tokens):
        if self.bag:
            return self.h(self.e(tokens).tanh())
        rows = self.e(tokens)
        if self.mean:
            return self.h(rows.mean(1).tanh())
        if self.padded is not None:  # written out: that row is no parameter
            rows = torch.where((tokens == self.padded)[..., None], rows.detach(), rows)
        return self.h(torch.tanh(rows).mean(1))


def hooked(*hooks):
    model = perceptron()
    for parameter in model.parameters():
        for hook in hooks:
            parameter.register_hook(hook)
    return model


def on_modules(which):
    model = perceptron()
    for module in model.modules():
        getattr(module, which)(
            lambda *given: tuple(None if g is None else 0.1 * g for g in given[1])
        )
    return model


def patched(bound, call=lambda f, x: 2 * f(x)):
    model = perceptron()
    once = model.forward
    model.forward = lambda x: call(once, x)
    if bound:
        model.forward = types.MethodType(lambda self, x: call(once, x), model)
    return model


def compiled(how):
    model = perceptron()
    if how == "method":
        model.forward = torch.compile(model.forward, backend="eager")
    elif how == "inside":
        model[2] = torch.compile(model[2], backend="eager")
    else:
        model.compile(backend="eager")
    return model


def layered(reentrant):
    """As in transformers: a layer that recomputes itself by a function that it holds."""
    again = partial(checkpoint, use_reentrant=reentrant)
    call = lambda model, x: model.net[4](model.again(model.net[:4].__call__, x))  # noqa: E731
    return Written(call, net=perceptron(), again=again)


def mixed(net, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return net(x)


@torch.autocast("cpu", dtype=torch.bfloat16)
def mixed_by_decorator(net, x):
    return net(x)


def written(net, x):
    x *= 2
    return net(x)


def in_segments(net, x):
    return checkpoint_sequential(net, 2, x, use_reentrant=True)


def selected(net, x):
    saves = partial(
        create_selective_checkpoint_contexts, lambda *given, **named: CheckpointPolicy.MUST_SAVE
    )
    return checkpoint(net, x, use_reentrant=False, context_fn=saves)


def on_the_cpu(net, x):
    with torch.autograd.graph.save_on_cpu():
        return net(x)


def in_a_wrapper():
    model = perceptron()
    model[2] = checkpoint_wrapper(model[2], checkpoint_impl=CheckpointImpl.REENTRANT)
    return model


def rectified(in_place):
    return nn.Sequential(nn.ReLU(in_place), perceptron())


def graph(adjacent):
    torch.manual_seed(1)
    parts = {"adjacent": nn.Buffer(adjacent), "last": nn.Linear(4, 3)}
    return Written(lambda net, x: net.last((net.adjacent @ x.T).T.tanh()), **parts).double()


def casting():
    """It computes in float32, with a second backward pass of its own that is wrong."""
    call = lambda model, x: model.net[2:](Tanh.apply(model.net[0](x.float())))  # noqa: E731
    return Written(call, net=perceptron().float())


class Learnt(nn.Module):
    """Averages that it keeps of what it has seen, a counter, and a list."""

    def __init__(self):
        super().__init__()
        self.net, self.calls, self.seen, self.generator = perceptron(), 0, [], torch.Generator()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.calls, self.last = self.calls + 1, x.detach()
        self.seen.append(torch.rand((), generator=self.generator))
        self.mean.mul_(0.9).add_(x.detach().mean(0))
        return self.net(x)


doubled = around(lambda net, x: 2 * net(x))
AVERAGED = torch.optim.swa_utils.AveragedModel(perceptron())
SAME = {  # a network, the same function written plainly, inputs
    "a hook that clips": (lambda: hooked(lambda g: g.clamp(-0.01, 0.01)), perceptron, X),
    "hooks that scale and mask": (
        lambda: hooked(lambda g: 0.1 * g, lambda g: g * (g > 0)),
        perceptron,
        X,
    ),
    "backward hooks": (lambda: on_modules("register_full_backward_hook"), perceptron, X),
    "hooks before": (lambda: on_modules("register_full_backward_pre_hook"), perceptron, X),
    "a patched forward": (lambda: patched(True), lambda: doubled, X),
    "a patched closure": (lambda: patched(False), lambda: doubled, X),
    "compiled": (lambda: torch.compile(perceptron(), backend="eager"), perceptron, X),
    "parallel": (lambda: nn.DataParallel(perceptron()), perceptron, X),
    "a compiled method": (lambda: compiled("method"), perceptron, X),
    "a compiled layer": (lambda: compiled("inside"), perceptron, X),
    "compiled in place": (lambda: compiled("in place"), perceptron, X),
    "autocast": (lambda: around(mixed), perceptron, X),
    "autocast by a decorator": (lambda: around(mixed_by_decorator), perceptron, X),
    "ReLU in place": (lambda: rectified(True), lambda: rectified(False), X),
    "writes to its input": (lambda: around(written), lambda: around(lambda net, x: net(2 * x)), X),
    "re-entrant": (lambda: layered(True), perceptron, X),
    "not re-entrant": (lambda: layered(False), perceptron, X),
    "in segments": (lambda: around(in_segments), perceptron, X),
    "saves a choice": (lambda: around(selected), perceptron, X),
    "saves on the CPU": (lambda: around(on_the_cpu), perceptron, X),
    "recomputed by a wrapper": (in_a_wrapper, perceptron, X),
    "sparse": (lambda: Text(sparse=True), Text, TOKENS),
    "scaled by frequency": (lambda: Text(scale_grad_by_freq=True), Text, TOKENS),
    "a bag": (lambda: Text(bag=True, sparse=True), lambda: Text(mean=True), TOKENS),
    "padding": (lambda: Text(padding_idx=0), lambda: Text(padded=0), TOKENS),
    "a sparse buffer": (lambda: graph(A.to_sparse()), lambda: graph(A), X),
    "a compressed buffer": (lambda: graph(A.to_sparse_csr()), lambda: graph(A), X),
    "casts": (casting, perceptron, X),
    "keeps averages": (Learnt, perceptron, X),
    "averaged": (lambda: AVERAGED, perceptron, X),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("case", SAME)
def test_a_network_is_the_function_that_it_computes(case):
    build, plain, x = SAME[case]
    given = x.clone()
    found = measured(build(), given)
    assert torch.equal(given, x)
    rel = 1e-5 if case == "casts" else 1e-7
    wanted = right(plain(), x)
    assert found[::2] == pytest.approx(wanted[::2], rel=rel)
    assert found[1] is None or found[1] == pytest.approx(wanted[1], rel=rel)


def stashing(model, x):
    model.features = model.net[:2](x)
    return model.net[2:](model.features)


class Tempered(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, f, y):
        return F.cross_entropy(f * self.t, y)


def renormed(net, x):
    with torch.no_grad():
        net[0].weight.data.clamp_(-0.1, 0.1)
    return net(x)


stash = Written(stashing, net=perceptron())
OTHER = {
    "max_norm": (Text(max_norm=1.0), TOKENS, {}, "'e.weight'"),
    "max_norm of a bag": (Text(bag=True, max_norm=1.0), TOKENS, {}, ""),
    "clamps its weights": (around(renormed), X, {}, "'net.0.weight'"),
    "float64 inputs of a float32 network": (
        around(lambda net, x: net((x % 1).float()), nn.Tanh).float(),
        X + 2**26,
        {},
        "dtype='float64'",
    ),
    "a closure, copied": (
        patched(False, lambda f, x: f(x.float()).double()).float(),
        X.float(),
        {"dtype": "float64"},
        "original",
    ),
    "features that are kept": (
        stash,
        X,
        {"loss": lambda f, y: F.cross_entropy(f, y) + stash.features.square().mean()},
        "function of more",
    ),
    "detached features": (
        stash,
        X,
        {"loss": lambda f, y: F.cross_entropy(f, y) + stash.features.detach().mean()},
        "function of more",
    ),
    "a penalty": (
        stash,
        X,
        {"loss": lambda f, y: F.cross_entropy(f, y) + stash.net[0].weight.square().sum()},
        "'net.0.weight'",
    ),
    "parameters of a loss": (stash, X, {"loss": Tempered()}, "'t'"),
    "lazy": (nn.Sequential(nn.LazyLinear(5), nn.LazyBatchNorm1d()), X, {}, "lazy"),
    "complex outputs": (around(lambda net, x: net(x) + 0j), X, {}, "complex128"),
}


@pytest.mark.parametrize(
    ("case", "family"), [*zip(OTHER, itertools.cycle(["geometry", "hessian", "sharpness"]))]
)
def test_what_is_another_function_is_refused_by_name(case, family):
    model, x, how, words = OTHER[case]
    refused(
        words, flatlab.measure, model, x, LABELS, families=family, **{"loss": "cross-entropy"} | how
    )
