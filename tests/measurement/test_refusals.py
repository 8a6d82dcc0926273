"""What cannot be measured exactly is refused with the remedy."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import flatlab
from tests.networks.written import Written
from tests.refusals import refused


def network(between=lambda self, h: h, behind=lambda f: f):
    """Two linear layers with something of one's own between them, and behind them."""
    torch.manual_seed(0)
    parts = {"first": nn.Linear(4, 6), "last": nn.Linear(6, 3)}
    return Written(lambda net, x: behind(net.last(between(net, net.first(x).tanh()))), **parts)


def sequence(*modules, training=False):
    return lambda: nn.Sequential(nn.Linear(4, 6), *modules, nn.Linear(6, 3)).train(training)


def custom(*arguments, training=False):
    return lambda: network(*arguments).train(training)


def with_complex_weight(model):
    model[1].weight = nn.Parameter(model[1].weight.detach() + 0j)
    return model


BATCH = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
REFUSED = {
    "dropout": (sequence(nn.Dropout(0.1), training=True), ["'1' (Dropout)", "call model.eval()"]),
    "batch norm in training mode": (
        sequence(nn.BatchNorm1d(6), training=True),
        ["'1' (BatchNorm1d)", "mixes", "call model.eval()"],
    ),
    "batch norm without statistics": (
        sequence(nn.BatchNorm1d(6, track_running_stats=False)),
        ["'1' (BatchNorm1d)", "no running statistics", "track_running_stats=True"],
    ),
    "dropout as a function": (
        custom(lambda self, h: F.dropout(h, 0.5, self.training), training=True),
        ["two passes", "call model.eval()"],
    ),
    "dropout in every mode": (custom(lambda self, h: F.dropout(h, 0.5)), "two passes"),
    "the mean of the batch": (
        custom(lambda self, h: h - h.mean(0)),
        ["depend on another sample", "model.eval()"],
    ),
    "a mean without a derivative": (
        custom(lambda self, h: h - h.mean(0).detach()),
        "depend on another sample",
    ),
    "batch norm as a function": (
        custom(lambda self, h: F.batch_norm(h, None, None, training=True)),
        "depend on another sample",
    ),
    "a running sum": (custom(lambda self, h: h.cumsum(0)), "depend on another sample"),
    "no tensor": (custom(lambda self, h: h, lambda f: (f, f)), ["tuple", "output="]),
    "one output for the whole batch": (
        custom(lambda self, h: h, lambda f: f.sum(0, keepdim=True)),
        ["(1, 3)", "wrap it"],
    ),
    "a detached output": (
        custom(lambda self, h: h, lambda f: f.detach()),
        ["not connected", "remove detach"],
    ),
    "a detached layer": (custom(lambda self, h: h.detach()), ["gradients", "remove detach"]),
    "frozen": (
        lambda: sequence()().requires_grad_(False),
        ["no parameter", "requires_grad_(True)"],
    ),
    "no parameters": (nn.Tanh, "no parameters"),
    "complex": (lambda: with_complex_weight(sequence()()), "complex"),
}


def not_finite(value):
    x = torch.ones(5, 4)
    x[3, 1] = value
    return x


INPUTS = {
    "integers": (torch.ones(5, 4, dtype=torch.int64), ["int64", "embedding"]),
    "complex": (torch.ones(5, 4, dtype=torch.complex64), "complex64"),
    "nan": (not_finite(torch.nan), ["sample 3", "not finite"]),
    "inf": (not_finite(torch.inf), ["sample 3", "not finite"]),
    "no samples": (torch.ones(0, 4), "no samples"),
    "shape": (torch.ones(5, 7), "does not accept inputs (7,)"),
    "words": (np.array(["a"] * 5), "no numbers"),
    "number": (torch.tensor(1.0), "tensor (samples, ...)"),
}
CASES = [
    *((build, BATCH, words) for build, words in REFUSED.values()),
    *((sequence(), x, words) for x, words in INPUTS.values()),
]


@pytest.mark.parametrize(("build", "x", "words"), CASES, ids=[*REFUSED, *INPUTS])
def test_what_cannot_be_measured_exactly_is_refused_with_the_remedy(build, x, words):
    refused(words, flatlab.measure, build(), x)


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("families", ["geometri"], "'geometry'"),
        ("families", ["accuracy"], "needs a training and a test set"),
        ("loss", "cross-entropie", "cross-entropy"),
        ("costly", ["operator"], "operator-norm"),
        ("dtype", "float16", "float32, float64"),
        ("dtype", torch.bfloat16, "float32, float64"),
        ("singular_values", "three", "all"),
        ("singular_values", 0, "all"),
        ("batch_size", -1, "batch_size"),
        *((n, 0, f"{n}: expected `int` >= 1,") for n in ("batch_size", "memory", "samples")),
        ("targets", torch.zeros(4), "5 inputs and 4 targets"),
    ],
)
def test_an_unknown_setting_is_refused_with_the_known_ones(setting, value, words):
    refused(words, flatlab.measure, sequence()(), torch.ones(5, 4), **{setting: value})


def test_gram_matrices_beyond_memory_are_refused_in_favour_of_an_estimate():
    model, x = nn.Sequential(nn.Linear(4, 50), nn.Tanh(), nn.Linear(50, 100)), torch.ones(5, 4)
    words = ["singular values of 100 outputs need ", " accuracy=0.02"]
    refused(words, flatlab.measure, model, x, memory=10_000, accuracy="exact")


def test_an_idle_head_changes_nothing():
    """A layer that is called, and whose output nobody uses."""

    def call_idle(self, h):
        self.idle(h)
        return h

    plain, with_head = network(), network(call_idle)
    with_head.idle = nn.Linear(6, 9)
    expected, found = flatlab.measure(plain, BATCH), flatlab.measure(with_head, BATCH)
    for name in ("sharpness", "mls", "log_volume", "input_invariant_mls"):
        assert found[name].values == pytest.approx(expected[name].values, rel=1e-6), name
