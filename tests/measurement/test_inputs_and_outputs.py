"""Inputs, outputs and targets as users have them: as in the plainest form, or refused in words."""

from collections import OrderedDict, namedtuple
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import one_hot
from torch.utils.data import DataLoader, TensorDataset

from tests.measurement.given import behind, right
from tests.networks.users import LABELS, Plain, V, X, measured, same, seeded
from tests.networks.written import Written
from tests.refusals import refused

BOTH = ("geometry", "hessian")
"""One that differentiates in the inputs, one that needs targets: all are given the same samples."""


class Named(Plain):
    """Inputs and outputs by name, as those of Hugging Face's models."""

    def forward(self, input_values=None, labels=None):
        hidden = self.hidden(input_values)
        return OrderedDict(logits=self.last(hidden), hidden_states=hidden)


def returning(made):
    """What it returns is made of its hidden features and its logits."""

    def call(net, x):
        hidden = net.plain.hidden(x)
        return made(hidden, net.plain.last(hidden))

    return seeded(lambda: Written(call, plain=Plain()))


OUTPUTS = {  # what is returned, and which output is asked for
    "attributes": (lambda h, f: SimpleNamespace(logits=f, hidden=h, loss=None), None),
    "a tuple": (lambda h, f: (h, f), 1),
    "a tuple with names": (namedtuple("Pair", ["features", "scores"]), "scores"),
}


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.u, self.v, self.last = nn.Linear(6, 5), nn.Linear(2, 5), nn.Linear(5, 4)

    def forward(self, u, v):
        return self.last(torch.tanh(self.u(u) + self.v(v)))


def one_input():
    """The same function of one tensor."""
    return Written(lambda net, x: net.two(*x.split([6, 2], 1)), two=TwoInputs())


def segmentation():
    parts = {"first": nn.Conv2d(2, 3, 3, padding=1), "last": nn.Conv2d(3, 4, 1)}
    return Written(lambda net, x: net.last(net.first(x).tanh()), **parts)


def as_vectors(inner):
    """A network whose outputs are one vector of all positions, the classes side by side."""
    return Written(lambda net, x: net.inner(x).movedim(1, -1).flatten(1), inner=inner)


@pytest.fixture(scope="module")
def plain():
    return measured(BOTH, seeded(Plain), X, LABELS)


@pytest.mark.parametrize(("made", "output"), OUTPUTS.values(), ids=OUTPUTS)
def test_logits_among_other_outputs_are_meant_and_others_may_be_named(made, output, plain):
    same(measured(BOTH, returning(made), X, LABELS, output=output), plain)


def test_outputs_that_are_not_known_are_refused_with_those_that_are():
    model, data = returning(OUTPUTS["a tuple"][0]), ({"input_values": X}, LABELS)
    refused(["output=", "0, 1"], measured, "hessian", model, X, LABELS)
    refused("'logits', 'hidden_states'", measured, "hessian", seeded(Named), *data, output="scores")


class Batch:
    """Neither a tuple nor a dictionary."""

    def __init__(self, x, y):
        self.x, self.labels = x, y


def loaders(x, y, size=4):
    whole = TensorDataset(x, y)
    parts = list(zip(x.split(size), y.split(size), strict=True))
    yield "loader", DataLoader(whole, size)
    yield "dataset", whole
    yield "tuples, once", iter(parts)
    yield "dictionaries", [{"input_values": a, "labels": b} for a, b in parts]
    yield "nested", [({"input_values": a}, b) for a, b in parts]
    yield "arrays", [(a.numpy(), b.numpy()) for a, b in parts]


@pytest.mark.parametrize("kind", [name for name, _ in loaders(X, LABELS)])
def test_batches_give_what_the_whole_tensors_give(kind, plain):
    data = dict(loaders(X, LABELS))[kind]
    model = seeded(Named if kind in ("dictionaries", "nested") else Plain)
    same(measured(BOTH, model, data), plain)


def test_objects_and_limits_and_batches_without_targets():
    parts = [Batch(a, b) for a, b in zip(X.split(4), LABELS.split(4), strict=True)]
    whole = measured("hessian", seeded(Plain), X[:6], LABELS[:6])
    same(measured("hessian", seeded(Plain), parts, samples=6), whole)
    same(measured("hessian", seeded(Plain), X, LABELS, samples=6), whole)
    same(measured("hessian", seeded(Plain), X, LABELS.tolist(), samples=6), whole)
    alone = measured("geometry", seeded(Plain), DataLoader(X, 3))
    same(alone, measured("geometry", seeded(Plain), X))


def test_an_endless_loader_is_read_as_far_as_wanted():
    def endless():
        while True:
            yield X, LABELS

    report = measured("hessian", seeded(Plain), endless(), samples=15)
    assert report.attrs["title"].endswith("15 samples")


BAD = {
    "nothing came": ("no samples", []),
    "an object": ("not object", object()),
    "words": ("not str", "images/"),
    "shapes differ": ("do not fit", [(X, LABELS), (X[:, :3], LABELS)]),
    "an input more": ("do not fit", [{"x": X, "y": LABELS}, {"x": X, "z": X, "y": LABELS}]),
    "some targets": ("others have none", [(X, LABELS), (X,)]),
    "lengths differ": ("different numbers", (X, V[:5])),
    "targets beside batches": ("bring their targets", DataLoader(X, 3), LABELS),
}


@pytest.mark.parametrize("kind", BAD)
def test_batches_that_mean_nothing_are_refused_in_a_sentence(kind):
    reason, *data = BAD[kind]
    refused(reason, measured, "hessian", seeded(Plain), *data)


@pytest.mark.parametrize("data", [(X, V), {"u": X, "v": V}, {"v": V, "u": X}])
def test_several_inputs_are_one_vector_of_all_of_them(data):
    ours = measured(BOTH, seeded(TwoInputs), data, LABELS)
    one = measured(BOTH, seeded(one_input), torch.cat([X, V], 1), LABELS)
    if isinstance(data, dict) and next(iter(data)) == "v":
        one = one.drop_vars(["norm_iterations", "norm_residual"], errors="ignore")
        names = [n for n in one.data_vars if "slope" not in n and not n.startswith("normalized_s")]
        for name in names:  # starts of iterations are drawn in the order of the inputs
            assert np.allclose(ours[name], one[name], rtol=1e-3, equal_nan=True), name
        return
    same(ours, one)


@pytest.mark.parametrize("family", ["geometry", "jacobian", "adaptive"])
def test_outputs_at_positions_are_one_vector_of_all_of_them(family):
    x = torch.randn(5, 2, 3, 3).double()
    y = torch.randint(4, (5, 3, 3))
    model = seeded(segmentation)
    vectors = F.one_hot(y, 4).double().flatten(1)
    ours = measured(family, model, x, y, loss="half-mse")
    other = measured(family, as_vectors(model), x, vectors, loss="half-mse")
    by_position = ("flatness", "softmax", "sample_accuracy")  # of each position alone
    names = [n for n in ours.data_vars if not any(part in n for part in by_position)]
    for name in names:
        assert np.allclose(ours[name], other[name], rtol=1e-9, equal_nan=True), name


def test_numbers_per_sample_without_a_dimension_are_one_output():
    squeezed, column = (
        behind(seeded(Plain), lambda f: f[:, 0]),
        behind(seeded(Plain), lambda f: f[:, :1]),
    )
    number = measured("hessian", squeezed, X, V[:, 0], loss="half-mse")
    same(number, measured("hessian", column, X, V[:, :1], loss="half-mse"))


CLASSES = torch.tensor([0, 1, 2, 0, 1, 2, 2, 1])
ROWS = torch.randn(8, 5, generator=torch.Generator().manual_seed(0)).double()


def of_targets(targets, x=ROWS, family=BOTH, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    return measured(family, model, x, targets, **options)


@pytest.mark.parametrize("ignored", [-100, 1])
def test_ignored_labels_are_left_out_and_counted(ignored):
    labels = CLASSES.clone()
    labels[[1, 4, 7]] = ignored
    kept = labels != ignored
    report = of_targets(labels, ignore_index=ignored)
    assert report.equals(of_targets(labels[kept], ROWS[kept]))
    assert report.attrs["samples_ignored"] == 3
    assert "samples_ignored" not in of_targets(CLASSES).attrs


REFUSED = {
    "another negative label": (CLASSES - 1, "ignore_index=-1"),
    "all are ignored": (torch.full((8,), -100), "all labels"),
    "too large": (CLASSES + 1, "3 outputs"),
    "not finite": (torch.full((8, 3), torch.nan), "finite"),
    "complex": (one_hot(CLASSES, 3) + 0j, "finite real"),
    "too few": (CLASSES[:-1], "8 inputs and 7 targets"),
    "words": (["a"] * 8, "targets"),
    "an object": (object(), "not object"),
    "no probabilities": ([[1.0, 1.0, 0.0]] * 8, "neither classes nor probabilities"),
    **{f"loss {loss}": (CLASSES, "cross-entropy", {"loss": loss}) for loss in (None, 3, "mse")},
}


@pytest.mark.parametrize("kind", REFUSED)
def test_targets_and_losses_that_mean_nothing_are_refused_in_a_sentence(kind):
    targets, reason, *how = REFUSED[kind]
    refused(reason, of_targets, targets, family="hessian", **dict(*how))


def of_weights(f, y):
    return (y[:, 1] * F.cross_entropy(f, y[:, 0].long(), reduction="none")).mean()


def test_several_targets_are_refused_and_measured_side_by_side():
    weights = torch.rand(len(X), generator=torch.Generator().manual_seed(1)).double() + 0.1
    several = {"classes": LABELS, "weights": weights}
    for targets, data in ((several, X), ((LABELS, weights), X), (None, [(X, (LABELS, weights))])):
        words = ["there are 2 targets", "side by side in one tensor", "a function"]
        refused(words, measured, "hessian", seeded(Plain), data, targets, loss=of_weights)
    side_by_side = torch.stack([LABELS.double(), weights], 1)
    model = seeded(Plain)
    report = measured("hessian", model, X, side_by_side, loss=of_weights)
    largest, *_ = right(model, X, side_by_side, of_weights)
    assert float(report["hessian_lambda_max"]) == pytest.approx(largest, rel=1e-6)
