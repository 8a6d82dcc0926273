"""Labels and targets of other kinds are taken, or refused in a sentence, alike in all families."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import one_hot

import flatlab
from flatlab.core.registry import keys_of, measures_samples
from tests.refusals import refusal

FAMILIES = [f for f in keys_of("metrics") if measures_samples(f) and f != "diagonal"]
LABELS = torch.tensor([0, 1, 2, 0, 1, 2, 2, 1])
X = torch.randn(8, 5, generator=torch.Generator().manual_seed(0)).double()
OPTIONS = {"adaptive": {"draws": 2}, "sharpness": {"sharpness_radii": {"worst-standard-l2": [0.1]}}}


def measured(family, x, targets, outputs=3, loss="cross-entropy", **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, outputs)).double()
    if family == "linear":
        model = nn.Linear(5, outputs).double()
    options |= OPTIONS.get(family, {})
    return flatlab.measure(model, x, targets, families=family, loss=loss, **options)


TAKEN = {
    "int32": LABELS.int(),
    "int16": LABELS.short(),
    "uint8": LABELS.byte(),
    "numpy": LABELS.numpy(),
    "numpy int32": LABELS.numpy().astype(np.int32),
    "list": LABELS.tolist(),
    "one-hot integers": one_hot(LABELS, 3),
    "one-hot booleans": one_hot(LABELS, 3).bool(),
}


@pytest.mark.parametrize("kind", TAKEN)
@pytest.mark.parametrize("family", FAMILIES)
def test_labels_of_other_types_are_the_same_classes(family, kind):
    expected = measured(family, X, LABELS)
    assert measured(family, X, TAKEN[kind]).equals(expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_booleans_are_the_classes_0_and_1(family):
    assert measured(family, X, LABELS > 0).equals(measured(family, X, (LABELS > 0).long()))


@pytest.mark.parametrize("ignored", [-100, 1])
@pytest.mark.parametrize("family", FAMILIES)
def test_ignored_labels_are_left_out_and_counted(family, ignored):
    labels = LABELS.clone()
    labels[[1, 4, 7]] = ignored
    kept = labels != ignored
    report = measured(family, X, labels, ignore_index=ignored)
    assert report.equals(measured(family, X[kept], labels[kept]))
    assert report.attrs["samples_ignored"] == 3
    assert "samples_ignored" not in measured(family, X, LABELS).attrs


REFUSED = {
    "another negative label": (LABELS - 1, "ignore_index=-1"),
    "all are ignored": (torch.full((8,), -100), "all labels"),
    "too large": (LABELS + 1, "3 outputs"),
    "not finite": (torch.full((8, 3), torch.nan), "finite"),
    "complex": (one_hot(LABELS, 3) + 0j, "finite real"),
    "too few": (LABELS[:-1], "8 inputs and 7 targets"),
    "words": (["a"] * 8, "targets"),
    "an object": (object(), "not object"),
}
NEED_NO_TARGETS = ("geometry", "jacobian")


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("family", FAMILIES)
def test_targets_that_mean_nothing_are_refused_in_a_sentence(family, kind):
    targets, reason = REFUSED[kind]
    if kind == "too large" and family in (*NEED_NO_TARGETS, "flatness", "representations"):
        pytest.skip("no output of this network is compared with classes")
    assert reason in refusal(flatlab.MeasureError, measured, family, X, targets)


@pytest.mark.parametrize("family", FAMILIES)
def test_cross_entropy_of_targets_that_are_no_probabilities_is_refused(family):
    several = torch.tensor([[1.0, 1.0, 0.0]] * 8).double()
    message = refusal(flatlab.MeasureError, measured, family, X, several)
    assert "neither classes nor probabilities" in message


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in ("linear", "capacity")])
def test_probabilities_are_targets(family):
    soft = torch.tensor([[0.2, 0.3, 0.5]] * 8).double()
    assert measured(family, X, soft).data_vars


def test_a_number_for_each_sample_is_the_target_of_one_output():
    y = torch.linspace(-1, 1, 8).double()
    column = measured("hessian", X, y[:, None], outputs=1, loss="half-mse")
    assert measured("hessian", X, y, outputs=1, loss="half-mse").equals(column)


@pytest.mark.parametrize("family", FAMILIES)
def test_complex_parameters_are_refused(family):
    model = nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 3))
    model[1].weight = nn.Parameter(model[1].weight.detach() + 0j)
    message = refusal(
        flatlab.MeasureError, flatlab.measure, model, X.float(), LABELS, families=family
    )
    assert "complex" in message


@pytest.mark.parametrize("loss", [None, 3, "mse"])
def test_a_loss_that_is_neither_a_name_nor_a_function_is_refused_with_the_names(loss):
    assert "cross-entropy" in refusal(
        flatlab.MeasureError, measured, "hessian", X, LABELS, loss=loss
    )
