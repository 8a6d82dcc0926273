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

import flatlab
from tests.networks.users import LABELS, Plain, V, X, measured, same, seeded
from tests.networks.whole import hessian_of
from tests.networks.written import Written
from tests.refusals import refused

BOTH = ("geometry", "hessian")
"""One that differentiates in the inputs, one that needs targets: all are given the same samples."""


class Named(Plain):
    """Inputs and outputs by name, as those of Hugging Face's models."""

    def forward(self, input_values=None, labels=None):
        hidden = self.hidden(input_values)
        return OrderedDict(logits=self.last(hidden), hidden_states=hidden)


class Attributes(Plain):
    def forward(self, x):
        hidden = self.hidden(x)
        return SimpleNamespace(logits=self.last(hidden), hidden=hidden, loss=None)


class Several(Plain):
    def forward(self, x):
        hidden = self.hidden(x)
        return hidden, self.last(hidden)


Pair = namedtuple("Pair", ["features", "scores"])


class NamedTuple(Plain):
    def forward(self, x):
        hidden = self.hidden(x)
        return Pair(hidden, self.last(hidden))


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.u, self.v, self.last = nn.Linear(6, 5), nn.Linear(2, 5), nn.Linear(5, 4)

    def forward(self, u, v):
        return self.last(torch.tanh(self.u(u) + self.v(v)))


class OneInput(TwoInputs):
    """The same function of one tensor."""

    def forward(self, x):
        return super().forward(*x.split([6, 2], 1))


def segmentation():
    parts = {"first": nn.Conv2d(2, 3, 3, padding=1), "last": nn.Conv2d(3, 4, 1)}
    return Written(lambda net, x: net.last(net.first(x).tanh()), **parts)


def language():
    """Tokens to the next ones."""
    parts = {"embedding": nn.Embedding(7, 5), "mix": nn.GRU(5, 4), "head": nn.Linear(4, 7)}
    mixed = lambda net, tokens: net.mix(net.embedding(tokens).movedim(0, 1))[0]  # noqa: E731
    return Written(lambda net, tokens: net.head(mixed(net, tokens).movedim(0, 1)), **parts)


def as_vectors(inner):
    """A network whose outputs are one vector of all positions, the classes side by side."""
    return Written(lambda net, x: net.inner(x).movedim(1, -1).flatten(1), inner=inner)


@pytest.fixture(scope="module")
def plain():
    return measured(BOTH, seeded(Plain), X, LABELS)


def test_logits_among_other_outputs_are_meant_and_others_may_be_named(plain):
    same(measured(BOTH, seeded(Attributes), X, LABELS), plain)
    same(measured(BOTH, seeded(Named), {"input_values": X}, LABELS), plain)
    same(measured(BOTH, seeded(Several), X, LABELS, output=1), plain)
    same(measured(BOTH, seeded(NamedTuple), X, LABELS, output="scores"), plain)


def test_outputs_that_are_not_known_are_refused_with_those_that_are():
    refused(["output=", "0, 1"], measured, "hessian", seeded(Several), X, LABELS)
    data = {"input_values": X}, LABELS
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
    "nothing came": ([], "no samples"),
    "an object": (object(), "not object"),
    "words": ("images/", "not str"),
    "shapes differ": ([(X, LABELS), (X[:, :3], LABELS)], "do not fit"),
    "an input more": ([{"x": X, "y": LABELS}, {"x": X, "z": X, "y": LABELS}], "do not fit"),
    "some targets": ([(X, LABELS), (X,)], "others have none"),
    "lengths differ": ((X, V[:5]), "different numbers"),
}


@pytest.mark.parametrize("kind", BAD)
def test_batches_that_mean_nothing_are_refused_in_a_sentence(kind):
    data, reason = BAD[kind]
    refused(reason, measured, "hessian", seeded(Plain), data)


def test_targets_beside_batches_are_refused():
    refused("bring their targets", measured, "hessian", seeded(Plain), DataLoader(X, 3), LABELS)


@pytest.mark.parametrize("data", [(X, V), {"u": X, "v": V}, {"v": V, "u": X}])
def test_several_inputs_are_one_vector_of_all_of_them(data):
    ours = measured(BOTH, seeded(TwoInputs), data, LABELS)
    one = measured(BOTH, seeded(OneInput), torch.cat([X, V], 1), LABELS)
    if isinstance(data, dict) and next(iter(data)) == "v":
        one = one.drop_vars(["norm_iterations", "norm_residual"], errors="ignore")
        names = [n for n in one.data_vars if "slope" not in n and not n.startswith("normalized_s")]
        for name in names:  # starts of iterations are drawn in the order of the inputs
            assert np.allclose(ours[name], one[name], rtol=1e-3, equal_nan=True), name
        return
    same(ours, one)


@pytest.mark.parametrize("family", ["geometry", "jacobian", "flatness", "adaptive"])
def test_outputs_at_positions_are_one_vector_of_all_of_them(family):
    x = torch.randn(5, 2, 3, 3).double()
    y = torch.randint(4, (5, 3, 3))
    model = seeded(segmentation)
    how = {"loss": "half-mse"} | ({"flatness": ["traces"]} if family == "flatness" else {})
    vectors = F.one_hot(y, 4).double().flatten(1)
    ours = measured(family, model, x, y, **how)
    other = measured(family, as_vectors(model), x, vectors, **how)
    if family == "flatness":  # the loss is the mean over the nine positions
        assert float(ours["hessian_trace"]) == pytest.approx(float(other["hessian_trace"]) / 9)
        return
    by_position = ("flatness", "softmax", "sample_accuracy")  # of each position alone
    names = [n for n in ours.data_vars if not any(part in n for part in by_position)]
    for name in names:
        assert np.allclose(ours[name], other[name], rtol=1e-9, equal_nan=True), name


def test_the_loss_of_positions_is_their_mean():
    torch.manual_seed(1)
    model, x, targets = seeded(language), torch.randint(7, (4, 6)), torch.randint(7, (4, 6))
    report = measured("hessian", model, x, targets)
    exact = hessian_of(model, lambda f: F.cross_entropy(f.movedim(-1, 1), targets), x)
    largest = float(torch.linalg.eigvalsh(exact)[-1])
    assert float(report["hessian_lambda_max"]) == pytest.approx(largest, rel=1e-6)
    ours = measured("hessian", model, x, targets, loss="cross-entropy", batch_size=2)
    expected = pytest.approx(float(report["gauss_newton_lambda_max"]), rel=1e-4)
    assert float(ours["gauss_newton_lambda_max"]) == expected
    radii = {"sharpness_radii": {"worst-standard-l2": [0.1]}}
    assert measured("sharpness", model, x, targets, **radii)["sharpness_at_radius"].item() > 0
    refused("label 7", measured, "hessian", model, x, targets + 1)


def test_numbers_per_sample_without_a_dimension_are_one_output():
    class Squeezed(Plain):
        def forward(self, x):
            return super().forward(x)[:, 0]

    class Column(Plain):
        def forward(self, x):
            return super().forward(x)[:, :1]

    number = measured("hessian", seeded(Squeezed), X, V[:, 0], loss="half-mse")
    same(number, measured("hessian", seeded(Column), X, V[:, :1], loss="half-mse"))


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
}


@pytest.mark.parametrize("kind", REFUSED)
def test_targets_that_mean_nothing_are_refused_in_a_sentence(kind):
    targets, reason = REFUSED[kind]
    refused(reason, of_targets, targets, family="hessian")


def test_probabilities_are_targets_and_complex_parameters_are_refused():
    assert of_targets(torch.tensor([[0.2, 0.3, 0.5]] * 8).double()).data_vars
    model = nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 3))
    model[1].weight = nn.Parameter(model[1].weight.detach() + 0j)
    refused("complex", flatlab.measure, model, ROWS.float(), CLASSES)


@pytest.mark.parametrize("loss", [None, 3, "mse"])
def test_a_loss_that_is_neither_a_name_nor_a_function_is_refused_with_the_names(loss):
    refused("cross-entropy", of_targets, CLASSES, family="hessian", loss=loss)


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
    exact = hessian_of(model, lambda f: of_weights(f, side_by_side), X)
    largest = float(torch.linalg.eigvalsh(exact)[-1])
    assert float(report["hessian_lambda_max"]) == pytest.approx(largest, rel=1e-6)
