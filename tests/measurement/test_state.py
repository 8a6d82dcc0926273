"""What a measurement leaves as it was: the model, torch and the process."""

import subprocess
import sys

import pytest
import torch
from torch import nn

import flatlab
from flatlab import MeasureError
from tests.measurement.comparing import ALL_COSTLY, Spy, assert_same_state, same, state


def run(code):
    """What a new process prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


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
