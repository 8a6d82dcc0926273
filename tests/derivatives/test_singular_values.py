"""Norms of weights and singular values of Jacobians, against dense and precise decompositions."""

from collections import Counter
from dataclasses import replace

import mpmath
import numpy as np
import pytest
import torch
from torch import nn

from flatlab.derivatives.jacobians import golub_kahan
from flatlab.derivatives.jacobians.golub_kahan import (
    Jacobian,
    largest_singular_values,
    secant_slopes,
)
from flatlab.derivatives.jacobians.norms import operator_norm, spectral_norm
from flatlab.derivatives.per_sample import singular_values as spectra
from flatlab.families import capacity, geometry
from flatlab.families.geometry import values as of_geometry
from flatlab.lab.train import train_packs
from flatlab.measuring.grid import measure_pack
from tests.lab.train.packs import images, settings
from tests.networks.written import Written
from tests.synthetic.packs import asked, of_split

EPS = torch.finfo(torch.float64).eps


def with_values(shape, values, normal):
    """Matrices (samples, N, M) with given singular values."""
    samples, outputs, _ = shape
    left = torch.linalg.qr(normal(samples, outputs, outputs)).Q
    right = torch.linalg.qr(normal(*shape, seed=1).mT).Q
    return (left * values) @ right.mT


def precisely(matrix):
    """Singular values with fifty digits, descending."""
    with mpmath.workdps(50):
        values = mpmath.svd_r(mpmath.matrix(matrix.tolist()), compute_uv=False)
        return np.array(sorted(map(float, values), reverse=True))


@pytest.mark.parametrize("rows", [16, 2**62], ids=["in parts", "at once"])
@pytest.mark.parametrize("least", [1.0, 1e-6, 1e-12, 0.0])
def test_values_from_a_triangle_are_as_exact_as_of_the_matrix(least, rows, normal, monkeypatch):
    monkeypatch.setitem(spectra.ROWS, "cpu", rows)
    values = torch.logspace(0, -3, 4, dtype=torch.float64)
    values[-1] = least / 100
    jacobians = with_values((3, 4, 67), values.sort(descending=True).values, normal)
    for tall in (False, True):
        matrices = jacobians.mT if tall else jacobians
        found = spectra.exact_values(matrices).numpy()
        for ours, matrix in zip(found, matrices, strict=True):
            exact = precisely(matrix)
            assert np.abs(ours[:4] - exact[:4]).max() <= 4 * EPS * exact[0]
            assert not ours[4:].any()
            assert len(ours) == len(matrix)
    gram = jacobians @ jacobians.mT
    refined = spectra.refine(spectra.singular_values(gram), jacobians).numpy()
    assert np.abs(refined - [precisely(j) for j in jacobians]).max() <= 1e-10


def test_only_triangles_are_decomposed_one_by_one(normal, monkeypatch):
    shapes, svdvals = [], torch.linalg.svdvals
    monkeypatch.setattr(torch.linalg, "svdvals", lambda a: shapes.append(a.shape) or svdvals(a))
    jacobians = normal(5, 3, 40)
    jacobians[1, 2, 7], jacobians[4, 0, 0] = torch.nan, torch.inf
    found = spectra.exact_values(jacobians)
    assert shapes == [(5, 3, 3)]
    assert found.isnan().all(1).tolist() == [False, True, False, False, True]
    assert not spectra.exact_values(torch.zeros(2, 3, 40)).any()


SHAPES = [(1, 1), (3, 7), (7, 3), (128, 130), (130, 129), (200, 500), (500, 200)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "digits"), [(torch.float64, 1e-11), (torch.float32, 1e-5)])
def test_the_spectral_norm_is_the_largest_singular_value(shape, dtype, digits, normal):
    matrix = normal(*shape)
    expected = float(torch.linalg.svdvals(matrix)[0])
    assert spectral_norm(matrix.to(dtype)) == pytest.approx(expected, rel=digits)


@pytest.mark.parametrize("size", [3, 300])
def test_norms_of_zeros_ones_and_nothing_finite(size):
    assert spectral_norm(torch.zeros(size, size)) == 0
    assert spectral_norm(torch.eye(size)) == pytest.approx(1)
    assert spectral_norm(torch.full((size, size), torch.nan)) != 0
    layer = nn.Conv1d(1, 1, 3, padding=1)
    layer.weight.data.zero_()
    assert operator_norm(layer, (1, size)) == 0
    layer.weight.data.fill_(torch.inf)
    assert torch.tensor(operator_norm(layer, (1, size))).isnan()


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv1d(1, 1, 1), (1, 1)),
        (nn.Conv1d(1, 2, 1), (1, 2)),
        (nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular"), (2, 6)),
        (nn.Conv2d(3, 4, 3, stride=2, padding=1), (3, 7, 6)),
        (nn.Conv2d(4, 6, 3, groups=2, dilation=2, padding="same"), (4, 5, 5)),
        (nn.Conv3d(2, 3, 2), (2, 3, 3, 3)),
    ],
)
@pytest.mark.parametrize(("dtype", "digits"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_the_operator_norm_is_that_of_the_dense_map(layer, shape, dtype, digits):
    layer = layer.to(torch.float64)
    nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(0))
    size = torch.Size(shape).numel()
    basis = torch.eye(size, dtype=torch.float64).view(size, *shape)
    with torch.no_grad():
        dense = (layer(basis) - layer(torch.zeros_like(basis))).flatten(1)
    expected = float(torch.linalg.svdvals(dense)[0])
    assert operator_norm(layer.to(dtype), shape) == pytest.approx(expected, rel=digits)


CASES = {
    "geometry": (geometry, of_geometry, {"costly": ["operator-norm", "corrected-bound"]}),
    "capacity": (capacity, capacity, {"capacity": ["distances"]}),
}


@pytest.mark.first(1)
@pytest.mark.parametrize("name", CASES)
def test_norms_of_weights_are_computed_once_for_all_sample_sets_of_a_network(name, monkeypatch):
    """And anew for the next weights, which are loaded into the same tensors."""
    family, module, options = CASES[name]
    raw = images((1, 8, 8))
    training = settings("lenet5", seeds=(0, 1), checkpoints=[0, 20], iterations=40)
    [trained] = train_packs(raw, [training])
    sets = {f"{at}{n}": of_split(at, n) for at, n in (("train", 3), ("test", 4))}
    given = {key: training[key] for key in ("data", "outputs", "seeds")}
    given |= {"loss": {"loss": "cross-entropy"}, "samples": sets, "options": {name: options}}
    job = asked(name, training["network"], **given)
    calls = []
    for key in {"spectral_norm", "operator_norm"} & {*vars(module)}:
        norm = getattr(module, key)

        def counted(*given, norm=norm):
            calls.append(norm)
            return norm(*given)

        monkeypatch.setattr(module, key, counted)
    weights = [trained.weights, trained.dense]
    found, once = measure_pack(weights, raw, job), Counter(calls)
    measure = family.measure
    monkeypatch.setattr(family, "measure_several", lambda *given: [], raising=False)
    monkeypatch.setattr(  # nothing is known of other sample sets
        family, "measure", lambda model, x, how: measure(model, x, replace(how, norms={}))
    )
    calls.clear()
    assert found.identical(measure_pack(weights, raw, job))
    assert spectral_norm in once
    assert Counter(calls) == {norm: len(sets) * count for norm, count in once.items()}


SEEDS = range(2)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("widths", [(7, 9, 4), (3, 20, 12), (5, 6, 1), (40, 30, 25)])
def test_the_krylov_norm_is_the_largest_singular_value_within_its_error(mlp, normal, widths, seed):
    model, inputs = mlp(widths, seed=seed, activation="tanh"), normal(6, widths[0], seed=seed)
    whole = [torch.autograd.functional.jacobian(model, x) for x in inputs]
    exact = torch.linalg.svdvals(torch.stack(whole))[:, 0]
    for tolerance in (1e-1, 1e-3, 1e-8):
        found = largest_singular_values(Jacobian(model, inputs), tolerance, 60, seed)
        assert bool(found.converged.all())
        relative = 1 - found.values / exact
        assert bool((relative > -1e-12).all())  # from below
        assert bool((relative < tolerance).all())
    assert bool((found.iterations <= min(widths[0], widths[-1]) + 1).all())


def test_nothing_that_depends_on_the_input_has_norm_zero(normal):
    call = lambda net, x: (-x.square().sum(1, keepdim=True) - 1).relu() + net.weight  # noqa: E731
    constant = Written(call, weight=nn.Parameter(torch.ones(2, dtype=torch.float64)))
    found = largest_singular_values(Jacobian(constant, normal(3, 4)))
    assert found.values.tolist() == [0, 0, 0]
    assert bool(found.converged.all())


@pytest.mark.parametrize("seed", SEEDS)
def test_ascent_finds_the_norm_of_a_linear_map(normal, seed):
    torch.manual_seed(seed)
    model = nn.Linear(6, 3, bias=False, dtype=torch.float64)
    norm = float(torch.linalg.matrix_norm(model.weight.detach(), 2))
    slopes = secant_slopes(model, normal(4, 6), steps=200, seed=seed)
    assert bool((slopes <= norm * (1 + 1e-12)).all())
    assert bool((slopes > 0.99 * norm).all())


def test_the_point_after_the_last_step_counts(normal):
    model, x = torch.nn.Linear(6, 3, bias=False).double(), normal(4, 6)
    delta = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    slopes = (model(delta).norm(dim=1) / delta.norm(dim=1)).detach().numpy()
    assert secant_slopes(model, x, steps=0).numpy() == pytest.approx(slopes)


def test_the_slope_of_a_secant_can_exceed_the_norm(normal):
    step, at_zero = Written(lambda net, x: (5 * (x - 1)).tanh()), torch.zeros(1, 1).double()
    found = largest_singular_values(Jacobian(step, at_zero))
    assert float(found.values) == pytest.approx(5 / np.cosh(5) ** 2, rel=1e-6)
    assert float(secant_slopes(step, at_zero, start=1.0, steps=60)) > 100 * float(found.values)


def test_short_secants_have_the_slope_of_the_derivative(mlp, normal):
    """Why ascent and iteration differ: what is left is the length of the secants and the steps."""
    model, inputs = mlp((12, 10, 5), activation="tanh"), normal(4, 12)
    norms = largest_singular_values(Jacobian(model, inputs), 1e-10).values
    slopes = secant_slopes(model, inputs, start=1e-5, lr=1e-6, steps=600)
    assert slopes.numpy() == pytest.approx(norms.numpy(), rel=1e-3)


def test_a_budget_of_memory_bounds_the_samples_at_a_time(mlp, normal, monkeypatch):
    model = mlp((50, 400, 10))
    monkeypatch.setitem(golub_kahan.GRAPH_BYTES, "cpu", 400_000)
    assert 1 <= golub_kahan.samples_at_a_time(model, normal(64, 50)) < 64
