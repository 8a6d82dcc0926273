"""Every quantity of every kind of network is its definition."""

import numpy as np
import pytest

from flatlab.api.measure import measure
from flatlab.families.geometry import OF_THE_FIRST_LAYER, QUANTITIES
from tests.families.geometry.architectures import EXACT, GENERIC, LEFT_OUT, ROUNDING, ZOO, network
from tests.families.geometry.reference import reference
from tests.measurement.comparing import ALL_COSTLY
from tests.networks.small_networks import flatness, hessian, total_loss

LARGE = "vgg11, narrow"
"""As `vgg-narrow`, with eight convolutions; its reference takes seven seconds."""

INDIRECT = {"simple vit", "linear twice", "convolution twice", "normalized input"}
INDIRECT |= {"transposed convolution"}
"""Their first layer does not alone read the inputs, unchanged."""


@pytest.mark.first(8)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name == LARGE)) for name in ZOO]
)
def test_every_quantity_is_its_definition_and_float32_agrees_to_four_digits(name):
    model, inputs = network(name)
    report = measure(model, inputs, costly=ALL_COSTLY)
    rounded = measure(model, inputs.float(), costly=ALL_COSTLY, dtype="float32")
    expected = reference(name)
    assert list(report["layer"].values) == expected.pop("layers")
    assert set(expected) == set(QUANTITIES)
    without = {*OF_THE_FIRST_LAYER} if name in INDIRECT else set()
    assert set(report) == set(QUANTITIES) - without
    for key, value in ((key, expected[key]) for key in report):
        found = report[key].values
        assert found.shape == np.shape(value), key
        assert found == pytest.approx(value, rel=EXACT, abs=ROUNDING, nan_ok=True), key
    for key in set(report) - {"violations", "corrected_bound", "samples_rank_deficient"}:
        close = {"rel": 1e-4, "abs": 1e-3 if "volume" in key else 1e-6}
        assert rounded[key].values == pytest.approx(report[key].values, nan_ok=True, **close), key
    assert report.attrs["parameters_by_generic_gradient"] == GENERIC.get(name, [])
    assert report.attrs["layers_left_out"] == LEFT_OUT.get(name, [])


def test_inputs_need_not_be_contiguous():
    model, inputs = network("residual, batch norm")
    strided = inputs.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    assert not strided.is_contiguous()
    one, two = measure(model, inputs), measure(model, strided)
    for key in one:
        assert two[key].values == pytest.approx(one[key].values, rel=1e-11, nan_ok=True), key


@pytest.mark.parametrize("kind", ["half-mse", "mean-mse"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_relative_flatness_is_that_of_the_hessian(activation, bias, kind, mlp, normal, measured):
    """Of the last layer always, of every layer where the activations are piecewise linear."""
    model, inputs = mlp((5, 8, 7, 3), activation=activation, bias=bias), normal(12, 5)
    values = measured(model, inputs, relative_flatness_loss=kind)["relative_flatness"]
    loss = total_loss(model, inputs, normal(len(inputs), 3, seed=7), kind)
    names = [name for name, _ in model.named_parameters() if name.endswith("weight")]
    for number, name in enumerate(names):
        weight = model.state_dict()[name].numpy()
        expected, *_ = flatness(weight, hessian(model, name, loss))
        agrees = values[number] == pytest.approx(expected, rel=1e-10)
        assert agrees == (activation == "relu" or number == len(names) - 1), name
