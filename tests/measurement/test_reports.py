"""The numbers and the words of a report."""

import numpy as np
import pytest
import torch
import xarray as xr
from torch import nn

import flatlab
from flatlab.core import store
from flatlab.metrics import geometry
from tests.measurement.comparing import ALL_COSTLY, assert_same_state, close, same, state

DIMS = {"sample", "layer", "norm", "bound"}


NOT_FINITE = {"finite", "shared", "samples_measured", "layers_left_out"}


def test_a_float32_overflow_has_no_values_where_float64_has(network, inputs):
    for layer in (network[6], network[8]):
        layer.weight.data *= 1e30
    network[7] = nn.ReLU()
    assert flatlab.measure(network, inputs).finite == 1
    report = flatlab.measure(network, inputs, dtype="float32")
    assert report.finite == 0
    assert {n for n in report.data_vars if not report[n].isnull().all()} == NOT_FINITE


def test_shared_weights_are_measured_and_marked(inputs):
    layer = nn.Linear(4, 4)
    model = nn.Sequential(layer, nn.ReLU(), layer, nn.ReLU(), nn.Linear(4, 2))
    report = flatlab.measure(model, torch.ones(3, 4))
    assert report.layer.values.tolist() == ["0", "4"]
    assert report.shared.values.tolist() == [1, 0]
    assert report.relative_flatness.isnull().values.tolist() == [True, False]


@pytest.mark.parametrize("dtype", ["float32", "float64", torch.float32, torch.float64])
@pytest.mark.parametrize("own", [torch.float32, torch.float64])
def test_the_precision_is_the_one_asked_for_and_the_model_keeps_its_own(
    own, dtype, network, inputs
):
    network.to(own)
    before = state(network)
    report = flatlab.measure(network, inputs, dtype=dtype)
    assert_same_state(before, state(network))
    asked = str(dtype).removeprefix("torch.")
    assert report.attrs["precision"] == asked
    assert {variable.attrs["precision"] for variable in report.data_vars.values()} == {asked}
    converted = network.to(getattr(torch, asked))
    assert same(report, flatlab.measure(converted, inputs.to(getattr(torch, asked))))


def test_inputs_in_float32_do_for_a_model_in_float64(network, inputs):
    rounded = inputs.float()
    assert same(flatlab.measure(network, rounded), flatlab.measure(network, rounded.double()))


def test_float32_agrees_with_float64_to_its_precision(network, inputs):
    low, high = (flatlab.measure(network, inputs, dtype=f"float{bits}") for bits in (32, 64))
    for name in ("sharpness", "mls", "nmls", "bound_d", "local_dimension", "log_volume"):
        assert low[name].values == pytest.approx(high[name].values, rel=1e-4), name
        assert low[name].values != high[name].values, name


@pytest.mark.parametrize("size", [1, 2, 5, 10, 11, 100])
def test_the_batch_size_does_not_matter(size, network, inputs):
    expected = flatlab.measure(network, inputs, costly=ALL_COSTLY)
    assert close(flatlab.measure(network, inputs, costly=ALL_COSTLY, batch_size=size), expected)


def test_measuring_twice_gives_the_same_bits(network, inputs):
    first = flatlab.measure(network, inputs, costly=ALL_COSTLY)
    torch.rand(7)
    assert same(first, flatlab.measure(network, inputs, costly=ALL_COSTLY))
    assert same(first, flatlab.measure(network, inputs.clone(), costly=ALL_COSTLY, progress=True))


def test_the_order_of_samples_permutes_what_is_per_sample_and_nothing_else(network, inputs):
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))
    report = flatlab.measure(network, inputs).isel(sample=order.numpy())
    assert close(flatlab.measure(network, inputs[order]), report)


def test_means_are_those_of_the_values_per_sample(network, inputs):
    report = flatlab.measure(network, inputs)
    means = {
        "sharpness": "sharpness_per_sample",
        "mls": "mls_per_sample",
        "mls_per_layer": "sensitivity",
        "local_dimension": "local_dimension_per_sample",
        "log_volume": "log_volume_per_sample",
    }
    for mean, each in means.items():
        expected = report[each].mean("sample").values
        assert report[mean].values == pytest.approx(expected, rel=1e-12), mean


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
    for name, variable in report.data_vars.items():
        quantity = geometry.QUANTITIES[name]
        assert variable.attrs == {
            "long_name": quantity.long_name,
            "units": quantity.units,
            "source": quantity.source,
            "precision": "float64",
        }
        assert quantity.long_name, name
        assert quantity.units, name
        assert variable.dims == quantity.dims
        assert set(variable.dims) <= DIMS
        assert variable.dtype == np.float64, name


def test_layers_are_called_what_the_model_calls_them(network, report):
    assert report.layer.values.tolist() == ["0", "6", "8"]
    assert set(report.layer.values) <= set(dict(network.named_modules()))
    assert report.sizes == {"sample": 11, "layer": 3, "norm": 3, "bound": 5}
    assert tuple(report.norm.values) == geometry.NORMS
    assert tuple(report.bound.values) == geometry.BOUNDS


def test_the_dataset_says_how_it_was_made(report):
    assert report.attrs == {
        "title": "Sequential on 11 samples",
        "flatlab_version": flatlab.__version__,
        "families": ["geometry"],
        "precision": "float64",
        "loss": "half-mse",
        "singular_values": "all",
        "layers_left_out": [],
        "parameters_by_generic_gradient": [],
        "parameters_unused": [],
        "parameters_frozen": ["6.bias"],
    }


def test_the_dataset_survives_a_file_unchanged(report, tmp_path):
    path = tmp_path / "report.zarr.zip"
    store.save_dataset(path, report)
    loaded = store.load_dataset(path)
    xr.testing.assert_identical(loaded, report[sorted(report.data_vars)])
    assert loaded.attrs == report.attrs
    store.save_dataset(tmp_path / "again.zarr.zip", report)
    assert (tmp_path / "again.zarr.zip").read_bytes() == path.read_bytes()


def test_a_family_may_be_named_without_a_list(network, inputs, report):
    assert same(flatlab.measure(network, inputs, families="geometry", costly=ALL_COSTLY), report)
