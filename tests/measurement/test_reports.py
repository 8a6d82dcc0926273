"""The numbers and the words of a report, and what a measurement leaves as it was."""

import re

import numpy as np
import pytest
import torch
import xarray as xr
from torch import nn

import flatlab
from flatlab.core import store
from flatlab.families import geometry
from tests.measurement.comparing import ALL_COSTLY, Spy, assert_same_state, close, same, state


@pytest.fixture
def network():
    """Convolution, batch norm, dropout and linear layers in float64, one parameter frozen."""
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Dropout(0.5), nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 3)),
    ).double()
    for _ in range(3):
        model(torch.randn(20, 2, 6, 6).double())  # so that the running statistics are not trivial
    model[6].bias.requires_grad_(False)
    return model.eval()


@pytest.fixture
def inputs():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(11, 2, 6, 6, generator=generator, dtype=torch.float64)


@pytest.fixture
def report(network, inputs):
    return flatlab.measure(network, inputs, costly=ALL_COSTLY)


@pytest.mark.parametrize("dtype", ["float32", "float64", torch.float32, torch.float64])
@pytest.mark.parametrize("own", [torch.float32, torch.float64])
def test_the_precision_is_that_asked_for_and_the_model_keeps_its_own(own, dtype, network, inputs):
    network.to(own)
    before = state(network)
    report = flatlab.measure(network, inputs, dtype=dtype)
    assert_same_state(before, state(network))
    asked = str(dtype).removeprefix("torch.")
    found = [report, *report.data_vars.values()]
    assert {each.attrs["precision"] for each in found} == {asked}
    kind = getattr(torch, asked)
    assert same(report, flatlab.measure(network.to(kind), inputs.to(kind)))


def test_inputs_in_float32_do_for_a_model_in_float64(network, inputs):
    rounded = inputs.float()
    assert same(flatlab.measure(network, rounded), flatlab.measure(network, rounded.double()))


def test_the_order_of_samples_permutes_what_is_per_sample_and_nothing_else(network, inputs):
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))
    report = flatlab.measure(network, inputs).isel(sample=order.numpy())
    assert close(flatlab.measure(network, inputs[order]), report)


def test_a_quantity_that_nobody_asked_for_is_left_out(network, inputs):
    costly = {"elementwise_adaptive_trace", "corrected_bound"}
    none = flatlab.measure(network, inputs, costly=())
    assert set(geometry.QUANTITIES) - set(none.data_vars) == costly
    assert none.bound_by_norm.sel(norm="operator").isnull().all()
    every = flatlab.measure(network, inputs, costly=ALL_COSTLY)
    assert list(every.data_vars) == list(geometry.QUANTITIES)
    assert every.bound_by_norm.sel(norm="operator").notnull().all()
    for name in set(none.data_vars) - {"bound_by_norm", "violations"}:
        ours, theirs = none[name].values, every[name].values
        assert ours == pytest.approx(theirs, rel=1e-12, nan_ok=True), name


def test_every_variable_says_what_it_is(report):
    assert report.layer.values.tolist() == ["0", "6", "8"]
    assert report.sizes == {"sample": 11, "layer": 3, "norm": 3, "bound": 5}
    assert tuple(report.norm.values) == geometry.NORMS
    assert tuple(report.bound.values) == geometry.BOUNDS
    for name, variable in report.data_vars.items():
        quantity = geometry.QUANTITIES[name]
        assert variable.attrs == {
            "long_name": quantity.long_name,
            "units": quantity.units,
            "source": quantity.source,
            "precision": "float64",
        }
        assert all([quantity.long_name, quantity.units]), name
        assert variable.dims == quantity.dims
        assert variable.dtype == np.float64, name


def test_the_dataset_says_how_it_was_made(report):
    assert report.attrs == {
        "title": "Sequential on 11 samples",
        "flatlab_version": flatlab.__version__,
        "families": ["geometry"],
        "precision": "float64",
        "loss": "half-mse",
        "bounds": "proxies, which may be exceeded: 0 see several positions",
        "singular_values": "all",
        "layers_left_out": [],
        "parameters_by_generic_gradient": [],
        "parameters_unused": [],
        "parameters_frozen": ["6.bias"],
    }


def test_a_report_prints_on_a_screen_with_errors_beside_values_and_nothing_that_is_empty(
    network, inputs
):
    text = repr(flatlab.measure(network, inputs, accuracy=0.1))
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= 100
    assert "Sequential on 11 samples: geometry, half-mse, float64" in text
    assert re.search(r"sharpness +[0-9.e+]+ ± [0-9.e+]+ +output\^2/parameter\^2", text)
    assert "parameters_unused" not in text
    assert "parameters_frozen: 6.bias" in text


def test_the_dataset_survives_a_file_unchanged(report, tmp_path):
    path = tmp_path / "report.zarr.zip"
    store.save_dataset(path, report)
    loaded = store.load_dataset(path)
    assert loaded.identical(report[sorted(report.data_vars)])
    assert loaded.attrs == report.attrs
    report.to_netcdf(tmp_path / "report.nc")
    with xr.open_dataset(tmp_path / "report.nc") as read:
        assert read.sharpness == report.sharpness
        assert read.attrs["parameters_frozen"] == "6.bias"


@pytest.mark.parametrize("error", [ValueError, RuntimeError, KeyError, KeyboardInterrupt])
@pytest.mark.parametrize("call", [1, 2, 3])
def test_the_model_and_torch_are_as_before_after_an_error_too(call, error, network, inputs):
    calls = []

    def fail():
        calls.append(torch.rand(3))
        if len(calls) == call:
            network[1].running_mean.add_(1.0)
            raise error("on purpose")

    network.insert(7, Spy(fail))
    before = state(network)
    with pytest.raises((error, flatlab.MeasureError), match="on purpose"):
        flatlab.measure(network, inputs, batch_size=4)
    assert len(calls) == call
    assert_same_state(before, state(network))


def test_autocast_changes_no_bit(network, inputs):
    model, x = network.float(), inputs.float()
    seen = []
    model.insert(7, Spy(lambda: seen.append(torch.is_autocast_enabled("cpu"))))
    expected = flatlab.measure(model, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert same(expected, flatlab.measure(model, x))
        assert torch.is_autocast_enabled("cpu")
    assert not any(seen)
