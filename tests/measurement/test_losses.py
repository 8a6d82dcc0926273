"""Losses with class weights and as functions; parts of parameters, precisions and wrappers."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import flatlab
from flatlab.core.registry import keys_of, measures_samples
from tests.networks.masked import largest
from tests.networks.users import LABELS, Plain, X, measured, same, seeded
from tests.networks.whole import hessian_of
from tests.refusals import refused

BOTH = ("geometry", "hessian")
WEIGHTS = [1.0, 2.0, 0.5, 3.0]
TENSOR = torch.tensor(WEIGHTS).double()


class Kinked(Plain):
    def hidden(self, x):
        return torch.relu(self.first(x))


def weighted(family, model, **options):
    return measured(family, model, X, LABELS, class_weights=WEIGHTS, **options)


def loss(f, y=LABELS, **how):
    """Of torch."""
    return F.cross_entropy(f, y, weight=TENSOR, **how)


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("kind", "size", "smoothing"), [(Plain, None, 0.0), (Kinked, 1, 0.2), (Plain, 1, 0.2)]
)
def test_the_hessian_is_that_of_torchs_weighted_mean(kind, size, smoothing):
    model = seeded(kind)
    exact = hessian_of(model, lambda f: loss(f, label_smoothing=smoothing), X)
    how = {"batch_size": size, "label_smoothing": smoothing}
    report = weighted("hessian", model, **how)
    assert float(report["hessian_lambda_max"]) == pytest.approx(largest(exact), rel=1e-6)
    pairs = weighted("spectrum", model, largest=2, residual=1e-9, **how)["largest_eigenvalue"]
    expected = torch.linalg.eigvalsh(exact).flip(0)[:2].numpy()
    assert pairs.values.ravel() == pytest.approx(expected, rel=1e-9)
    traces = {"flatness": ["traces"], "hessian_traces": "exact"}
    traced = weighted("flatness", model, **traces, **how)
    assert float(traced["hessian_trace"]) == pytest.approx(float(exact.trace()), rel=1e-9)


def test_the_pair_bound_holds_for_weighted_losses():
    report = weighted("jacobian", seeded(Plain), pairs=2)
    assert float(report["pairs_below"]) == 0


def test_what_has_no_closed_form_with_weights_is_refused_in_a_sentence():
    model = seeded(Plain)
    refused(["class weights", "relative_flatness_loss="], weighted, "geometry", model)
    for how in ({"relative_flatness_loss": "half-mse"}, {"quantities": ["sharpness"]}):
        assert float(weighted("geometry", model, **how)["sharpness"]) > 0
    refused("negative log-likelihood", weighted, "spectrum", model, matrices=["fisher"])
    linear = nn.Sequential(nn.Flatten(), nn.Linear(6, 4)).double()
    refused("class weights", weighted, "linear", linear)


@pytest.mark.parametrize(
    ("given", "about"),
    [
        ({"class_weights": WEIGHTS, "loss": "half-mse"}, "unknown key 'class_weights'"),
        ({"class_weights": WEIGHTS, "loss": F.cross_entropy}, "unknown key 'class_weights'"),
        ({"class_weights": WEIGHTS[:3]}, "class_weights"),
        ({"class_weights": [*WEIGHTS, 1.0]}, "5 class weights and 4 outputs"),
        ({"class_weights": [1.0, -1.0, 1.0, 1.0]}, ">= 0"),
        ({"class_weights": [0.0] * 4}, "0 for the classes"),
        ({"class_weights": "balanced"}, "class_weights"),
        ({"loss": nn.CrossEntropyLoss(weight=TENSOR)}, "class_weights="),  # torch's own mean
    ],
)
def test_weights_that_do_not_fit_are_refused(given, about):
    how = {"families": "hessian", "loss": "cross-entropy"} | given
    labels = torch.where(LABELS == 3, 3, LABELS)
    labels[0] = 3
    refused(about, flatlab.measure, seeded(Plain), X, labels, **how)


LOSSES = {
    "a mean": nn.CrossEntropyLoss(),
    "a function": F.cross_entropy,
    "the user's own": lambda f, y: -f.log_softmax(1).gather(1, y[:, None]).mean(),
}


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize(
    ("family", "how"),
    [
        ("hessian", {}),
        ("sharpness", {"sharpness_loss": None}),
        *((family, {}) for family in ("sharpness", "adaptive", "representations")),  # their own
    ],
)
def test_a_loss_that_is_a_function_gives_what_its_name_gives(family, how, kind):
    same_loss = measured(family, seeded(Plain), X, LABELS, **how)
    ours = measured(family, seeded(Plain), X, LABELS, **how, loss=LOSSES[kind])
    assert {*ours.data_vars} == {*same_loss.data_vars}
    for name in same_loss.data_vars:
        assert np.allclose(ours[name], same_loss[name], rtol=1e-6, equal_nan=True), name


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
    refused("float64", measured, "sharpness", model, x, LABELS, **how)


@pytest.mark.parametrize(
    ("loss", "family", "words"),
    [
        (lambda f, y: F.cross_entropy(f, y) ** 2, "hessian", "neither the mean nor the sum"),
        (F.cross_entropy, "geometry", ["closed form", "cross-entropy"]),
        (partial(F.multi_margin_loss, p=2), "hessian", "no second derivative"),
        (lambda f, y: f / y, "hessian", "the loss"),
    ],
)
def test_a_loss_that_is_no_mean_over_samples_or_has_no_closed_form_is_refused(loss, family, words):
    refused(words, measured, family, seeded(Plain), X, LABELS, loss=loss)


def test_one_matrix_alone_is_had_by_differences_of_gradients():
    how = {"loss": partial(F.multi_margin_loss, p=2), "curvature": ["hessian"]}
    only = measured("hessian", seeded(Plain), X, LABELS, **how)
    assert "differences of gradients" in only.attrs["derivatives"]


@pytest.mark.parametrize("named", ["last", "last.*", ["last.weight", "*.bias"]])
def test_theta_is_what_the_pattern_names(named):
    model, frozen = seeded(Plain), seeded(Plain)
    frozen.first.weight.requires_grad_(False)
    if named != ["last.weight", "*.bias"]:
        frozen.first.bias.requires_grad_(False)
    same(measured(BOTH, model, X, LABELS, parameters=named), measured(BOTH, frozen, X, LABELS))
    assert all(p.requires_grad for p in model.parameters())


def test_a_pattern_that_names_nothing_is_refused_with_the_nearest_name():
    refused("last", measured, "hessian", seeded(Plain), X, LABELS, parameters="lst")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_of_half_precision_are_measured_in_float32(dtype):
    model = seeded(Plain).to(dtype)
    report = measured(BOTH, model, X, LABELS)
    assert report.attrs["precision"] == "float32"
    same(report, measured(BOTH, seeded(Plain).to(dtype).float(), X.float(), LABELS))
    assert next(model.parameters()).dtype == dtype


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", [k for k in keys_of("families") if measures_samples(k)])
def test_a_scripted_network_is_measured_or_refused_in_a_sentence(family):
    model = nn.Sequential(nn.Linear(X.shape[1], 8), nn.ReLU(), nn.Linear(8, 3)).to(X)
    try:
        report = measured(family, torch.jit.script(model), X, LABELS)
    except flatlab.MeasureError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        plain = measured(family, model, X, LABELS)
        for name in {*report.data_vars} & {"sharpness", "hessian_lambda_max", "mls"}:
            assert float(report[name]) == pytest.approx(float(plain[name]), rel=1e-6)
