"""Networks, data and losses as users have them: the same numbers as in the plainest form."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import flatlab
from flatlab.plan.registry import keys_of, measures_samples
from tests.refusals import refusal

SMALL = {"adaptive": {"draws": 2}, "sharpness": {"sharpness_radii": {"worst-standard-l2": [0.1]}}}
SPECIAL = {"linear", "diagonal"}
FAMILIES = [f for f in keys_of("metrics") if measures_samples(f) and f not in SPECIAL]
GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(10, 6, generator=GENERATOR).double()
V = torch.randn(10, 2, generator=GENERATOR).double()
LABELS = torch.randint(4, (10,), generator=GENERATOR)


def measured(family, model, *data, **options):
    options = {"loss": "cross-entropy"} | SMALL.get(family, {}) | options
    return flatlab.measure(model, *data, families=family, **options)


def seeded(module):
    torch.manual_seed(0)
    return module().double().eval()


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 5), nn.Linear(5, 4)

    def hidden(self, x):
        return torch.tanh(self.first(x))

    def forward(self, x):
        return self.last(self.hidden(x))


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


class Segmentation(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(3, 4, 1)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


class Language(nn.Module):
    """Tokens to the next ones."""

    def __init__(self):
        super().__init__()
        self.embedding, self.mix, self.head = nn.Embedding(7, 5), nn.GRU(5, 4), nn.Linear(4, 7)

    def forward(self, tokens):
        return self.head(self.mix(self.embedding(tokens).movedim(0, 1))[0].movedim(0, 1))


class Vectors(nn.Module):
    """A network whose outputs are one vector of all positions, the classes side by side."""

    def __init__(self, inner, last):
        super().__init__()
        self.inner, self.last = inner, last

    def forward(self, x):
        out = self.inner(x)
        return (out if self.last else out.movedim(1, -1)).flatten(1)


def same(one, other):
    for name in one.data_vars:
        assert np.allclose(one[name], other[name], rtol=1e-9, atol=1e-12, equal_nan=True), name


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
    names = [n for n in ours.data_vars if "flatness" not in n]
    for name in names:
        assert np.allclose(ours[name], other[name], rtol=1e-9, equal_nan=True), name


def hessian_of(model, loss, *inputs):
    """By torch.func, in all parameters."""
    named = dict(model.named_parameters())

    def total(vector):
        parts = vector.split([p.numel() for p in named.values()])
        pieces = zip(named.items(), parts, strict=True)
        state = {name: part.view_as(p) for (name, p), part in pieces}
        return loss(torch.func.functional_call(model, state, inputs))

    theta = torch.cat([p.detach().flatten() for p in named.values()])
    return torch.autograd.functional.hessian(total, theta)


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


LOSSES = {
    "a mean": nn.CrossEntropyLoss(),
    "a function": F.cross_entropy,
    "the user's own": lambda f, y: -f.log_softmax(1).gather(1, y[:, None]).mean(),
}


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("family", ["hessian", "sharpness"])
def test_a_loss_that_is_a_function_gives_what_its_name_gives(family, kind):
    how = {"sharpness_loss": None} if family == "sharpness" else {}
    same_loss = measured(family, seeded(Plain), X, LABELS, **how)
    ours = measured(family, seeded(Plain), X, LABELS, **how, loss=LOSSES[kind])
    for name in same_loss.data_vars:
        assert np.allclose(ours[name], same_loss[name], rtol=1e-6, equal_nan=True), name


def test_class_weights_and_sums_are_functions_too():
    weights = torch.tensor([1.0, 2.0, 0.5, 3.0]).double()

    def weighted(f, y):
        return F.cross_entropy(f, y, weight=weights, reduction="sum")

    model = seeded(Plain)
    report = measured("hessian", model, X, LABELS, loss=weighted)
    exact = hessian_of(model, lambda f: weighted(f, LABELS), X)
    largest = float(torch.linalg.eigvalsh(exact)[-1])
    assert float(report["hessian_lambda_max"]) == pytest.approx(largest, rel=1e-6)
    traces = {"flatness": ["traces"], "hessian_traces": "exact"}
    traced = measured("flatness", model, X, LABELS, loss=weighted, **traces)
    assert float(traced["hessian_trace"]) == pytest.approx(float(exact.trace()), rel=1e-9)


def test_a_loss_with_constants_of_another_precision_is_measured_and_said_not_to_be_checked():
    model, x = seeded(Plain).float(), X.float()
    weights = torch.tensor([1.0, 2.0, 0.5, 3.0])
    module = nn.CrossEntropyLoss(weight=weights, reduction="sum")

    def function(f, y):
        return F.cross_entropy(f, y, weight=weights, reduction="sum")

    checked = measured("hessian", model, x, LABELS, loss=module)
    assert "derivatives_not_checked" not in checked.attrs
    report = measured("hessian", model, x, LABELS, loss=function)
    assert "float64" in report.attrs["derivatives_not_checked"]
    same(report, checked)
    how = {"loss": function, "sharpness_loss": None}
    assert "float64" in refusal(
        flatlab.MeasureError, measured, "sharpness", model, x, LABELS, **how
    )


def test_a_loss_that_is_no_mean_over_samples_or_has_no_closed_form_is_refused():
    def coupled(f, y):
        return F.cross_entropy(f, y) ** 2

    assert "neither the mean nor the sum" in refusal(
        flatlab.MeasureError, measured, "hessian", seeded(Plain), X, LABELS, loss=coupled
    )
    closed = refusal(
        flatlab.MeasureError, measured, "geometry", seeded(Plain), X, LABELS, loss=F.cross_entropy
    )
    assert "closed form" in closed
    assert "cross-entropy" in closed

    def margins(f, y):
        return F.multi_margin_loss(f, y, p=2)

    once = refusal(
        flatlab.MeasureError, measured, "hessian", seeded(Plain), X, LABELS, loss=margins
    )
    assert "no second derivative" in once
    only = measured("hessian", seeded(Plain), X, LABELS, loss=margins, curvature=["hessian"])
    assert "differences of gradients" in only.attrs["derivatives"]
    raised = refusal(
        flatlab.MeasureError, measured, "hessian", seeded(Plain), X, LABELS, loss=lambda f, y: f / y
    )
    assert "the loss" in raised


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("named", ["last", "last.*", ["last.weight", "*.bias"]])
def test_theta_is_what_the_pattern_names(family, named):
    model, frozen = seeded(Plain), seeded(Plain)
    frozen.first.weight.requires_grad_(False)
    if named != ["last.weight", "*.bias"]:
        frozen.first.bias.requires_grad_(False)
    same(measured(family, model, X, LABELS, parameters=named), measured(family, frozen, X, LABELS))
    assert all(p.requires_grad for p in model.parameters())


def test_a_pattern_that_names_nothing_is_refused_with_the_nearest_name():
    message = refusal(
        flatlab.MeasureError, measured, "hessian", seeded(Plain), X, LABELS, parameters="lst"
    )
    assert "last" in message


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("family", FAMILIES)
def test_weights_of_half_precision_are_measured_in_float32(family, dtype):
    model = seeded(Plain).to(dtype)
    report = measured(family, model, X, LABELS)
    assert report.attrs["precision"] == "float32"
    same(report, measured(family, seeded(Plain).to(dtype).float(), X.float(), LABELS))
    assert next(model.parameters()).dtype == dtype


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "wrap",
    [lambda m: torch.compile(m, backend="aot_eager"), nn.DataParallel],
    ids=["compiled", "parallel"],
)
def test_what_wraps_a_network_is_measured_without_it(family, wrap):
    same(
        measured(family, wrap(seeded(Plain)), X, LABELS), measured(family, seeded(Plain), X, LABELS)
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_scripted_network_is_measured_or_refused_in_a_sentence(family):
    scripted = torch.jit.trace(seeded(Plain), X)
    try:
        report = measured(family, scripted, X, LABELS)
    except flatlab.MeasureError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        plain = measured(family, seeded(Plain), X, LABELS)
        for name in {*report.data_vars} & {"sharpness", "hessian_lambda_max", "mls"}:
            assert float(report[name]) == pytest.approx(float(plain[name]), rel=1e-6)
