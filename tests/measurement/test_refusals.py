"""What cannot be measured exactly is refused with the remedy."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import flatlab
from flatlab import MeasureError
from tests.refusals import refusal


class Custom(nn.Module):
    """Two linear layers with something of one's own between them, and behind them."""

    def __init__(self, between=lambda self, h: h, behind=lambda f: f):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)
        self.between, self.behind = between, behind

    def forward(self, x):
        return self.behind(self.last(self.between(self, self.first(x).tanh())))


def sequence(*modules, training=False):
    return lambda: nn.Sequential(nn.Linear(4, 6), *modules, nn.Linear(6, 3)).train(training)


def custom(*arguments, training=False):
    return lambda: Custom(*arguments).train(training)


REFUSED = {
    "dropout in training mode": (
        sequence(nn.Dropout(0.1), training=True),
        ["'1' (Dropout)", "call model.eval()"],
    ),
    "batch norm in training mode": (
        sequence(nn.BatchNorm1d(6), training=True),
        ["'1' (BatchNorm1d)", "mixes", "call model.eval()"],
    ),
    "batch norm without statistics": (
        sequence(nn.BatchNorm1d(6, track_running_stats=False)),
        ["'1' (BatchNorm1d)", "no running statistics", "track_running_stats=True"],
    ),
    "dropout as a function in training mode": (
        custom(lambda self, h: F.dropout(h, 0.5, self.training), training=True),
        ["two passes", "call model.eval()"],
    ),
    "dropout as a function in every mode": (
        custom(lambda self, h: F.dropout(h, 0.5)),
        ["two passes"],
    ),
    "the mean of the batch": (
        custom(lambda self, h: h - h.mean(0)),
        ["depend on another sample", "model.eval()"],
    ),
    "batch norm as a function": (
        custom(lambda self, h: F.batch_norm(h, None, None, training=True)),
        ["depend on another sample"],
    ),
    "a running sum over the batch": (
        custom(lambda self, h: h.cumsum(0)),
        ["depend on another sample"],
    ),
    "outputs that are no tensor": (
        custom(lambda self, h: h, lambda f: (f, f)),
        ["tuple", "output="],
    ),
    "one output for the whole batch": (
        custom(lambda self, h: h, lambda f: f.sum(0, keepdim=True)),
        ["(1, 3)", "wrap it"],
    ),
    "a detached output": (
        custom(lambda self, h: h, lambda f: f.detach()),
        ["not connected", "remove detach"],
    ),
    "a detached layer": (custom(lambda self, h: h.detach()), ["gradients", "remove detach"]),
    "frozen parameters": (
        lambda: sequence()().requires_grad_(False),
        ["no parameter", "requires_grad_(True)"],
    ),
    "no parameters": (lambda: nn.Tanh(), ["no parameters"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_measured_exactly_is_refused_with_the_remedy(case):
    build, pieces = REFUSED[case]
    with pytest.raises(MeasureError) as error:
        flatlab.measure(build(), torch.randn(5, 4, generator=torch.Generator().manual_seed(0)))
    for piece in pieces:
        assert piece in str(error.value)


def not_finite(value):
    x = torch.ones(5, 4)
    x[3, 1] = value
    return x


@pytest.mark.parametrize(
    ("bad", "pieces"),
    [
        pytest.param(torch.ones(5, 4, dtype=torch.int64), ["int64", "embedding"], id="integers"),
        pytest.param(torch.ones(5, 4, dtype=torch.complex64), ["complex64"], id="complex"),
        pytest.param(not_finite(torch.nan), ["sample 3", "not finite"], id="nan"),
        pytest.param(not_finite(torch.inf), ["sample 3", "not finite"], id="inf"),
        pytest.param(torch.ones(0, 4), ["no samples"], id="no samples"),
        pytest.param(torch.ones(5, 7), ["does not accept inputs (7,)"], id="shape"),
        pytest.param(np.array(["a"] * 5), ["no numbers"], id="words"),
        pytest.param(torch.tensor(1.0), ["tensor (samples, ...)"], id="number"),
    ],
)
def test_inputs_that_cannot_be_measured_are_refused(bad, pieces):
    with pytest.raises(MeasureError) as error:
        flatlab.measure(sequence()(), bad)
    for piece in pieces:
        assert piece in str(error.value)


@pytest.mark.parametrize(
    ("setting", "value", "piece"),
    [
        ("families", ["geometri"], "'geometry'"),
        ("families", ["accuracy"], "training with test samples"),
        ("loss", "cross-entropie", "cross-entropy"),
        ("costly", ["operator"], "operator-norm"),
        ("dtype", "float16", "float64, float32"),
        ("dtype", torch.bfloat16, "float64, float32"),
        ("singular_values", "three", "all"),
        ("singular_values", 0, "all"),
        ("batch_size", -1, "batch_size"),
        ("targets", torch.zeros(4), "5 inputs and 4 targets"),
    ],
)
def test_an_unknown_setting_is_refused_with_the_known_ones(setting, value, piece):
    with pytest.raises(MeasureError) as error:
        flatlab.measure(sequence()(), torch.ones(5, 4), **{setting: value})
    assert piece in str(error.value)


@pytest.mark.parametrize("dtype", [None, "float32", "float64"])
def test_a_model_in_half_precision_is_measured_in_float32_or_the_precision_asked_for(dtype):
    model, x = sequence()().bfloat16(), torch.ones(5, 4)
    precision = flatlab.measure(model, x, dtype=dtype).attrs["precision"]
    assert precision == (dtype or "float32")


def test_gram_matrices_beyond_memory_are_refused_in_favour_of_an_estimate():
    model, x = nn.Sequential(nn.Linear(4, 50), nn.Tanh(), nn.Linear(50, 100)), torch.ones(5, 4)
    with pytest.raises(MeasureError, match=r"singular values of 100 outputs need .* accuracy=0.02"):
        flatlab.measure(model, x, memory=10_000)


def test_an_idle_head_changes_nothing():
    """A layer that is called, and whose output nobody uses."""

    def call_idle(self, h):
        self.idle(h)
        return h

    plain, with_head = Custom(), Custom(call_idle)
    with_head.idle = nn.Linear(6, 9)
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    expected, found = flatlab.measure(plain, x), flatlab.measure(with_head, x)
    for name in ("sharpness", "mls", "log_volume", "input_invariant_mls"):
        assert found[name].values == pytest.approx(expected[name].values, rel=1e-6), name


@pytest.mark.parametrize("name", ["batch_size", "memory", "samples"])
def test_sizes_below_one_are_refused(name):
    message = refusal(MeasureError, flatlab.measure, sequence()(), torch.randn(3, 4), **{name: 0})
    assert f"{name}=0 is not a positive number" in message
