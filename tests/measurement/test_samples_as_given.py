"""Samples and targets are taken as they were given, in every form that has one meaning."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import flatlab
from tests.measurement.given import LABELS, TOKENS, X, behind, measured, right
from tests.networks.written import Written
from tests.refusals import refused


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.e, self.a, self.b = nn.Embedding(101, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.double()

    def forward(self, features, user, mask=None):
        h = torch.tanh(self.a(features)) + self.e((user % 101).long())
        return self.b(h if mask is None else h * mask)


def baked(model, fixed):
    """The same where integers and masks are a part of the network: of one sample."""
    return Written(
        lambda net, x: net.model(x, *(f.expand(len(x), *f.shape[1:]) for f in fixed)), model=model
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
        one = flatlab.measure(baked(model, [each[n : n + 1] for each in beside]), x[n : n + 1])
        for name in ("sharpness", "mls", "log_volume", "local_dimension"):
            ours, alone = (r[f"{name}_per_sample"].values for r in (report, one))
            rel = 1e-9 if kind == "float64" else 1e-4
            assert ours[n] == pytest.approx(alone[0], rel=rel, nan_ok=True)
    curved = flatlab.measure(model, given, LABELS, families="hessian", loss="cross-entropy")
    wanted = right(model, tuple(parts))[0]
    assert curved.hessian_lambda_max.item() == pytest.approx(wanted, rel=1e-7)


@pytest.mark.parametrize(
    "family", ["adaptive", "flatness", "representations", "sharpness", "spectrum", "capacity"]
)
def test_every_family_takes_inputs_beside_real_ones(family):
    how = {"loss": "cross-entropy"} if family != "capacity" else {}
    how |= {"sharpness_radii": {"worst-standard-l2": [0.1]}} if family == "sharpness" else {}
    report = flatlab.measure(Recommender(), BESIDE["by name"], LABELS, families=family, **how)
    assert report.data_vars


class Translator(nn.Module):
    """Tokens for the outputs, behind a source of another length, which a mask belongs to."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.e, self.h = nn.Embedding(6, 4), nn.Linear(4, 3)
        self.double()

    def forward(self, input_ids, attention_mask, decoder_input_ids):
        source = (self.e(input_ids) * attention_mask[..., None]).sum(1, keepdim=True)
        return self.h(torch.tanh(self.e(decoder_input_ids) + source))


def test_a_mask_of_a_source_of_another_length_is_an_input():
    given = {"input_ids": TOKENS, "attention_mask": (TOKENS > 1).long()}
    given["decoder_input_ids"], y = TOKENS[:, :2].flip(1), TOKENS[:, :2] % 3
    found = flatlab.measure(Translator(), given, y, families="hessian", loss="cross-entropy")
    wanted = right(Translator(), (*given.values(),), y, second)[0]
    assert found.hessian_lambda_max.item() == pytest.approx(wanted, rel=1e-7)


def conv(axes=1):
    torch.manual_seed(1)
    layer = {1: nn.Conv1d, 2: nn.Conv2d}[axes]
    return nn.Sequential(layer(2, 3, 3, padding=1), nn.Tanh(), layer(3, 4, 1)).double()


def last(model):
    return behind(model, lambda f: f.movedim(1, -1))


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
