"""What is measured is what was given, at the edges: values against plain networks, and refusals."""

import contextlib
import copy
import functools
import random
import types

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from torch.utils.data import DataLoader, TensorDataset

import flatlab
from flatlab.derivatives.checks import derivative_check
from tests.measurement.comparing import assert_same_state, state
from tests.refusals import refused

torch.manual_seed(0)
X, LABELS = torch.randn(12, 4).double(), torch.randint(3, (12,))
TOKENS = torch.randint(0, 6, (12, 5))


def perceptron(act=nn.Tanh):
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(4, 5), act(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 3)
    ).double()


class Around(nn.Module):
    """A perceptron that is called in some way of a user's."""

    def __init__(self, call, act=nn.Tanh):
        super().__init__()
        self.net, self.call = perceptron(act), call

    def forward(self, *given, **named):
        return self.call(self.net, *given, **named)


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


class Layered(nn.Module):
    """As in transformers: a layer that recomputes itself by a function that it holds."""

    def __init__(self, reentrant):
        super().__init__()
        self.net = perceptron()
        self.again = functools.partial(checkpoint, use_reentrant=reentrant)

    def forward(self, x):
        return self.net[4](self.again(self.net[:4].__call__, x))


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


def rectified(in_place):
    return nn.Sequential(nn.ReLU(in_place), perceptron())


class Graph(nn.Module):
    def __init__(self, a):
        super().__init__()
        torch.manual_seed(1)
        self.register_buffer("a", a)
        self.l = nn.Linear(4, 3)
        self.double()

    def forward(self, x):
        return self.l((self.a @ x.T).T.tanh())


class Turned(nn.Module):
    """Complex numbers in a buffer; float32 weights."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.a, self.h = nn.Linear(4, 4), nn.Linear(4, 3)
        self.register_buffer("turns", torch.polar(torch.ones(2), torch.tensor([0.3, 1.1])))

    def forward(self, x):
        z = torch.view_as_complex(self.a(x).reshape(-1, 2, 2)) * self.turns
        return self.h(torch.tanh(torch.view_as_real(z).flatten(1)))


def turned():
    exact = Turned().double()
    exact.turns = Turned().turns.to(torch.complex128)
    return exact


class Casting(nn.Module):
    """It computes in float32, with a second backward pass of its own that is wrong."""

    def __init__(self):
        super().__init__()
        self.net = perceptron().float()

    def forward(self, x):
        h = _Tanh.apply(self.net[0](x.float()))
        return self.net[2:](h)


class _Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx, g):
        with torch.no_grad():
            return g.detach() * (1 - ctx.saved_tensors[0].tanh() ** 2)


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


doubled = Around(lambda net, x: 2 * net(x))
A = (torch.rand(4, 4) < 0.6).double()
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
    "a compiled method": (lambda: compiled("method"), perceptron, X),
    "a compiled layer": (lambda: compiled("inside"), perceptron, X),
    "compiled in place": (lambda: compiled("in place"), perceptron, X),
    "autocast": (lambda: Around(mixed), perceptron, X),
    "autocast by a decorator": (lambda: Around(mixed_by_decorator), perceptron, X),
    "ReLU in place": (lambda: rectified(True), lambda: rectified(False), X),
    "writes to its input": (lambda: Around(written), lambda: Around(lambda net, x: net(2 * x)), X),
    "re-entrant": (lambda: Layered(True), perceptron, X),
    "not re-entrant": (lambda: Layered(False), perceptron, X),
    "in segments": (lambda: Around(in_segments), perceptron, X),
    "sparse": (lambda: Text(sparse=True), Text, TOKENS),
    "scaled by frequency": (lambda: Text(scale_grad_by_freq=True), Text, TOKENS),
    "a bag": (lambda: Text(bag=True, sparse=True), lambda: Text(mean=True), TOKENS),
    "padding": (lambda: Text(padding_idx=0), lambda: Text(padded=0), TOKENS),
    "a sparse buffer": (lambda: Graph(A.to_sparse()), lambda: Graph(A), X),
    "a compressed buffer": (lambda: Graph(A.to_sparse_csr()), lambda: Graph(A), X),
    "complex buffers": (Turned, turned, X),
    "casts": (Casting, perceptron, X),
    "keeps averages": (Learnt, perceptron, X),
    "averaged": (lambda: AVERAGED, perceptron, X),
}


def loss_on(model, x, y, loss=F.cross_entropy):
    """The loss as a function of one vector, and that vector."""
    theta = {n: p for n, p in model.named_parameters() if p.requires_grad}
    start = torch.cat([p.detach().flatten() for p in theta.values()])

    def value(v, reduced=True):
        parts = v.split([p.numel() for p in theta.values()])
        moved = {n: part.view_as(p) for (n, p), part in zip(theta.items(), parts, strict=True)}
        f = torch.func.functional_call(model, moved, x if isinstance(x, tuple) else (x,))
        return loss(f, y) if reduced else f

    return value, start


def right(model, x, y=LABELS, loss=F.cross_entropy):
    """lambda_max of the Hessian, mean |df/dtheta|^2 and the loss, written out."""
    value, start = loss_on(model, x, y, loss)
    hessian = torch.autograd.functional.hessian(value, start)
    jacobian = torch.autograd.functional.jacobian(lambda v: value(v, False), start)
    sharpness = jacobian.flatten(1, -2).square().sum((1, 2)).mean()
    return float(torch.linalg.eigvalsh(hessian)[-1]), float(sharpness), float(value(start))


def measured(model, x, y=LABELS, **how):
    how = {"loss": "cross-entropy"} | how
    hessian = flatlab.measure(model, x, y, families="hessian", **how)
    sharpness = None  # of tokens behind no embedding
    if not any(isinstance(module, nn.EmbeddingBag) for module in model.modules()):
        given = {k: v for k, v in how.items() if k in ("dtype", "class_axis")}
        sharpness = flatlab.measure(model, x, **given).sharpness.item()
    line = flatlab.landscape(model, x, y, points=3, **how)
    return hessian.hessian_lambda_max.item(), sharpness, line.loss.values[1]


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("case", SAME)
def test_a_network_is_the_function_that_it_computes(case):
    build, plain, x = SAME[case]
    given, how = x.clone(), {"dtype": "float64"} if case == "complex buffers" else {}
    found = measured(build(), given, **how)
    assert torch.equal(given, x)
    rel = 1e-5 if case in ("casts", "complex buffers") else 1e-7
    wanted = right(plain(), x)
    assert found[::2] == pytest.approx(wanted[::2], rel=rel)
    assert found[1] is None or found[1] == pytest.approx(wanted[1], rel=rel)


class Stashing(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = perceptron()

    def forward(self, x):
        self.features = self.net[:2](x)
        return self.net[2:](self.features)


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


stashing = Stashing()
OTHER = {
    "max_norm": (Text(max_norm=1.0), TOKENS, {}, "'e.weight'"),
    "max_norm of a bag": (Text(bag=True, max_norm=1.0), TOKENS, {}, ""),
    "clamps its weights": (Around(renormed), X, {}, "'net.0.weight'"),
    "float64 inputs of a float32 network": (
        Around(lambda net, x: net((x % 1).float()), nn.Tanh).float(),
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
        stashing,
        X,
        {"loss": lambda f, y: F.cross_entropy(f, y) + stashing.features.square().mean()},
        "function of more",
    ),
    "detached features": (
        stashing,
        X,
        {"loss": lambda f, y: F.cross_entropy(f, y) + stashing.features.detach().mean()},
        "function of more",
    ),
    "a penalty": (
        stashing,
        X,
        {"loss": lambda f, y: F.cross_entropy(f, y) + stashing.net[0].weight.square().sum()},
        "'net.0.weight'",
    ),
    "parameters of a loss": (stashing, X, {"loss": Tempered()}, "'t'"),
    "lazy": (nn.Sequential(nn.LazyLinear(5), nn.LazyBatchNorm1d()), X, {}, "lazy"),
    "complex outputs": (Around(lambda net, x: net(x) + 0j), X, {}, "complex128"),
}


@pytest.mark.parametrize("case", OTHER)
@pytest.mark.parametrize("family", ["geometry", "hessian", "sharpness"])
def test_what_is_another_function_is_refused_by_name(case, family):
    model, x, how, words = OTHER[case]
    refused(
        words, flatlab.measure, model, x, LABELS, families=family, **{"loss": "cross-entropy"} | how
    )


class All(nn.Module):
    """Twenty things that change themselves, their input, or random streams, in evaluation."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.net, self.calls, self.seen, self.generator = perceptron(), 0, [], torch.Generator()
        self.numpy, self.nested = np.random.default_rng(0), {"of": [torch.zeros(2)]}
        self.words = nn.Embedding(6, 4, padding_idx=0, sparse=True, scale_grad_by_freq=True)
        self.norm = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
        self.bn, self.drop = nn.BatchNorm1d(4), nn.Dropout(0.5)
        self.register_buffer("mean", torch.full((4,), torch.nan))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("turns", torch.ones(2, dtype=torch.complex128))
        self.register_buffer("adjacent", A.to_sparse())
        self.double().eval()
        self.net[0].weight.register_hook(lambda g: g * 2)
        self.net[2].register_full_backward_hook(lambda *given: None)
        self.net[2].register_forward_hook(lambda *given: None)
        self.net[4].bias.requires_grad_(False)
        self.net[4].weight.grad = torch.ones_like(self.net[4].weight)
        self.words.weight.register_hook(lambda g: g)

    def forward(self, x):
        self.calls, self.last = self.calls + 1, x
        self.seen.append(torch.rand((), generator=self.generator))
        self.nested["of"][0].add_(1)
        self.nested[self.calls] = self.numpy.random(), np.random.rand(), random.random()  # noqa: NPY002
        self.mean.copy_(x.detach().mean(0))
        self.count += 1
        self.turns *= 1j
        self.adjacent = self.adjacent * 2
        self.net[1].training = not self.net[1].training
        x.relu_()
        h = checkpoint(self.norm, x, use_reentrant=True) + self.words((x > 0).long()).mean(1)
        return self.net(self.drop(self.bn(h)))


def all_of(model):
    """What `state` does not see."""
    own = {k: v for k, v in vars(model).items() if k not in ("seen", "nested")}
    named = {n: str(p) + str(p._backward_hooks) for n, p in model.named_parameters()}
    generators = model.generator.get_state().tolist(), str(model.numpy.bit_generator.state)
    embedding = {n: v for n, v in vars(model.words).items() if isinstance(v, int | bool | None)}
    return str(own), str(model.seen), str(model.nested), named, generators, embedding


EVERYTHING = {
    name: lambda model, x, y, name=name: flatlab.measure(
        model, x, y, families=name, loss="cross-entropy", **COSTLESS.get(name, {})
    )
    for name in ("geometry", "hessian", "spectrum", "flatness", "adaptive", "jacobian", "sharpness")
} | {
    "capacity": lambda model, x, y: flatlab.measure(model, x, y, families="capacity"),
    "representations": lambda model, x, y: flatlab.measure(model, x, y, families="representations"),
    "landscape": lambda model, x, y: flatlab.landscape(model, x, y, points=3),
    "eigenvectors": lambda model, x, y: flatlab.landscape(
        model, x, y, along="eigenvectors", points=3
    ),
    "barriers": lambda model, x, y: flatlab.barriers([model, copy.deepcopy(model)], x, y, points=3),
    "tracker": lambda model, x, y: flatlab.Tracker(model, x, y, loss="cross-entropy")(0),
    "loader": lambda model, x, y: flatlab.measure(model, shuffled(x, y), families="geometry"),
}
COSTLESS = {"jacobian": {"pairs": 0}}
GENERATOR = torch.Generator().manual_seed(5)


def shuffled(x, y):
    return DataLoader(TensorDataset(x, y), 4, shuffle=True, generator=GENERATOR)


@pytest.mark.parametrize("call", EVERYTHING)
def test_nothing_is_changed_that_a_network_or_its_samples_hold(call):
    model, x, y = All(), X.clone(), LABELS.clone()
    before = state(model), all_of(model), GENERATOR.get_state().tolist()
    with contextlib.suppress(flatlab.MeasureError):
        EVERYTHING[call](model, x, y)
    assert_same_state(before[0], state(model))
    assert before[1:] == (all_of(model), GENERATOR.get_state().tolist())
    assert torch.equal(x, X)
    assert torch.equal(y, LABELS)


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.e, self.a, self.b = nn.Embedding(101, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.double()

    def forward(self, features, user, mask=None):
        h = torch.tanh(self.a(features)) + self.e((user % 101).long())
        return self.b(h if mask is None else h * mask)


class Baked(nn.Module):
    """The same where integers and masks are a part of the network: of one sample."""

    def __init__(self, model, *fixed):
        super().__init__()
        self.model, self.fixed = model, fixed

    def forward(self, features):
        return self.model(
            features, *(each.expand(len(features), *each.shape[1:]) for each in self.fixed)
        )


USERS = torch.randint(20_000_000, 90_000_000, (12,)) * 2**20
MASK = torch.rand(12, 4) < 0.7
BESIDE = {
    "a tuple": (X, USERS),
    "by name": {"user": USERS, "features": X},
    "booleans": (X, USERS, MASK),
    "small integers": {"features": X, "user": (USERS % 100).to(torch.uint8), "mask": MASK},
}


@pytest.mark.parametrize("case", BESIDE)
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_inputs_beside_real_ones_are_exact_and_held_fixed(case, kind):
    given, model = BESIDE[case], Recommender().to(getattr(torch, kind))
    report = flatlab.measure(model, given, LABELS, families=["geometry", "jacobian"], pairs=0)
    names = ("features", "user", "mask")
    parts = [given[n] for n in names if n in given] if isinstance(given, dict) else given
    x, *beside = parts
    assert len(report.attrs["held_fixed"]) == len(beside)
    model = model.double()
    for n in range(3):
        baked = Baked(model, *(each[n : n + 1] for each in beside))
        one = flatlab.measure(baked, x[n : n + 1])
        for name in ("sharpness", "mls", "log_volume", "local_dimension"):
            ours = report[f"{name}_per_sample"].values[n]
            assert ours == pytest.approx(one[name].item(), rel=1e-9 if kind == "float64" else 1e-4)
    assert float(
        flatlab.measure(
            model, given, LABELS, families="hessian", loss="cross-entropy"
        ).hessian_lambda_max
    ) == (pytest.approx(right(model, tuple(parts))[0], rel=1e-7))


@pytest.mark.parametrize(
    "family", ["adaptive", "flatness", "representations", "sharpness", "spectrum", "capacity"]
)
def test_every_family_takes_inputs_beside_real_ones(family):
    how = {"loss": "cross-entropy"} if family != "capacity" else {}
    report = flatlab.measure(Recommender(), BESIDE["by name"], LABELS, families=family, **how)
    assert report.data_vars


def conv(axes=1):
    torch.manual_seed(1)
    layer = {1: nn.Conv1d, 2: nn.Conv2d}[axes]
    return nn.Sequential(layer(2, 3, 3, padding=1), nn.Tanh(), layer(3, 4, 1)).double()


def last(model):
    return Around2(model, lambda f: f.movedim(1, -1))


class Around2(nn.Module):
    def __init__(self, net, after):
        super().__init__()
        self.net, self.after = net, after

    def forward(self, x):
        return self.after(self.net(x))


def second(f, y):
    return F.cross_entropy(f.movedim(-1, 1), y)


SHAPES = {  # network, shape of inputs, shape of labels, the loss written out, arguments
    "classes second": (conv(), (5, 2, 6), (5, 6), F.cross_entropy, {}),
    "classes last": (last(conv()), (5, 2, 6), (5, 6), second, {}),
    "images, classes second": (conv(2), (3, 2, 3, 5), (3, 3, 5), F.cross_entropy, {}),
    "images, classes last": (last(conv(2)), (3, 2, 3, 5), (3, 3, 5), second, {}),
    "as many, second": (conv(), (5, 2, 4), (5, 4), F.cross_entropy, {"class_axis": 1}),
    "as many, last": (last(conv()), (5, 2, 4), (5, 4), second, {"class_axis": -1}),
    "images, as many": (conv(2), (3, 2, 4, 4), (3, 4, 4), F.cross_entropy, {"class_axis": 1}),
}


@pytest.mark.parametrize("by_name", [True, False])
@pytest.mark.parametrize("case", SHAPES)
def test_classes_are_on_the_axis_that_labels_leave_or_an_argument_says(case, by_name):
    model, of_inputs, of_labels, loss, how = SHAPES[case]
    torch.manual_seed(2)
    x, y = torch.randn(of_inputs).double(), torch.randint(4, of_labels)
    found = measured(model, x, y, **how, loss="cross-entropy" if by_name else loss)
    assert found == pytest.approx(right(model, x, y, loss), rel=1e-7)
    if how:
        refused(["class_axis=1", "class_axis=-1"], measured, model, x, y)


def half(f, y):
    return 0.5 * (f - y.view(f.shape)).square().flatten(1).sum(1).mean()


def bce(f, y):
    return F.binary_cross_entropy_with_logits(f, y.to(f).view(f.shape))


SINGLE = {
    "classes, all 0": torch.zeros(12, dtype=torch.long),
    "classes, all 1": torch.ones(12, dtype=torch.long),
    "both": torch.arange(12) % 2,
    "booleans": torch.arange(12) % 2 > 0,
    "a column": (torch.arange(12) % 2)[:, None],
    "numbers": torch.arange(12.0) % 2,
}


@pytest.mark.parametrize("case", SINGLE)
@pytest.mark.parametrize("squeezed", [False, True])
def test_integers_are_numbers_where_there_is_one_output(case, squeezed):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1)).double()
    model = Around2(net, (lambda f: f[:, 0]) if squeezed else lambda f: f)
    plain, y = Around2(net, lambda f: f), SINGLE[case]
    wanted = right(plain, X, y.double(), half)
    assert measured(model, X, y, loss="half-mse") == pytest.approx(wanted, rel=1e-7)
    assert measured(model, X, y, loss=bce) == pytest.approx(right(plain, X, y, bce), rel=1e-7)


TARGETS = {
    "a column of classes": (LABELS[:, None], lambda f, y: F.cross_entropy(f, y[:, 0])),
    "one-hot integers": (F.one_hot(LABELS, 3), F.cross_entropy),
    "one-hot numbers": (F.one_hot(LABELS, 3).double(), F.cross_entropy),
    "one-hot, of differences": (F.one_hot(LABELS, 3), F.mse_loss),
    "several labels": (torch.randint(2, (12, 3)), bce),
    "one label each, by logistic losses": (F.one_hot(LABELS, 3), bce),
}


@pytest.mark.parametrize("case", TARGETS)
def test_a_function_takes_targets_as_they_are_given(case):
    y, loss = TARGETS[case]
    typed = y if y.shape[1] == 1 else y.double()
    assert measured(perceptron(), X, y, loss=loss) == pytest.approx(
        right(perceptron(), X, typed, loss), rel=1e-7
    )


def saturated(scale):
    model = perceptron()
    with torch.no_grad():
        model[4].weight.mul_(scale)
    return model


def fitted(scale):
    model = saturated(scale)
    return model, X, model(X).argmax(1)


def dead(model):
    with torch.no_grad():
        model[0].bias.fill_(-1e3)
    return model


FITTED = {
    "a loss of 1e-12": lambda: fitted(1e2),
    "a loss of 0": lambda: fitted(1e4),
    "saturated units": lambda: (
        saturated(1.0).apply(lambda m: m.weight.data.mul_(40) if isinstance(m, nn.Linear) else m),
        X,
        LABELS,
    ),
    "dead units": lambda: (dead(perceptron(nn.ReLU)), X, LABELS),
    "weights of 0": lambda: (
        perceptron().apply(lambda m: m.weight.data.zero_() if isinstance(m, nn.Linear) else m),
        X,
        LABELS,
    ),
    "softmax inside": lambda: (Around2(saturated(1e3), lambda f: f.softmax(1)), X, LABELS),
    "sigmoids inside": lambda: (Around2(saturated(1e3), torch.sigmoid), X, LABELS),
}
LINEAR = nn.Linear(4, 3).double()


@pytest.mark.parametrize("case", FITTED)
@pytest.mark.parametrize(
    "families", ["hessian", "spectrum", "geometry", "flatness", "adaptive", "sharpness"]
)
def test_a_network_that_fits_or_is_saturated_has_values(case, families):
    model, x, y = FITTED[case]()
    how = {"flatness": ["traces"]} if families == "flatness" else {}
    report = flatlab.measure(model, x, y, families=families, loss="cross-entropy", **how)
    if families == "hessian":
        wanted = right(model, x, y)[0]
        assert report.hessian_lambda_max.item() == pytest.approx(wanted, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize(
    "loss", [lambda f, y: f.abs().sum(1).mean(), lambda f, y: (f * F.one_hot(y, 3)).sum(1).mean()]
)
@pytest.mark.parametrize("family", ["hessian", "spectrum", "sharpness"])
def test_a_loss_that_is_linear_where_the_network_is_has_values(loss, family):
    report = flatlab.measure(LINEAR, X, LABELS, families=family, loss=loss)
    if family == "hessian":
        assert report.hessian_lambda_max.item() == pytest.approx(0, abs=1e-12)


def replaced(model):
    model.net[1] = Wrong()


def repatched(model):
    model.net[1].forward = types.MethodType(lambda self, x: _Tanh.apply(x), model.net[1])


def with_hook(model):
    model.net[1].register_forward_hook(lambda m, given, f: _Tanh.apply(f))


def renamed(model):
    model.net[1].act = _Tanh.apply


class Wrong(nn.Module):
    """Its second backward pass is not that of its function."""

    def __init__(self, act=_Tanh.apply):
        super().__init__()
        self.act = act

    def forward(self, x):
        return self.act(x)


CHANGES = {f.__name__: f for f in (replaced, repatched, with_hook, renamed)}


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_verdict_on_derivatives_holds_for_what_it_was_made_of(change, tracked):
    model, starts = Around(lambda net, x: net(x)), {}
    model.net[1] = Wrong(torch.tanh)
    how = {"families": "hessian", "loss": "cross-entropy"}
    tracker = flatlab.Tracker(model, X, LABELS, every=1, **how)
    first = flatlab.measure(model, X, LABELS, starts=starts, **how)
    tracker(0)
    CHANGES[change](model)
    tracker(1)
    second = flatlab.measure(model, X, LABELS, starts=starts, **how)
    found = (
        tracker.table.hessian_lambda_max[1].item() if tracked else second.hessian_lambda_max.item()
    )
    assert "derivatives" not in first.attrs
    assert "derivatives" in second.attrs
    wanted = perceptron()
    if change == "with_hook":
        wanted[1] = nn.Sequential(nn.Tanh(), nn.Tanh())
    assert found == pytest.approx(right(wanted, X)[0], rel=1e-5)


def test_parts_that_are_unfrozen_other_samples_and_other_losses_ask_again(monkeypatch):
    model, starts, asked = perceptron(), {}, []
    model[0].requires_grad_(False)
    check = derivative_check.Comparisons.of
    monkeypatch.setattr(
        derivative_check.Comparisons, "of", lambda *given: (asked.append(1), check(*given))[1]
    )

    def ask(x=X, y=LABELS, **how):
        before = len(asked)
        flatlab.measure(
            model, x, y, **{"families": "hessian", "starts": starts, "loss": "cross-entropy"} | how
        )
        return len(asked) > before

    assert ask()
    with torch.no_grad():
        model[2].weight.add_(1)
    assert not ask()
    model[0].requires_grad_(True)
    assert ask()
    assert not ask()
    assert ask(X + 1)
    assert ask(X[:5], LABELS[:5])
    assert ask(loss=F.cross_entropy)
    assert not ask(loss=F.cross_entropy, families="hessian")
    assert ask(label_smoothing=0.1)
    assert ask(dtype="float32")
    model.register_buffer("other", torch.ones(3))
    assert ask()


def test_what_a_tracker_meets_later_does_not_stop_the_training():
    model = perceptron()
    tracker = flatlab.Tracker(model, X, LABELS, every=1, families="hessian", loss="cross-entropy")
    with pytest.raises(flatlab.MeasureError):
        flatlab.Tracker(model, X, LABELS, loss="no loss")(0)
    tracker(0)
    with torch.no_grad():
        model[0].weight.fill_(torch.nan)
    forward = model.forward
    tracker(1)
    model.forward = lambda x: 1 / 0
    with pytest.warns(UserWarning, match="not measured at step 2"):
        tracker(2)
    model.forward = forward
    with torch.no_grad():
        model[0].weight.fill_(0.1)
    tracker(3)
    values = tracker.table.hessian_lambda_max.values
    assert np.isfinite(values).tolist() == [True, False, False, True]
    assert tracker.table.attrs["failures"][0].startswith("step 2: ")
