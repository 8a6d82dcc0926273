"""What makes measuring on a GPU repeat and fail clearly, asked without one."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import flatlab
from flatlab import MeasureError
from flatlab.derivatives.checks.isolation import preserving_state
from flatlab.derivatives.per_sample import memory
from flatlab.families import capacity
from flatlab.lab.train.initializations import draw
from flatlab.measuring.networks import _row
from flatlab.networks import build, seeded


def printed(code, *arguments, **environment):
    """What a new process prints."""
    known = {key: value for key, value in os.environ.items() if key != "CUBLAS_WORKSPACE_CONFIG"}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**known, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_package_sets_the_workspace_of_cublas_before_torch_can_look_at_it():
    code = "import os, sys, flatlab; print(os.environ['CUBLAS_WORKSPACE_CONFIG'], *sys.modules)"
    first, *modules = printed(code).split()
    assert first == ":4096:8"
    assert "torch" not in modules
    assert printed(code, CUBLAS_WORKSPACE_CONFIG=":16:8").startswith(":16:8 ")


PRECISION = """
import json, os, sys
import torch, xarray, flatlab, flatlab.families.geometry, flatlab.api.measure
from flatlab.precision import float32_products
from flatlab.lab.train.determinism import deterministic_arithmetic
from torch import nn
b = torch.backends
def flags():
    found = []
    for kind in (b.cuda.matmul, b.cudnn.conv, b.cudnn.rnn, b.mkldnn.matmul, b.mkldnn.conv):
        found.append("full" if kind.fp32_precision in ("none", "ieee") else kind.fp32_precision)
    return found
def training(tf32):
    return deterministic_arithmetic([{"training": {"precision": "tf32" if tf32 else "float32"}}])
def exactly():
    old = []
    for read in (torch.get_float32_matmul_precision, lambda: b.cudnn.allow_tf32):
        try:
            old.append(read())
        except RuntimeError:
            old.append("mixed")
    kinds = (b.cuda.matmul, b.cudnn.conv, b.cudnn.rnn, b.mkldnn.matmul, b.mkldnn.conv, b)
    return [*old, *(kind.fp32_precision for kind in kinds)]
def check():
    before = exactly()
    for context in (float32_products, training):
        for tf32 in (False, True):
            with context(tf32):
                assert flags() == [*["tf32" if tf32 else "full"] * 3, "full", "full"], flags()
            assert exactly() == before, (before, exactly())
    for inputs in (torch.ones(3, 4), torch.ones(3, 5)):
        try:
            flatlab.measure(nn.Sequential(nn.Linear(4, 4), Spy(), nn.Linear(4, 2)), inputs)
        except flatlab.MeasureError:
            assert inputs.shape == (3, 5)
        assert exactly() == before, (before, exactly())
    assert seen and all(found == 5 * ["full"] for found in seen), seen
seen = []
class Spy(nn.Module):
    def forward(self, x):
        seen.append(flags())
        return x
for name, change in json.loads(sys.argv[1]).items():
    if child := os.fork():
        print(name, os.waitpid(child, 0)[1], flush=True)
    else:
        exec(change)
        check()
        os._exit(0)  # nothing to tidy up
"""
CHANGES = {
    "nothing": "",
    "old": "torch.set_float32_matmul_precision('medium'); b.cudnn.allow_tf32 = False",
    "new": "b.cuda.matmul.fp32_precision = 'tf32'; b.cudnn.conv.fp32_precision = 'ieee'",
    "new-for-all": "b.fp32_precision = 'tf32'",
    "both": "torch.set_float32_matmul_precision('high'); b.cuda.matmul.fp32_precision = 'ieee'",
}


@pytest.mark.more
def test_training_and_measuring_have_the_precision_they_ask_for_and_leave_flags_alone():
    """Each in a process of its own: a use of the new flags cannot be taken back."""
    found = printed(PRECISION, json.dumps(CHANGES)).splitlines()
    assert found == [f"{name} 0" for name in CHANGES]


@pytest.mark.parametrize("outside", [(False, True), (True, False)])
def test_measuring_takes_algorithms_of_cudnn_that_repeat(outside):
    cudnn = torch.backends.cudnn
    with torch.backends.cudnn.flags(deterministic=outside[0], benchmark=outside[1]):
        with preserving_state(nn.Linear(2, 2)):
            assert (cudnn.deterministic, cudnn.benchmark) == (True, False)
        assert (cudnn.deterministic, cudnn.benchmark) == outside


def test_drawing_weights_starts_no_gpu_and_seeds_none(monkeypatch):
    network, shape = {"name": "lenet5", "options": {"activation": "relu"}}, (3, 32, 32)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        from_seed = build(network, shape, 10).state_dict()

    def refuse(*_):
        raise AssertionError("a GPU was touched")

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name in ("get_rng_state", "set_rng_state", "manual_seed_all"):
        monkeypatch.setattr(torch.cuda, name, refuse)
    model = seeded(network, shape, 10, seed=3)
    draw(model, "he-normal", seed=3)
    model = seeded(network, shape, 10, seed=3)
    assert all(torch.equal(from_seed[name], tensor) for name, tensor in model.state_dict().items())


# Errors of a GPU


FATAL = [
    torch.AcceleratorError("an illegal memory access was encountered"),
    RuntimeError("CUDA error: device-side assert triggered\nhints"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
    MeasureError("the network does not accept inputs (3,): CUDA error: unspecified launch failure"),
]
HARMLESS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
    torch.AcceleratorError("CUDA error: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    MeasureError("layer 'drop' drops at random in training mode"),
    ValueError("mat1 and mat2 shapes cannot be multiplied"),
]


def failing(error):
    def measure(about):
        raise error

    return _row("a", measure)


@pytest.mark.parametrize("error", FATAL, ids=lambda error: str(error)[:30])
def test_measuring_ends_where_a_gpu_fails_which_no_later_network_would_survive(error):
    with pytest.raises(type(error)):
        failing(error)


@pytest.mark.parametrize("error", HARMLESS, ids=lambda error: str(error)[:30])
def test_other_errors_are_those_of_one_network(error):
    row = failing(error)
    assert row[0] == {}
    assert str(error)[:20] in row[1]["failure"]


def test_a_gpu_that_fails_is_no_reason_to_leave_families_out(monkeypatch):
    def fail(*_):
        raise FATAL[-1]

    monkeypatch.setattr(capacity, "measure", fail)
    with pytest.raises(MeasureError, match="CUDA error"):
        flatlab.measure(nn.Linear(3, 2), torch.ones(4, 3), families="all")


def test_memory_that_torch_keeps_for_itself_is_free(monkeypatch):
    device = torch.device("cuda", 1)
    numbers = {"mem_get_info": (5, 100), "memory_reserved": 70, "memory_allocated": 30}
    for name, number in numbers.items():
        monkeypatch.setattr(torch.cuda, name, {device: number}.get)
    assert memory.available(device) == 5 + 70 - 30
    found = SimpleNamespace(outputs=2, numbers=10**8, layers=[1])
    inputs = SimpleNamespace(device=device, element_size=lambda: 8)
    assert not memory.fits(found, inputs)
