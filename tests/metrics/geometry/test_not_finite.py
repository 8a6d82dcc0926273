"""Geometry of networks whose weights, outputs or derivatives are not finite."""

import numpy as np
import pytest

from flatlab.metrics._measure_pack import measure_pack
from tests.lab.train.packs import small
from tests.synthetic.packs import about, asked, networks, weights_of

FACTS = {"finite", "shared", "samples_measured", "layers_left_out"}
"""What is known of a network whose weights are not finite."""


def spoilt_names(values):
    """What has a value in spite of weights that are not finite."""
    return {name for name, value in values.items() if not np.isnan(value).all()}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "name", ["0.weight", "0.bias", "1.weight", "1.bias", "5.weight", "7.weight"]
)
def test_weights_of_any_layer_that_are_not_finite_have_no_values(
    name, bad, convolutional, measured, images
):
    convolutional.get_parameter(name).data.view(-1)[0] = bad
    values = measured(convolutional, images())
    assert values["finite"] == 0
    assert values["samples_measured"] == 6
    assert spoilt_names(values) == FACTS


@pytest.mark.parametrize("name", ["running_mean", "running_var"])
def test_statistics_that_are_not_finite_have_no_values(name, convolutional, measured, images):
    getattr(convolutional[1], name)[:] = np.nan
    assert spoilt_names(measured(convolutional, images())) == FACTS


@pytest.mark.parametrize(
    ("widths", "factor", "late"),
    [
        pytest.param((5, 6, 6, 3), 1e20, 1, id="outputs"),
        # what the first samples show is not the whole: sample 9 alone overflows
        pytest.param((5, 6, 3), 1e10, 1e25, id="outputs of a late sample"),
        # the outputs are finite, float32 has no number for their squared gradients
        pytest.param((5, 6, 6, 3), 1e10, 1, id="squares"),
    ],
)
def test_what_overflows_has_no_values(widths, factor, late, mlp, normal, measured):
    model, x = mlp(widths).float(), normal(10, 5).float()
    for parameter in model.parameters():
        parameter.data *= factor
    x[9] *= late
    assert model(x).isfinite().all() == (factor * late == 1e10)
    values = measured(model, x)
    assert values["finite"] == 0
    assert spoilt_names(values) == FACTS


def pack(stripes, family, change, precision="float64"):
    """Measure two networks of one pack; `change` edits the weights of the first."""
    network = {**small("mlp"), "initialization": "framework"}
    arrays = weights_of(networks(network, (4, 4), 3, count=2))
    for array in arrays.values():
        change(array[0])
    settings = asked(family, network, precision=precision)
    return measure_pack([(arrays, about([7]))], stripes, settings)


@pytest.mark.parametrize("family", ["geometry", "accuracy"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_not_finite_spoil_no_other_run_of_the_pack(family, bad, stripes):
    def spoil(array):
        array.flat[0] = bad

    spoilt, whole = pack(stripes, family, spoil), pack(stripes, family, lambda array: None)
    assert set(spoilt.data_vars) == set(whole.data_vars)
    for name in spoilt.data_vars:
        if name in FACTS:
            continue
        assert np.isnan(spoilt[name].values[0]).all(), name
        assert np.array_equal(spoilt[name].values[1], whole[name].values[1], equal_nan=True), name
    if family == "geometry":
        assert spoilt["finite"].values.ravel().tolist() == [0, 1]


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_finite_weights_whose_outputs_overflow_are_measured_without_an_error(precision, stripes):
    def blow_up(array):
        array *= 1e30 if precision == "float32" else 1e290

    values = pack(stripes, "geometry", blow_up, precision)
    assert values["finite"].values.ravel().tolist() == [0, 1]
    for name in set(values.data_vars) - FACTS:
        assert np.isnan(values[name].values[0]).all(), name
    for name in ("sharpness", "mls", "nmls_bound", "weight_norm"):
        assert np.isfinite(values[name].values[1]).all(), name
