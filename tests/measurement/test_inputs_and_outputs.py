"""Inputs and outputs as users have them: the same numbers as in the plainest form."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import flatlab
from tests.networks.users import (
    FAMILIES,
    LABELS,
    Attributes,
    Language,
    Named,
    NamedTuple,
    OneInput,
    Plain,
    Segmentation,
    Several,
    TwoInputs,
    V,
    Vectors,
    X,
    hessian_of,
    measured,
    same,
    seeded,
)
from tests.refusals import refusal


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", [Attributes, Named])
def test_logits_among_other_outputs_are_meant(kind, family):
    data = ({"input_values": X}, LABELS) if kind is Named else (X, LABELS)
    same(measured(family, seeded(kind), *data), measured(family, seeded(Plain), X, LABELS))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_output_that_is_named_is_measured(family):
    plain = measured(family, seeded(Plain), X, LABELS)
    same(measured(family, seeded(Several), X, LABELS, output=1), plain)
    same(measured(family, seeded(NamedTuple), X, LABELS, output="scores"), plain)


def test_outputs_that_are_not_known_are_refused_with_those_that_are():
    message = refusal(flatlab.MeasureError, measured, "hessian", seeded(Several), X, LABELS)
    assert "output=" in message
    assert "0, 1" in message
    names = refusal(
        flatlab.MeasureError,
        measured,
        "hessian",
        seeded(Named),
        {"input_values": X},
        LABELS,
        output="scores",
    )
    assert "'logits', 'hidden_states'" in names


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


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", [name for name, _ in loaders(X, LABELS)])
def test_batches_give_what_the_whole_tensors_give(kind, family):
    data = dict(loaders(X, LABELS))[kind]
    model = seeded(Named if kind in ("dictionaries", "nested") else Plain)
    same(measured(family, model, data), measured(family, seeded(Plain), X, LABELS))


def test_objects_and_limits_and_batches_without_targets():
    class OfX(Plain):
        def forward(self, x):
            return super().forward(x)

    parts = [Batch(a, b) for a, b in zip(X.split(4), LABELS.split(4), strict=True)]
    whole = measured("hessian", seeded(Plain), X[:6], LABELS[:6])
    same(measured("hessian", seeded(OfX), parts, samples=6), whole)
    same(measured("hessian", seeded(Plain), X, LABELS, samples=6), whole)
    same(measured("hessian", seeded(Plain), X, LABELS.tolist(), samples=6), whole)
    alone = measured("geometry", seeded(Plain), DataLoader(X, 3))
    same(alone, measured("geometry", seeded(Plain), X))


def test_an_endless_loader_is_read_as_far_as_wanted():
    def endless():
        while True:
            yield X, LABELS

    assert (
        measured("hessian", seeded(Plain), endless(), samples=15)
        .attrs["title"]
        .endswith("15 samples")
    )


BAD = {
    "nothing came": ([], "no samples"),
    "an object": (object(), "not object"),
    "words": ("images/", "not str"),
    "shapes differ": ([(X, LABELS), (X[:, :3], LABELS)], "do not fit"),
    "some targets": ([(X, LABELS), (X,)], "others have none"),
    "lengths differ": ((X, V[:5]), "different numbers"),
}


@pytest.mark.parametrize("kind", BAD)
def test_batches_that_mean_nothing_are_refused_in_a_sentence(kind):
    data, reason = BAD[kind]
    assert reason in refusal(flatlab.MeasureError, measured, "hessian", seeded(Plain), data)


def test_targets_beside_batches_and_limits_below_one_are_refused():
    both = refusal(
        flatlab.MeasureError, measured, "hessian", seeded(Plain), DataLoader(X, 3), LABELS
    )
    assert "bring their targets" in both
    none = refusal(flatlab.MeasureError, measured, "hessian", seeded(Plain), X, LABELS, samples=0)
    assert "samples=0" in none


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("data", [(X, V), {"u": X, "v": V}, {"v": V, "u": X}])
def test_several_inputs_are_one_vector_of_all_of_them(family, data):
    ours = measured(family, seeded(TwoInputs), data, LABELS)
    one = measured(family, seeded(OneInput), torch.cat([X, V], 1), LABELS)
    if isinstance(data, dict) and next(iter(data)) == "v":
        one = one.drop_vars(["norm_iterations", "norm_residual"], errors="ignore")
        names = [n for n in one.data_vars if "slope" not in n and not n.startswith("normalized_s")]
        for name in names:  # starts of iterations are drawn in the order of the inputs
            assert np.allclose(ours[name], one[name], rtol=1e-3, equal_nan=True), name
        return
    same(ours, one)


def test_inputs_that_are_integers_beside_numbers_are_refused_where_inputs_are_differentiated():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.last = nn.Embedding(3, 6), nn.Linear(6, 4)

        def forward(self, x, kind):
            return self.last(torch.tanh(x + self.embedding(kind)))

    model, kind = seeded(Mixed), torch.arange(10) % 3
    assert measured("hessian", model, (X, kind), LABELS)["hessian_converged"] == 1
    assert "integers" in refusal(
        flatlab.MeasureError, measured, "geometry", model, (X, kind), LABELS
    )


@pytest.mark.parametrize("family", ["geometry", "jacobian", "flatness", "adaptive"])
def test_outputs_at_positions_are_one_vector_of_all_of_them(family):
    x = torch.randn(5, 2, 3, 3).double()
    y = torch.randint(4, (5, 3, 3))
    model = seeded(Segmentation)
    how = {"loss": "half-mse"} | ({"flatness": ["traces"]} if family == "flatness" else {})
    vectors = F.one_hot(y, 4).double().flatten(1)
    ours = measured(family, model, x, y, **how)
    other = measured(family, Vectors(model, False), x, vectors, **how)
    if family == "flatness":  # the loss is the mean over the nine positions
        assert float(ours["hessian_trace"]) == pytest.approx(float(other["hessian_trace"]) / 9)
        return
    by_position = ("flatness", "softmax", "sample_accuracy")  # of each position alone
    names = [n for n in ours.data_vars if not any(part in n for part in by_position)]
    for name in names:
        assert np.allclose(ours[name], other[name], rtol=1e-9, equal_nan=True), name


@pytest.mark.parametrize("kind", ["segmentation", "language"])
def test_the_loss_of_positions_is_their_mean(kind):
    torch.manual_seed(1)
    if kind == "segmentation":
        model, x, y = seeded(Segmentation), torch.randn(4, 2, 3, 3).double(), (4, 3, 3)
        classes, targets = 4, torch.randint(4, y)
    else:
        model, x = seeded(Language), torch.randint(7, (4, 6))
        classes, targets = 7, torch.randint(7, (4, 6))
    last = -1 if kind == "language" else 1

    def loss(outputs):
        return F.cross_entropy(outputs.movedim(last, 1), targets)

    report = measured("hessian", model, x, targets)
    exact = float(torch.linalg.eigvalsh(hessian_of(model, loss, x))[-1])
    assert float(report["hessian_lambda_max"]) == pytest.approx(exact, rel=1e-6)
    ours = measured("hessian", model, x, targets, loss="cross-entropy", batch_size=2)
    assert float(ours["gauss_newton_lambda_max"]) == pytest.approx(
        float(report["gauss_newton_lambda_max"]), rel=1e-4
    )
    radii = {"sharpness_radii": {"worst-standard-l2": [0.1]}}
    assert measured("sharpness", model, x, targets, **radii)["sharpness_at_radius"].item() > 0
    wrong = refusal(flatlab.MeasureError, measured, "hessian", model, x, targets + 1)
    assert f"label {classes}" in wrong


def test_numbers_per_sample_without_a_dimension_are_one_output():
    class Squeezed(Plain):
        def forward(self, x):
            return super().forward(x)[:, 0]

    class Column(Plain):
        def forward(self, x):
            return super().forward(x)[:, :1]

    how = {"loss": "half-mse"}
    y = V[:, 0]
    same(
        measured("hessian", seeded(Squeezed), X, y, **how),
        measured("hessian", seeded(Column), X, y[:, None], **how),
    )
