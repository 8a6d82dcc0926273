"""Losses that are functions, parts of the parameters, other precisions, and wrappers."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import flatlab
from flatlab.core.registry import keys_of, measures_samples
from tests.networks.users import FAMILIES, LABELS, Plain, X, hessian_of, measured, same, seeded
from tests.refusals import refusal

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
@pytest.mark.parametrize("family", [k for k in keys_of("metrics") if measures_samples(k)])
@pytest.mark.parametrize("wrap", [torch.jit.script, lambda model: torch.jit.trace(model, X)])
def test_a_scripted_network_is_measured_or_refused_in_a_sentence(family, wrap):
    model = nn.Sequential(nn.Linear(X.shape[1], 8), nn.ReLU(), nn.Linear(8, 3)).to(X)
    try:
        report = measured(family, wrap(model), X, LABELS)
    except flatlab.MeasureError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        plain = measured(family, model, X, LABELS)
        for name in {*report.data_vars} & {"sharpness", "hessian_lambda_max", "mls"}:
            assert float(report[name]) == pytest.approx(float(plain[name]), rel=1e-6)


def plain_samples():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    return model, torch.randn(12, 6), torch.arange(12) % 3


def test_families_of_other_losses_are_the_same_beside_a_function():
    model, x, y = plain_samples()
    for family in ("adaptive", "sharpness"):
        function = flatlab.measure(model, x, y, families=family, loss=F.cross_entropy)
        named = flatlab.measure(model, x, y, families=family, loss="cross-entropy")
        for name in named.data_vars:
            np.testing.assert_array_equal(function[name], named[name], err_msg=name)
    known = flatlab.measure(model, x, y, families="representations", loss=F.cross_entropy)
    assert any(str(name).startswith("collapse") for name in known.data_vars)
