"""Quadratures of matrices with a known spectrum."""

import numpy as np
import pytest
import torch

from flatlab.derivatives.quadrature import density, quadrature

SIZE = 200


def matrix(values):
    draws = torch.randn(SIZE, SIZE, generator=torch.Generator().manual_seed(0), dtype=values.dtype)
    rotation = torch.linalg.qr(draws)[0]
    return rotation @ (values[:, None] * rotation.mT)


def test_quadratures_are_exact_for_polynomials_and_their_mean_is_the_trace():
    values = torch.linspace(-1, 2, SIZE, dtype=torch.float64)
    a = matrix(values)
    found = quadrature(lambda v: a @ v, values, 5, 4, seed=2)
    generator = torch.Generator().manual_seed(2)
    for nodes, weights in zip(found.nodes, found.weights, strict=True):
        signs = 2.0 * torch.randint(2, (SIZE,), generator=generator) - 1
        power = signs.double() / SIZE**0.5
        for degree in range(8):  # up to 2 * 4 - 1
            moment = float(signs.double() @ power) / SIZE**0.5
            assert (weights * nodes**degree).sum() == pytest.approx(moment, abs=1e-10)
            power = a @ power
    assert found.products == 20


def test_the_quadrature_of_an_exhausted_space_is_the_spectrum_itself():
    values = torch.tensor([1.0, 1, 4, 4, 4], dtype=torch.float64)
    found = quadrature(lambda v: values * v, values, 3, 5)
    assert found.products == 6  # two eigenvalues, two products each
    mean, error = density(found, [1.0, 2.5, 4.0], 0.1)
    peak = 1 / (0.1 * (2 * np.pi) ** 0.5)
    assert mean == pytest.approx([0.4 * peak, 0, 0.6 * peak], abs=1e-9)
    assert error == pytest.approx(0, abs=1e-9)


def test_products_that_are_not_finite_have_no_quadrature():
    start = torch.ones(5, dtype=torch.float64)
    assert np.isnan(quadrature(lambda v: v * torch.nan, start, 2, 3).nodes).all()
