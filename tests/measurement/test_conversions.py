"""What is converted on the way to a measurement loses nothing, or is refused by name."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import flatlab
from tests.measurement.given import measured, right
from tests.refusals import refused

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(12, 6, generator=GENERATOR)
LABELS = torch.arange(12) % 3
ROWS = F.one_hot(LABELS, 3)
SHARES = (ROWS + 0.5) / 2.5
WHOLE = LABELS * 59
PIXELS = torch.randn(12, 2, 3, 3, generator=GENERATOR)
MASKS = (PIXELS[:, :1] > 0.3).long()
CE, HALF = "cross-entropy", "half-mse"


class Rotary(nn.Module):
    """With a complex buffer, and a head in another precision."""

    def __init__(self, head=torch.float32, turns=torch.complex64):
        super().__init__()
        self.a, self.head = nn.Linear(6, 4), nn.Linear(4, 3).to(head)
        self.register_buffer("turns", torch.polar(torch.ones(2), torch.tensor([0.3, 2])).to(turns))

    def forward(self, x):
        turned = torch.view_as_complex(self.a(x).unflatten(1, (2, 2))) * self.turns
        return self.head(torch.view_as_real(turned).flatten(1).tanh().to(self.head.weight))


class Clock(nn.Linear):
    def forward(self, seconds):
        angle = (seconds % 86400) * (2 * np.pi / 86400)
        return super().forward(torch.cat([angle.sin(), angle.cos()], -1).to(self.weight))


def seeded(build, *arguments, **options):
    torch.manual_seed(1)
    return build(*arguments, **options)


def mlp(outputs=3):
    return seeded(lambda: nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, outputs)))


def conv(outputs):
    return seeded(nn.Conv2d, 2, outputs, 3, padding=1)


def half(f, y):
    return 0.5 * (f.flatten(1) - y.reshape(12, -1).to(f)).square().mean()


def brier(f, y):
    return (f.softmax(1) - y).square().sum(1).mean()


def of_column(f, y):
    assert y.shape[1:] == (1,)
    return F.cross_entropy(f, y.squeeze(1).long())


def binary(f, y):
    return F.binary_cross_entropy_with_logits(f, y.view_as(f).to(f))


def signs(f, y):
    return F.softplus(-f[:, 0] * y).mean()


def number(f, y):
    return 0.5 * (f[:, 0] - y).square().mean()


CLASSES = {
    "floats": LABELS.float(),
    "floats of numpy": LABELS.double().numpy(),
    "list of floats": [float(each) for each in LABELS],
    "column": LABELS[:, None],
    "column of floats": LABELS[:, None].float(),
    "uint16": LABELS.numpy().astype(np.uint16),
    "int16": LABELS.short(),
    "bytes": LABELS.byte().numpy(),
    "list": LABELS.tolist(),
    "one-hot": ROWS,
    "one-hot floats": ROWS.float(),
    "one-hot booleans": ROWS.bool(),
    "half precision": LABELS.bfloat16(),
}
NUMBERS = {
    "all of one class": LABELS * 0,
    "two classes": LABELS > 0,
    "negative": -WHOLE,
    "a column": WHOLE[:, None],
    "bytes": WHOLE.byte(),
    "real": LABELS.double() * 0.7 - 3,
    "whole floats": WHOLE.double().numpy(),
}
CASES = {  # network, inputs, targets, loss; and the loss by hand with its targets
    **{f"classes, {k}": (mlp(), X, y, CE, F.cross_entropy, LABELS) for k, y in CLASSES.items()},
    **{
        f"one output, {k}": (mlp(1), X, y, HALF, half, torch.as_tensor(y))
        for k, y in NUMBERS.items()
    },
    "one class of three": (mlp(), X, LABELS * 0, CE, F.cross_entropy, LABELS * 0),
    "signs": (mlp(1), X, 2 * (LABELS > 0) - 1, "logistic", signs, 2 * (LABELS > 0) - 1),
    "function of one-hot": (mlp(), X, ROWS, brier, brier, ROWS),
    "function of one-hot floats": (mlp(), X, ROWS.float(), brier, brier, ROWS),
    "function of a column": (mlp(), X, LABELS[:, None], of_column, of_column, LABELS[:, None]),
    "several labels": (mlp(), X, ROWS.roll(1, 1) + ROWS, binary, binary, ROWS.roll(1, 1) + ROWS),
    "function of a number": (mlp(1), X, WHOLE, number, number, WHOLE),
    "masks": (conv(1), PIXELS, MASKS, HALF, half, MASKS),
    "masks without channel": (conv(1), PIXELS, MASKS[:, 0].bool(), HALF, half, MASKS),
    "function of masks": (conv(1), PIXELS, MASKS[:, 0], binary, binary, MASKS),
    "one-hot pixels": (
        *(conv(2), PIXELS, F.one_hot(MASKS[:, 0]).movedim(-1, 1), CE),
        *(F.cross_entropy, MASKS[:, 0]),
    ),
    "pixels as floats": (conv(2), PIXELS, MASKS[:, 0].float(), CE, F.cross_entropy, MASKS[:, 0]),
    "complex64": (seeded(Rotary), X, LABELS, CE, F.cross_entropy, LABELS),
    "complex128": (
        *(seeded(Rotary, torch.float64, torch.complex128).double(), X.double(), LABELS, CE),
        *(F.cross_entropy, LABELS),
    ),
    "head in float64": (seeded(Rotary, torch.float64), X, LABELS, CE, F.cross_entropy, LABELS),
    "probabilities": (mlp(), X, SHARES, CE, F.cross_entropy, SHARES),
    "one-hot, of differences": (mlp(), X, ROWS, F.mse_loss, F.mse_loss, ROWS.float()),
    "one label each, by logistic losses": (mlp(), X, ROWS, binary, binary, ROWS),
}


def in_float64(tensor):
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


@pytest.mark.parametrize("dtype", [None, "float64"])
@pytest.mark.parametrize("kind", CASES)
def test_what_is_measured_is_what_was_given(kind, dtype):
    model, inputs, targets, loss, written, given = CASES[kind]
    exact = copy.deepcopy(model)._apply(in_float64), in_float64(inputs)
    found = measured(model, inputs, targets, loss=loss, dtype=dtype)
    assert found == pytest.approx(right(*exact, in_float64(given), written), rel=1e-4)


@pytest.mark.parametrize("family", ["geometry", "hessian", "adaptive", "spectrum", "jacobian"])
def test_networks_and_samples_of_inference_are_measured_inside_and_outside(family):
    right = flatlab.measure(mlp(), X, LABELS, families=family, loss=CE)
    with torch.inference_mode():
        x, model = X.clone(), mlp()
        inside = [flatlab.measure(m, X, LABELS, families=family, loss=CE) for m in (model, mlp())]
    outside = flatlab.measure(model, x, LABELS, families=family, loss=CE)
    assert all(report.equals(right) for report in (*inside, outside))


SECONDS = 1_700_000_000 + torch.arange(12)[:, None].double() * 3600
UNLIKE = {
    "seconds": (Clock(2, 3), SECONDS),
    "seconds and a half": (Clock(2, 3), SECONDS + 0.5),
    "close samples": (mlp(), 1e6 + 1e-3 * X.double()),
    "too large": (mlp(), 1e300 * X.double()),
    "squares too large": (mlp(), 1e30 * X),
    "close targets": (mlp(1), X, 1e6 + 1e-3 * X[:, 0].double()),
}


@pytest.mark.parametrize("kind", UNLIKE)
def test_numbers_that_a_precision_cannot_tell_apart_are_refused(kind):
    refused("", flatlab.measure, *UNLIKE[kind])
