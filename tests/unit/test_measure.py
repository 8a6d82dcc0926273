"""The public call: what it leaves alone, what it refuses, what it returns, and its page."""

import random
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch
import torch.nn.functional as F
import xarray as xr
from torch import nn

import flatlab
from flatlab import MeasureError, store
from flatlab.metrics import (
    accuracy,
    adaptive,
    capacity,
    diagonal,
    flatness,
    geometry,
    hessian,
    jacobian,
    linear,
    sharpness,
)
from flatlab.simulations import _ridge as features

PAGE = Path(__file__).parents[2] / "docs" / "measures.md"
DIMS = {"sample", "layer", "norm", "bound"}
ALL_COSTLY = ("elementwise-adaptive-trace", "operator-norm", "corrected-bound")


def run(code):
    """What a new process prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def same(first, second):
    """Whether two datasets have the same numbers, bit for bit."""
    assert list(first.data_vars) == list(second.data_vars)
    different = [
        name
        for name in first.data_vars
        if not np.array_equal(first[name].values, second[name].values, equal_nan=True)
    ]
    assert not different, different
    return True


def close(first, second, rel=1e-9):
    for name in first.data_vars:
        ours, theirs = first[name].values, second[name].values
        assert ours == pytest.approx(theirs, rel=rel, abs=1e-12, nan_ok=True), name
    return True


class Spy(nn.Module):
    """Passes its input on, and calls a function each time."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        self.function()
        return x


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


def state(model):
    """All that a measurement must leave as it is."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    modules = dict(model.named_modules())
    return {
        "parameters": {n: (id(p), p.detach().numpy().tobytes()) for n, p in named(model)},
        "buffers": {n: b.numpy().tobytes() for n, b in model.named_buffers()},
        "gradients": {n: None if p.grad is None else p.grad.tolist() for n, p in named(model)},
        "requires_grad": {n: p.requires_grad for n, p in named(model)},
        "training": {name: module.training for name, module in modules.items()},
        "hooks": {n: [list(getattr(m, h).items()) for h in hooks] for n, m in modules.items()},
        "attributes": {name: sorted(vars(module)) for name, module in modules.items()},
        "random": (torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1:3]),  # noqa: NPY002
        "modes": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "default": (torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()),
        "flags": flags(),
        "autocast": torch.is_autocast_enabled("cpu"),
    }


def named(model):
    return list(model.named_parameters())


def flags():
    backends = torch.backends
    return {
        "matmul": torch.get_float32_matmul_precision(),
        "tf32": (backends.cudnn.allow_tf32, backends.cuda.matmul.allow_tf32),
        "cudnn": (backends.cudnn.deterministic, backends.cudnn.benchmark),
    }


def assert_same_state(before, after):
    for key in before:
        assert str(before[key]) == str(after[key]), key


def test_importing_the_package_imports_neither_torch_nor_xarray():
    code = "import sys, flatlab; print(*({'torch', 'xarray', 'numpy'} & set(sys.modules)))"
    assert run(code) == ""
    code = "import sys, flatlab; flatlab.measure; print('torch' in sys.modules)"
    assert run(code) == "True"


def test_the_package_offers_measure_and_its_error_and_says_what_it_lacks():
    assert {"measure", "MeasureError"} <= set(dir(flatlab))
    assert flatlab.measure.__doc__
    with pytest.raises(AttributeError, match="measures"):
        _ = flatlab.measures


# What it leaves alone


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
    with pytest.raises((error, MeasureError), match="on purpose"):
        flatlab.measure(network, inputs, batch_size=4)
    assert len(calls) == call
    assert_same_state(before, state(network))


def test_a_refusal_leaves_the_model_as_it_was(network, inputs):
    network.train()
    before = state(network)
    with pytest.raises(MeasureError):
        flatlab.measure(network, inputs)
    assert_same_state(before, state(network))


class Counter(nn.Module):
    """Counts its calls in a buffer, in place or by a new one."""

    def __init__(self, in_place):
        super().__init__()
        self.layer, self.in_place = nn.Linear(4, 2), in_place
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        if self.in_place:
            self.calls += 1
        else:
            self.calls = self.calls + 1
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


FLAGS = """
import torch, flatlab
from torch import nn
class Spy(nn.Module):
    def forward(self, x):
        seen.append(flags())
        return x
def flags():
    b = torch.backends
    return [
        {flags}
    ]
seen, model = [], nn.Sequential(nn.Linear(4, 4), Spy(), nn.Linear(4, 2))
{change}
before = flags()
flatlab.measure(model, torch.ones(3, 4))
try:
    flatlab.measure(model, torch.ones(3, 5))
except flatlab.MeasureError:
    print(before == flags(), before, *(f for f in seen[:1] if all(s == f for s in seen)))
"""
OLD_FLAGS = "torch.get_float32_matmul_precision(), b.cudnn.allow_tf32, b.cuda.matmul.allow_tf32"
NEW_FLAGS = (
    "b.mkldnn.matmul.fp32_precision, b.mkldnn.conv.fp32_precision, "
    "b.cudnn.conv.fp32_precision, b.cuda.matmul.fp32_precision"
)


def test_products_are_in_full_precision_inside_and_as_they_were_outside():
    change = "torch.set_float32_matmul_precision('medium'); torch.backends.cudnn.allow_tf32 = True"
    printed = run(FLAGS.format(flags=OLD_FLAGS, change=change))
    assert printed == "True ['medium', True, True] ['highest', False, False]"


@pytest.mark.parametrize(
    "change",
    [
        "b = torch.backends; b.mkldnn.matmul.fp32_precision = b.mkldnn.conv.fp32_precision = 'bf16'"
        "; b.cudnn.conv.fp32_precision = b.cuda.matmul.fp32_precision = 'tf32'",
        "torch.backends.fp32_precision = 'tf32'",
    ],
    ids=["each", "all"],
)
def test_the_newer_flags_of_precision_are_respected_too(change):
    printed = run(FLAGS.format(flags=NEW_FLAGS, change=change))
    as_before, before, inside = re.fullmatch(r"(\w+) (\[.*\]) (\[.*\])", printed).groups()
    assert as_before == "True"
    assert "tf32" in before or "bf16" in before
    assert "tf32" not in inside
    assert "bf16" not in inside


def test_flags_that_nobody_set_stay_unset():
    """What is unset follows a setting made for all of torch later; what is set does not."""
    printed = run(FLAGS.format(flags=NEW_FLAGS, change="pass"))
    assert printed.startswith("True ")


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


# What it refuses


class Custom(nn.Module):
    """Two linear layers with something of one's own between them, and behind them."""

    def __init__(self, between=lambda self, h: h, behind=lambda f: f):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)
        self.between, self.behind = between, behind

    def forward(self, x):
        return self.behind(self.last(self.between(self, self.first(x).tanh())))


def sequence(*modules, training=False):
    return lambda: nn.Sequential(nn.Linear(4, 6), *modules, nn.Linear(6, 3)).train(training)


def custom(*arguments, training=False):
    return lambda: Custom(*arguments).train(training)


REFUSED = {
    "dropout in training mode": (
        sequence(nn.Dropout(0.1), training=True),
        ["'1' (Dropout)", "call model.eval()"],
    ),
    "batch norm in training mode": (
        sequence(nn.BatchNorm1d(6), training=True),
        ["'1' (BatchNorm1d)", "mixes", "call model.eval()"],
    ),
    "batch norm without statistics": (
        sequence(nn.BatchNorm1d(6, track_running_stats=False)),
        ["'1' (BatchNorm1d)", "no running statistics", "track_running_stats=True"],
    ),
    "dropout as a function in training mode": (
        custom(lambda self, h: F.dropout(h, 0.5, self.training), training=True),
        ["two passes", "call model.eval()"],
    ),
    "dropout as a function in every mode": (
        custom(lambda self, h: F.dropout(h, 0.5)),
        ["two passes"],
    ),
    "the mean of the batch": (
        custom(lambda self, h: h - h.mean(0)),
        ["depend on another sample", "model.eval()"],
    ),
    "batch norm as a function": (
        custom(lambda self, h: F.batch_norm(h, None, None, training=True)),
        ["depend on another sample"],
    ),
    "a running sum over the batch": (
        custom(lambda self, h: h.cumsum(0)),
        ["depend on another sample"],
    ),
    "outputs of more dimensions": (
        custom(lambda self, h: h, lambda f: f[:, None]),
        ["(2, 1, 3)", "wrap it"],
    ),
    "one number per sample without a dimension": (
        custom(lambda self, h: h, lambda f: f[:, 0]),
        ["(2,)", "wrap it"],
    ),
    "outputs that are no tensor": (
        custom(lambda self, h: h, lambda f: (f, f)),
        ["tuple", "wrap it"],
    ),
    "one output for the whole batch": (
        custom(lambda self, h: h, lambda f: f.sum(0, keepdim=True)),
        ["(1, 3)", "wrap it"],
    ),
    "a detached output": (
        custom(lambda self, h: h, lambda f: f.detach()),
        ["not connected", "remove detach"],
    ),
    "a detached layer": (custom(lambda self, h: h.detach()), ["not connected", "detach"]),
    "frozen parameters": (
        lambda: sequence()().requires_grad_(False),
        ["no parameter", "requires_grad_(True)"],
    ),
    "no parameters": (lambda: nn.Tanh(), ["no parameters"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_measured_exactly_is_refused_with_the_remedy(case):
    build, pieces = REFUSED[case]
    with pytest.raises(MeasureError) as error:
        flatlab.measure(build(), torch.randn(5, 4, generator=torch.Generator().manual_seed(0)))
    for piece in pieces:
        assert piece in str(error.value)


def not_finite(value):
    x = torch.ones(5, 4)
    x[3, 1] = value
    return x


@pytest.mark.parametrize(
    ("bad", "pieces"),
    [
        pytest.param(torch.ones(5, 4, dtype=torch.int64), ["int64", "embedding"], id="integers"),
        pytest.param(torch.ones(5, 4, dtype=torch.complex64), ["complex64"], id="complex"),
        pytest.param(not_finite(torch.nan), ["sample 3", "not finite"], id="nan"),
        pytest.param(not_finite(torch.inf), ["sample 3", "not finite"], id="inf"),
        pytest.param(torch.ones(0, 4), ["no samples"], id="no samples"),
        pytest.param(torch.ones(5, 7), ["does not accept inputs (7,)"], id="shape"),
        pytest.param(np.ones((5, 4)), ["tensor (samples, ...)"], id="numpy"),
        pytest.param(torch.tensor(1.0), ["tensor (samples, ...)"], id="number"),
    ],
)
def test_inputs_that_cannot_be_measured_are_refused(bad, pieces):
    with pytest.raises(MeasureError) as error:
        flatlab.measure(sequence()(), bad)
    for piece in pieces:
        assert piece in str(error.value)


@pytest.mark.parametrize(
    ("setting", "value", "piece"),
    [
        ("families", ["geometri"], "'geometry'"),
        ("families", ["accuracy"], "training with test samples"),
        ("loss", "cross-entropie", "cross-entropy"),
        ("conventions", "chen", "chen-code"),
        ("costly", ["operator"], "operator-norm"),
        ("dtype", "float16", "float64, float32"),
        ("dtype", torch.bfloat16, "float64, float32"),
        ("singular_values", "three", "all"),
        ("singular_values", 0, "all"),
        ("batch_size", -1, "batch_size"),
        ("targets", torch.zeros(4), "5 inputs and 4 targets"),
    ],
)
def test_an_unknown_setting_is_refused_with_the_known_ones(setting, value, piece):
    with pytest.raises(MeasureError) as error:
        flatlab.measure(sequence()(), torch.ones(5, 4), **{setting: value})
    assert piece in str(error.value)


def test_a_model_in_half_precision_is_refused_or_measured_in_the_precision_asked_for():
    model, x = sequence()().bfloat16(), torch.ones(5, 4)
    with pytest.raises(MeasureError, match="float32"):
        flatlab.measure(model, x)
    assert flatlab.measure(model, x, dtype="float32").attrs["precision"] == "float32"


def test_too_many_outputs_for_memory_are_refused(monkeypatch):
    def little():
        return SimpleNamespace(available=10_000)

    model, x = nn.Sequential(nn.Linear(4, 50), nn.Tanh(), nn.Linear(50, 100)), torch.ones(5, 4)
    monkeypatch.setattr(psutil, "virtual_memory", little)
    with pytest.raises(MeasureError, match=r"100 outputs need .* GB .* wrap the network"):
        flatlab.measure(model, x)


# What is measured all the same


def test_an_idle_head_changes_nothing():
    """A layer that is called, and whose output nobody uses."""

    def call_idle(self, h):
        self.idle(h)
        return h

    plain, with_head = Custom(), Custom(call_idle)
    with_head.idle = nn.Linear(6, 9)
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    expected, found = flatlab.measure(plain, x), flatlab.measure(with_head, x)
    for name in ("sharpness", "mls", "log_volume", "input_invariant_mls"):
        assert found[name].values == pytest.approx(expected[name].values, rel=1e-6), name


NOT_FINITE = {"finite", "shared", "samples_measured", "layers_left_out"}


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["0.weight", "1.weight", "6.weight", "8.bias"])
@pytest.mark.parametrize("conventions", ["flatlab", "chen-code"])
def test_weights_that_are_not_finite_have_no_values(name, bad, conventions, network, inputs):
    network.get_parameter(name).data.view(-1)[0] = bad
    report = flatlab.measure(network, inputs, costly=ALL_COSTLY, conventions=conventions)
    assert report.finite == 0
    assert {n for n in report.data_vars if not report[n].isnull().all()} == NOT_FINITE


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


# Numbers


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


# What it returns


@pytest.fixture
def report(network, inputs):
    return flatlab.measure(network, inputs, costly=ALL_COSTLY)


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
        "conventions": "flatlab",
        "layers_left_out": [],
        "parameters_by_generic_gradient": [],
        "parameters_unused": [],
        "parameters_frozen": ["6.bias"],
    }


def test_the_dataset_says_what_the_conventions_of_the_authors_changed(network, inputs):
    attributes = flatlab.measure(network, inputs, conventions="chen-code").attrs
    assert attributes["conventions"] == "chen-code"
    assert attributes["singular_values"] == 3


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


SAMPLE_SETS = {
    "train": {"split": "train", "size": 10, "seed": 0, "only": "all"},
    "test": {"split": "test", "size": 7, "seed": 1, "only": "all"},
}


def packed(
    stripes, precision="float64", costly=ALL_COSTLY, samples=None, change=None, family="geometry"
):
    """Two networks of one pack at two checkpoints, and the file of their measures."""
    from flatlab.metrics._pack import measure_pack
    from flatlab.networks import build
    from tests.packs import small

    network = {**small("mlp"), "initialization": "framework"}
    torch.manual_seed(0)
    models = [build(network, (4, 4), 3).double() for _ in range(4)]
    if change:
        change(models[0])
    states = [model.state_dict() for model in models]
    arrays = {
        name: np.stack([s[name].numpy() for s in states]).reshape(2, 2, *states[0][name].shape)
        for name in states[0]
    }
    settings = {
        "family": family,
        "data": {"classes": "all", "scaling": "unit"},
        "network": network,
        "outputs": None,
        "setting": "lr0.1",
        "hyperparameters": {"lr": 0.1},
        "seeds": [0, 1],
        "precision": precision,
        "samples": samples or SAMPLE_SETS,
        "loss": {"loss": "half-mse"},
        "options": {"accuracy": {}, "geometry": {"costly": list(costly)}, "jacobian": {}},
    }
    about = {"runs": ["lr0.1-s0", "lr0.1-s1"], "iterations": [0, 7]}
    about |= {"steps": [7, 7], "ended": ["finished"] * 2}
    return models, settings, measure_pack([(arrays, about)], stripes, settings)


def test_a_pack_has_the_dimensions_of_runs_checkpoints_and_sample_sets(stripes):
    *_, found = packed(stripes)
    kept = {name for name, q in geometry.QUANTITIES.items() if "sample" not in q.dims}
    assert set(found.data_vars) == kept
    assert "sample" not in found.dims
    for name, variable in found.data_vars.items():
        quantity = geometry.QUANTITIES[name]
        assert variable.dims == ("run", "checkpoint", "samples", *quantity.dims), name
        assert variable.attrs["long_name"] == quantity.long_name
        assert variable.attrs["precision"] == "float64"
    assert found.run.values.tolist() == ["lr0.1-s0", "lr0.1-s1"]
    assert found.checkpoint.values.tolist() == [0, 7]
    assert found.samples.values.tolist() == ["train", "test"]
    assert found.lr.values.tolist() == [0.1, 0.1]
    assert found.samples_measured.isel(run=0, checkpoint=0).values.tolist() == [10, 7]


def test_families_that_are_joined_measure_what_each_measures_alone(stripes):
    *_, together = packed(stripes, family="accuracy+geometry+jacobian")
    apart = [packed(stripes, family=name)[-1] for name in ("accuracy", "geometry", "jacobian")]
    assert sum(len(part.data_vars) for part in apart) == len(together.data_vars)
    for part in apart:
        assert part.data_vars
        xr.testing.assert_identical(together[list(part.data_vars)], part)


def test_a_pack_has_the_numbers_of_each_of_its_networks(stripes):
    from flatlab.splits import prepare

    models, settings, found = packed(stripes)
    splits = prepare(stripes, settings["data"], None, torch.float64)
    for number, model in enumerate(models):
        for name, split in (("train", splits.train), ("test", splits.test)):
            chosen = settings["samples"][name]
            subset = split.subset(chosen["size"], chosen["seed"])
            alone = flatlab.measure(model.eval(), subset.inputs, costly=ALL_COSTLY)
            here = found.isel(run=number // 2, checkpoint=number % 2).sel(samples=name)
            assert here.layer.values.tolist() == alone.layer.values.tolist()
            assert close(here, alone, rel=1e-12)


def test_misclassified_samples_are_those_of_each_network_at_each_checkpoint(stripes):
    from flatlab.splits import prepare

    wrong = {"split": "test", "size": 7, "seed": 1, "only": "misclassified"}

    def only_the_first_class(model):
        torch.nn.init.zeros_(model.fc4.weight)
        model.fc4.bias.data.copy_(torch.tensor([1.0, 0.0, 0.0]))

    models, settings, found = packed(
        stripes, samples={"wrong": wrong, **SAMPLE_SETS}, change=only_the_first_class
    )
    split = prepare(stripes, settings["data"], None, torch.float64).test
    order = np.random.default_rng(1).permutation(len(split.labels))
    for number, model in enumerate(models):
        wrongly = (model(split.inputs).argmax(1) != split.labels).numpy()
        chosen = [index for index in order if wrongly[index]][:7]
        assert len(chosen) == 7
        alone = flatlab.measure(model.eval(), split.inputs[chosen], costly=ALL_COSTLY)
        here = found.isel(run=number // 2, checkpoint=number % 2).sel(samples="wrong")
        assert close(here, alone, rel=1e-12)
        subset = split.misclassified(model, 3, 1)
        assert torch.equal(subset.inputs, split.inputs[chosen[:3]])
        assert torch.equal(subset.labels, split.labels[chosen[:3]])


def test_a_network_that_gets_nothing_wrong_has_no_numbers_of_what_it_gets_wrong(
    stripes, monkeypatch
):
    from flatlab.splits import Split

    monkeypatch.setattr(Split, "misclassified", lambda self, *given: self._chosen(torch.arange(0)))
    wrong = {"split": "test", "size": 7, "seed": 1, "only": "misclassified"}
    *_, found = packed(stripes, samples={"wrong": wrong, **SAMPLE_SETS})
    assert found.sel(samples="wrong")["sharpness"].isnull().all()
    assert found.sel(samples=["train", "test"])["sharpness"].notnull().all()


# Its page

SIGNS = {
    "||": "‖",
    "sqrt(": "√(",
    "dtheta": "dθ",
    "theta": "θ",
    "sigma": "σ",
    "Gamma": "Γ",
    "kappa": "κ",
    "^-2": "⁻²",
    "^2N": "^(2N)",
    "^2": "²",
    "^T": "ᵀ",
    "<=": "≤",
    ">=": "≥",
    "|": "\\|",
}


def sign(text):
    for plain, pretty in SIGNS.items():
        text = text.replace(plain, pretty)
    return text


def table(family):
    """The table of a family's quantities as the page should have it."""
    lines = ["| name | definition | dimensions | units | source |", "|---|---|---|---|---|"]
    for name, q in family.QUANTITIES.items():
        cells = [f"`{name}`", sign(q.long_name), ", ".join(q.dims), sign(q.units), q.source]
        lines.append(f"| {' | '.join(cell or '–' for cell in cells)} |")
    return "\n".join(lines)


def test_the_first_example_of_the_page_runs(capsys):
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL).group(1)
    assert len(code.splitlines()) <= 14
    exec(compile(code, "docs/measures.md", "exec"), {})
    assert capsys.readouterr().out


FAMILIES = {
    family.__name__.rpartition(".")[2]: family
    for family in (
        *(geometry, accuracy, hessian, jacobian, adaptive),
        *(linear, diagonal, flatness, capacity, sharpness),
    )
}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_tables_of_the_page_are_those_of_the_code(family):
    name = family.__name__.rpartition(".")[2]
    expected = table(family)
    found = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- end -->", PAGE.read_text(), re.DOTALL)
    assert found, f"docs/measures.md needs the table between <!-- {name} --> and <!-- end -->"
    assert found.group(1) == expected, f"docs/measures.md should have:\n{expected}"


def test_the_page_names_every_setting_and_nothing_that_does_not_exist():
    text = PAGE.read_text()
    for word in (
        *("elementwise-adaptive-trace", "operator-norm", "corrected-bound"),
        *("flatlab", "chen-code"),
        *geometry.NORMS,
        *geometry.BOUNDS,
    ):
        assert f"`{word}`" in text or f'"{word}"' in text, word
    quantities = {name for family in FAMILIES.values() for name in family.QUANTITIES}
    underscored = set(re.findall(r"`([a-z]+(?:_[a-z0-9]+)+)`", text))
    settings = {"singular_values", "batch_size", "batch_norm", "test_set", "test_sets"}
    settings |= {"output_change"}
    settings |= {*flatness.Options.__struct_fields__, *capacity.Options.__struct_fields__}
    functions = {"approximated_bound", "loss_nearby"}
    assert all(callable(getattr(features, name)) for name in functions)
    notes = {"layers_left_out", "parameters_by_generic_gradient", "parameters_unused"}
    notes |= {"parameters_frozen", "named_modules", "quantities_left_out"}
    assert underscored <= quantities | functions | settings | notes
