"""Singular values of ill-conditioned Jacobians, against fifty digits."""

import mpmath
import numpy as np
import pytest
import torch

from flatlab.derivatives import singular_values as spectra

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
def test_singular_values_from_a_triangle_are_as_exact_as_those_of_the_matrix(
    least, rows, normal, monkeypatch
):
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


def test_only_triangles_are_left_to_the_decomposition_that_takes_matrices_one_by_one(
    normal, monkeypatch
):
    shapes, svdvals = [], torch.linalg.svdvals
    monkeypatch.setattr(torch.linalg, "svdvals", lambda a: shapes.append(a.shape) or svdvals(a))
    jacobians = normal(5, 3, 40)
    jacobians[1, 2, 7], jacobians[4, 0, 0] = torch.nan, torch.inf
    found = spectra.exact_values(jacobians)
    assert shapes == [(5, 3, 3)]
    assert found.isnan().all(1).tolist() == [False, True, False, False, True]
    assert not spectra.exact_values(torch.zeros(2, 3, 40)).any()
