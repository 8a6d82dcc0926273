"""The numbers and the words of a report, and what a measurement leaves as it was."""

import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab.core import store
from flatlab.families import geometry
from tests.measurement.comparing import ALL_COSTLY, Spy, assert_same_state, close, same, state

DIMS = {"sample", "layer", "norm", "bound"}

NOT_FINITE = {"finite", "shared", "samples_measured", "layers_left_out"}


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


def test_means_are_those_of_the_values_per_sample(network, inputs):
    report = flatlab.measure(network, inputs)
    names = ("sharpness", "mls", "local_dimension", "log_volume")
    means = {name: f"{name}_per_sample" for name in names} | {"mls_per_layer": "sensitivity"}
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
        assert all([quantity.long_name, quantity.units]), name
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
    store.save_dataset(tmp_path / "again.zarr.zip", report)
    assert (tmp_path / "again.zarr.zip").read_bytes() == path.read_bytes()


def test_a_family_may_be_named_without_a_list(network, inputs, report):
    assert same(flatlab.measure(network, inputs, families="geometry", costly=ALL_COSTLY), report)


def run(code):
    """What a new process prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.more
def test_importing_the_package_imports_neither_torch_nor_xarray():
    code = "import sys, flatlab; print({'torch', 'xarray', 'numpy'} & set(sys.modules)); "
    code += "flatlab.measure; print('torch' in sys.modules)"
    assert run(code).splitlines() == ["set()", "True"]


def test_the_package_offers_measure_and_its_error_and_says_what_it_lacks():
    assert {"measure", "MeasureError"} <= set(dir(flatlab))
    assert flatlab.measure.__doc__
    with pytest.raises(AttributeError, match="measures"):
        _ = flatlab.measures


def test_the_model_and_torch_are_exactly_as_before(network, inputs):
    network[0].weight.grad = torch.ones_like(network[0].weight)
    network[7].train()
    handles = [network[0].register_forward_hook(lambda *_: None)]
    handles += [network[6].register_forward_pre_hook(lambda *_: None)]
    handles += [network[8].register_full_backward_hook(lambda *_: None)]
    inputs.requires_grad_()
    before = state(network)
    flatlab.measure(network, inputs, costly=ALL_COSTLY)
    assert_same_state(before, state(network))
    assert inputs.grad is None
    assert inputs.requires_grad


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


class Counter(nn.Module):
    """Counts its calls in a buffer, in place or by a new one."""

    def __init__(self, in_place):
        super().__init__()
        self.layer, self.in_place = nn.Linear(4, 2), in_place
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls = self.calls.add_(1) if self.in_place else self.calls + 1
        return self.layer(x)


@pytest.mark.parametrize("in_place", [True, False])
def test_buffers_that_a_forward_changes_are_restored(in_place):
    model = Counter(in_place)
    flatlab.measure(model, torch.ones(3, 4))
    assert model.calls == 0


def test_statistics_that_a_forward_updates_are_restored(inputs):
    """Instance norm in training mode keeps samples apart, and changes its running statistics."""
    norm = nn.InstanceNorm2d(3, affine=True, track_running_stats=True)
    model = nn.Sequential(nn.Conv2d(2, 3, 3), norm, nn.Flatten(), nn.Linear(48, 2)).double()
    before = state(model)
    flatlab.measure(model, inputs)
    assert_same_state(before, state(model))


def test_autocast_changes_no_bit(network, inputs):
    model, x = network.float(), inputs.float()
    seen = []
    model.insert(7, Spy(lambda: seen.append(torch.is_autocast_enabled("cpu"))))
    expected = flatlab.measure(model, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert same(expected, flatlab.measure(model, x))
        assert torch.is_autocast_enabled("cpu")
    assert not any(seen)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("dtype", [None, "float32"])
def test_without_gradients_outside_the_numbers_are_the_same(mode, dtype, network, inputs):
    expected = flatlab.measure(network, inputs, dtype=dtype)
    with mode():
        before = state(network)
        assert same(expected, flatlab.measure(network, inputs, dtype=dtype))
        assert_same_state(before, state(network))
    with mode():
        made_inside = inputs + 0
    assert same(expected, flatlab.measure(network, made_inside, dtype=dtype))
