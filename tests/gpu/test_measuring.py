"""Measuring on a GPU against measuring on a CPU, and that it repeats and leaves torch alone.

What the families draw of the size of the weights comes from a generator of the device, and differs
between devices: the changes of weights of `adaptive_sharpness`, of average cases in `sharpness`
and of PAC-Bayes. All else is the same everywhere.
"""

import contextlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import flatlab
from flatlab.derivatives.per_sample import singular_values as spectra
from tests.networks.small_networks import small

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
EPS = torch.finfo(torch.float64).eps
NETWORKS = ("mlp-relu", "lenet", "vgg", "linear")  # vgg: with batch norm
COSTLY = ["elementwise-adaptive-trace", "operator-norm", "corrected-bound"]
FEW = {"costly": COSTLY, "robustness_deltas": [0.1], "robustness_draws": 2, "sharpness_steps": 3}
NOT_DRAWN = {
    **{**FEW, "pairs": 3, "draws": 2, "flatness": ["exact", "maximal", "traces"]},
    "capacity": ["path-norm", "margin", "fisher-rao", "distances"],
    "sharpness_radii": {"worst-adaptive-linf": [0.001], "worst-standard-l2": [0.25]},
}
SOME_DRAWN = {
    **{**FEW, "draws": 3, "sharpness_draws": 3},
    "sharpness_radii": {"average-standard-l2": [0.1], "worst-adaptive-linf": [0.001]},
}
DRAWN = {"adaptive_sharpness", "adaptive_sharpness_error", "adaptive_sharpness_draw_error"}
DRAWN |= {"dropped"}  # by these errors


def measured(name, device, dtype="float64", **options):
    """All families that can be had of a small network, on its classes."""
    model, inputs, labels = small(name)
    initial = small(name, seed=5)[0].to(device, getattr(torch, dtype))
    model = model.to(device, getattr(torch, dtype))
    how = {"families": "all", "loss": "cross-entropy", "initial": initial}
    return flatlab.measure(model, inputs.to(device), labels.to(device), **how, **options)


def assert_close(found, expected):
    """To 1e-8; residuals and errors, which are small differences, to 1e-8 of the whole."""
    assert list(found.data_vars) == list(expected.data_vars)
    assert found.attrs == expected.attrs
    for name in expected.data_vars.keys() - DRAWN:
        least = 1e-8 if name.endswith(("residual", "_error")) else 1e-13
        np.testing.assert_allclose(found[name], expected[name], 1e-8, least, err_msg=name)


LONG = pytest.mark.long
NETWORKS_AT_ONCE = [pytest.param(name, marks=[LONG] * (name != "mlp-relu")) for name in NETWORKS]
"""Without a GPU networks are compared with themselves: the others are left to the long suite."""


@pytest.mark.more
@pytest.mark.parametrize("name", NETWORKS_AT_ONCE)
def test_all_families_are_those_of_a_cpu(name, gpu):
    expected = measured(name, "cpu", **NOT_DRAWN)
    assert {"geometry", "capacity", "hessian", "adaptive"} <= {*expected.attrs["families"]}
    assert_close(measured(name, gpu, **NOT_DRAWN), expected)


@pytest.mark.more
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=LONG)])
@pytest.mark.parametrize("name", NETWORKS_AT_ONCE)
def test_all_families_repeat_bit_for_bit(name, dtype, gpu):
    """Those that draw too; and with every flag of speed set outside, which stays."""
    first = measured(name, gpu, dtype, **SOME_DRAWN)
    with quick():
        before = state(gpu)
        second = measured(name, gpu, dtype, **SOME_DRAWN)
        assert state(gpu) == before
    assert {"pac_bayes", "adaptive_sharpness", "sharpness_at_radius"} <= {*first.data_vars}
    for variable in first.data_vars:
        assert first[variable].values.tobytes() == second[variable].values.tobytes(), variable


@contextlib.contextmanager
def quick():
    """The flags that make products quick and results differ, by both sets where they agree."""
    backends = torch.backends
    wanted = [
        (backends.cuda.matmul, "allow_tf32", True),
        (backends.cudnn, "allow_tf32", True),
        (backends.cudnn, "benchmark", True),
        (backends.cudnn, "deterministic", False),
    ]
    with contextlib.ExitStack() as undo:
        for holder, name, value in wanted:
            undo.callback(setattr, holder, name, getattr(holder, name))
            setattr(holder, name, value)
        yield


def state(device):
    backends = torch.backends
    kinds = backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn, backends.mkldnn.matmul
    found = {
        "precision": [kind.fp32_precision for kind in kinds],
        "old precision": (torch.get_float32_matmul_precision(), backends.cudnn.allow_tf32),
        "cudnn": (backends.cudnn.enabled, backends.cudnn.deterministic, backends.cudnn.benchmark),
        "deterministic": torch.get_deterministic_debug_mode(),
        "filled": torch.utils.deterministic.fill_uninitialized_memory,
        "type": torch.get_default_dtype(),
        "random": torch.get_rng_state().tolist(),
        "modes": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "denormal": torch.tensor(torch.finfo(torch.float32).tiny).div(2).item(),
    }
    if device.type == "cuda":
        found["random on it"] = torch.cuda.get_rng_state(device).tolist()
        found["current"] = torch.cuda.current_device(), torch.cuda.current_stream()
    return found


def test_a_jacobian_without_full_rank_is_one_everywhere(gpu):
    """Two outputs are the same, and one sample is zero."""

    def found(device):
        model, inputs, labels = small("mlp-relu")
        inputs[3] = 0
        with torch.no_grad():
            for parameter in model.fc3.parameters():
                parameter[2] = parameter[1]
        given = (each.to(device) for each in (model, inputs, labels))
        return flatlab.measure(*given, costly=COSTLY)

    expected = found("cpu")
    assert expected.samples_rank_deficient == len(expected.sample)
    assert np.isneginf(expected.log_volume_per_sample).all()
    assert np.isfinite(expected.mls)
    assert_close(found(gpu), expected)


@pytest.mark.parametrize("shape", [(7, 10, 3000), (40, 3, 200), (3, 40, 700), (5, 30, 4)])
def test_singular_values_are_exact_however_ill_conditioned(shape, gpu, normal):
    """Of many columns in parts, of many rows, and of matrices that are not finite."""
    left, values, right = torch.linalg.svd(normal(*shape), full_matrices=False)
    wanted = torch.logspace(0, -16, values.shape[1], dtype=torch.float64).expand_as(values)
    jacobians = (left * wanted[:, None]) @ right
    expected = torch.linalg.svdvals(jacobians)
    jacobians[1, 0, 1], jacobians[2, 2, 2] = torch.nan, torch.inf
    found = spectra.exact_values(jacobians.to(gpu)).cpu()
    assert found[1:3].isnan().all()
    finite = [0, *range(3, len(found))]
    count = values.shape[1]
    # Of matrices of norm 1. A GPU reduces them in another order: 27 eps were seen.
    assert (found[finite, :count] - expected[finite]).abs().max() <= 60 * EPS
    assert not found[finite, count:].any()
    again = spectra.exact_values(jacobians.to(gpu)).cpu()
    assert torch.equal(again[finite], found[finite])


SEQUENCE = """
import sys
import numpy as np
import torch
import flatlab
from flatlab.networks import seeded
from flatlab.lab.train import train_packs
from tests.lab.train import packs

device = sys.argv[1]
given = packs.settings("lenet5", mode="graphs", precision="float32", iterations=40)
model = seeded(given["network"], (1, 8, 8), 3, seed=0).to(device)
x, labels = torch.randn(9, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(9) % 3
def measured():
    return flatlab.measure(model, x.to(device), labels, families=["geometry", "hessian"])
before = measured()
[trained] = train_packs(packs.images((1, 8, 8)), [given], device)
print(before.identical(measured()), all(np.isfinite(a).all() for a in trained.weights[0].values()))
"""


@pytest.mark.more
def test_a_process_may_measure_and_train_and_measure(gpu):
    """torch looks at the workspace of cuBLAS once, at the first product of the process."""
    command = [sys.executable, "-c", SEQUENCE, gpu.type]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split() == ["True", "True"], done.stderr
