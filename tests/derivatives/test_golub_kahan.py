"""Norms of Jacobians by Golub and Kahan's iteration and by ascent, against whole matrices."""

import numpy as np
import pytest
import torch
from torch import nn

from flatlab.derivatives import golub_kahan
from flatlab.derivatives.golub_kahan import (
    Jacobian,
    largest_singular_values,
    samples_at_a_time,
    secant_slopes,
)

SEEDS = range(5)


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
    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2, dtype=torch.float64))

        def forward(self, x):
            return torch.relu(-x.square().sum(1, keepdim=True) - 1) + self.weight

    found = largest_singular_values(Jacobian(Constant(), normal(3, 4)))
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


def test_the_slope_of_a_secant_can_exceed_the_norm(normal):
    class Step(nn.Module):
        def forward(self, x):
            return torch.tanh(5 * (x - 1))

    at_zero = torch.zeros(1, 1, dtype=torch.float64)
    found = largest_singular_values(Jacobian(Step(), at_zero))
    assert float(found.values) == pytest.approx(5 / np.cosh(5) ** 2, rel=1e-6)
    assert float(secant_slopes(Step(), at_zero, start=1.0, steps=60)) > 100 * float(found.values)


def test_short_secants_have_the_slope_of_the_derivative(mlp, normal):
    """Why ascent and iteration differ: what is left is the length of the secants and the steps."""
    model, inputs = mlp((12, 10, 5), activation="tanh"), normal(4, 12)
    norms = largest_singular_values(Jacobian(model, inputs), 1e-10).values
    slopes = secant_slopes(model, inputs, start=1e-5, lr=1e-6, steps=600)
    assert slopes.numpy() == pytest.approx(norms.numpy(), rel=1e-3)


def test_a_budget_of_memory_bounds_the_samples_at_a_time(mlp, normal, monkeypatch):
    model = mlp((50, 400, 10))
    monkeypatch.setitem(golub_kahan.GRAPH_BYTES, "cpu", 400_000)
    assert 1 <= samples_at_a_time(model, normal(64, 50)) < 64
