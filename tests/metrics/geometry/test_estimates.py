"""Estimates by random directions, and exact values in blocks of outputs, against exact values."""

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
import flatlab.derivatives.probe
from flatlab import MeasureError
from flatlab.derivatives import output_blocks
from flatlab.metrics._geometry.estimates import ESTIMATED
from tests.networks.many_outputs import NETWORKS, OUTPUTS, many_outputs

KINDS = [*NETWORKS, "tied"]


@pytest.mark.parametrize("name", KINDS)
def test_largest_singular_values_are_found_to_the_square_of_the_residual(name):
    model, x = many_outputs(name)
    exact, report = flatlab.measure(model, x), flatlab.measure(model, x, accuracy=0.9)
    assert report["norm_residual"] <= 1e-2
    for key in ("mls", "mls_per_sample", "sensitivity", "nmls", "normalized_mls", "weighted_mls"):
        assert report[key].values == pytest.approx(exact[key].values, rel=2e-3), key
    for key in ("weight_norm", "reciprocal_input_norm", "shared", "samples_measured"):
        assert report[key].values == pytest.approx(exact[key].values, rel=1e-12), key
    assert report.attrs["directions"] == 30
    assert "log_volume" not in report
    assert "log volumes" in report.attrs["quantities_left_out"]


def test_every_estimate_has_its_standard_error_and_exact_values_have_none():
    model, x = many_outputs("perceptron")
    report = flatlab.measure(model, x, accuracy=0.9)
    with_error = {key for key in report if f"{key}_error" in report}
    assert with_error == set(ESTIMATED)
    assert report["sharpness_error"].attrs["units"] == report["sharpness"].attrs["units"]
    assert report["sensitivity"].dims == ("sample", "layer")
    assert not [key for key in flatlab.measure(model, x) if str(key).endswith("_error")]


@pytest.mark.parametrize("accuracy", [0.1, 0.03])
def test_directions_are_drawn_until_the_accuracy_is_reached(accuracy):
    model, x = many_outputs("perceptron")
    report = flatlab.measure(model, x, accuracy=accuracy, quantities=["sharpness", "g"])
    for key in ("sharpness", "g"):
        assert report[f"{key}_error"] <= accuracy * report[key]
    assert report.attrs["directions"] % 30 == 0


def test_an_estimate_does_not_depend_on_batches():
    model, x = many_outputs("resnet")
    first, second = (
        flatlab.measure(model, x, accuracy=0.9, batch_size=size) for size in (1, len(x))
    )
    for key in {*ESTIMATED} - {"linear_stability_ratio"}:  # an iteration ends with its batch
        assert first[key].values == pytest.approx(second[key].values, rel=1e-9, nan_ok=True), key


def test_auto_is_exact_where_a_sample_fits_and_estimates_where_it_does_not():
    model, x = many_outputs("perceptron")
    exact = flatlab.measure(model, x)
    assert flatlab.measure(model, x, accuracy="auto").equals(exact)
    report = flatlab.measure(model, x, accuracy="auto", memory=50_000)
    assert report["sharpness_error"] <= 0.02 * report["sharpness"]


@pytest.mark.parametrize("loss", ["half-mse", "cross-entropy"])
@pytest.mark.parametrize("name", KINDS)
def test_blocks_of_outputs_give_what_all_at_once_give(name, loss, monkeypatch):
    model, x = many_outputs(name)
    costly = ["elementwise-adaptive-trace", "corrected-bound"]
    exact = flatlab.measure(model, x, costly=costly, relative_flatness_loss=loss)
    monkeypatch.setattr(output_blocks, "limit", lambda *_: 0)
    with pytest.raises(MeasureError, match="40 outputs need"):
        flatlab.measure(model, x, memory=1)
    numbers = flatlab.derivatives.probe.probe(model, x)
    rows = 8 * numbers.numbers * 8
    grams = 8 * OUTPUTS * min(OUTPUTS, numbers.numbers) * (len(numbers.layers) + 2)
    monkeypatch.setattr(output_blocks, "limit", lambda *_: grams + 7 * rows)  # blocks of 7
    report = flatlab.measure(model, x, costly=costly, relative_flatness_loss=loss, memory=1)
    assert set(report) == set(exact)
    for key in exact:
        expected = exact[key].values
        assert report[key].values == pytest.approx(expected, rel=1e-8, abs=1e-9, nan_ok=True), key


BLOCKS = pytest.mark.parametrize("blocks", [False, True])


@BLOCKS
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    "quantities",
    [["sharpness"], ["mls", "local_dimension"], ["sharpness", "g", "elementwise_adaptive_trace"]],
    ids=lambda names: names[0],
)
def test_what_is_asked_for_alone_is_the_same(name, quantities, blocks, monkeypatch):
    model, x = many_outputs(name)
    exact, memory = flatlab.measure(model, x), None
    if blocks:
        numbers = flatlab.derivatives.probe.probe(model, x).numbers
        grams = 16 * OUTPUTS * min(OUTPUTS, numbers) * (quantities != ["sharpness"])
        monkeypatch.setattr(output_blocks, "limit", lambda *_: grams + 7 * 8 * 8 * numbers)
        memory = 1
    alone = flatlab.measure(model, x, quantities=quantities, memory=memory)
    assert set(alone) == {*quantities, "finite", "samples_measured", "layers_left_out"}
    for key in quantities:
        assert alone[key].values == pytest.approx(exact[key].values, rel=1e-9, nan_ok=True), key


def test_an_unknown_quantity_is_refused():
    model, x = many_outputs("perceptron")
    with pytest.raises(MeasureError, match="sharpnes'"):
        flatlab.measure(model, x, quantities=["sharpnes"])


def test_a_network_that_is_not_finite_has_no_estimates():
    model, x = many_outputs("perceptron")
    with torch.no_grad():
        next(model.parameters())[0] = np.nan
    report = flatlab.measure(model, x, accuracy=0.5)
    assert not report["finite"]
    assert np.isnan(report["sharpness"])


def test_a_layer_that_does_more_than_its_type_is_left_to_autograd():
    class Scaled(nn.Linear):
        def forward(self, h):
            return 2 * super().forward(h)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), Scaled(6, 50)).double()
    x = torch.ones(4, 3).double() + torch.arange(4)[:, None]
    exact, report = flatlab.measure(model, x), flatlab.measure(model, x, accuracy=0.05)
    assert abs(report["sharpness"] - exact["sharpness"]) <= 4 * report["sharpness_error"]
    assert "2.weight" in report.attrs["parameters_by_generic_gradient"]
