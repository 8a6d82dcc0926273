"""Eigenvalues at both ends, by Krylov spaces and Lanczos' method; quadratures of spectra."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from flatlab.derivatives.second_order import lanczos as krylov
from flatlab.derivatives.second_order.lanczos import density, largest_eigenvalue, quadrature

SIZE = 200


def matrix(values):
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(len(values), len(values), generator=generator, dtype=torch.float64)
    rotation = torch.linalg.qr(draws)[0]
    return rotation @ (torch.as_tensor(values, dtype=torch.float64)[:, None] * rotation.mT)


def solved(values, largest, smallest=0, **options):
    a = matrix(values)
    start = torch.randn(len(a), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    options = {"residual": 1e-10} | options
    found = krylov.extreme_eigenvalues(lambda v: a @ v, start, largest, smallest, **options)
    rest = found.vectors @ a - torch.from_numpy(found.values)[:, None] * found.vectors
    assert found.residuals == pytest.approx(rest.norm(dim=1).numpy(), abs=1e-12)
    gram = (found.vectors @ found.vectors.mT).numpy()
    assert gram == pytest.approx(np.eye(len(gram)), abs=1e-10)
    return found


SPECTRA = {
    "simple": np.linspace(-1, 1, SIZE) ** 3,
    "repeated": np.r_[np.full(3, 5.0), 4, 4, np.linspace(-0.1, 0.1, SIZE - 7), -2, -2],
    "zero": np.zeros(SIZE),
    "rank three": np.r_[np.ones(3), np.zeros(SIZE - 3)],
    "tiny": np.array([3.0, 1, -1]),
}


@pytest.mark.parametrize("memory", [2**30, 1], ids=["whole", "compressed"])
@pytest.mark.parametrize("name", SPECTRA)
def test_eigenvalues_at_both_ends_each_as_often_as_it_occurs(name, memory, monkeypatch):
    monkeypatch.setattr(krylov, "BYTES", memory)
    values = np.sort(SPECTRA[name])
    largest, smallest = (2, 1) if name == "tiny" else (6, 3)
    found = solved(values, largest, smallest)
    expected = np.r_[values[::-1][:largest], values[:smallest]]
    assert found.values == pytest.approx(expected, abs=1e-9)
    assert found.converged.all()


def test_a_compressed_space_holds_no_more_vectors_than_it_may(monkeypatch):
    monkeypatch.setattr(krylov, "BYTES", 1)
    widths = []
    expand = krylov.Space.expand
    monkeypatch.setattr(
        krylov.Space, "expand", lambda self: widths.append(self.size) or expand(self)
    )
    found = solved(np.linspace(0, 1, SIZE) ** 2, 5)
    assert found.converged.all()
    assert max(widths) < 2 * 5 + krylov.SPARE < len(widths)


def test_few_products_are_not_converged_and_say_so():
    found = solved(np.linspace(0, 1, SIZE), 4, most=10)
    assert found.products == 10
    assert not found.converged.all()


def test_a_pair_has_converged_by_its_own_size_or_a_hundredth_of_the_largest():
    found = solved(np.r_[100.0, np.linspace(0, 2, SIZE - 1)], 3, residual=1e-2)
    assert (found.residuals <= 1e-2 * np.maximum(found.values, 1)).all()


def test_products_that_are_not_finite_have_neither_eigenvalues_nor_quadratures():
    start, product = torch.ones(5, dtype=torch.float64), lambda v: v * torch.nan
    found = krylov.extreme_eigenvalues(product, start, 2)
    assert np.isnan(found.values).all()
    assert not found.converged.any()
    assert np.isnan(quadrature(product, start, 2, 3)[0]).all()


def test_a_start_near_the_eigenvectors_saves_products():
    values = np.linspace(0, 1, SIZE) ** 4
    a, first = matrix(values), solved(values, 3, residual=1e-4)
    start = first.vectors.sum(0) + 1e-6 * torch.randn(SIZE, dtype=torch.float64)
    again = krylov.extreme_eigenvalues(lambda v: a @ v, start, 3)
    assert again.values == pytest.approx(first.values, rel=1e-6)
    assert again.products < first.products


def test_without_the_search_distinct_eigenvalues_come_for_fewer_products():
    distinct = np.linspace(-1, 1, SIZE) ** 3
    found = solved(distinct, 6, 3, repeated=False)
    assert found.values == pytest.approx(np.r_[distinct[::-1][:6], distinct[:3]], abs=1e-9)
    assert found.products <= solved(distinct, 6, 3).products - krylov.AGAIN
    found = solved(SPECTRA["repeated"], 2, repeated=False)
    assert found.values == pytest.approx([5, 4])


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_a_space_stays_orthonormal_and_its_projection_is_that_of_the_map(precision):
    a = matrix(np.r_[1e3, np.linspace(0, 1, SIZE - 1)]).to(precision)
    generator = torch.Generator().manual_seed(3)
    space = krylov.Space(lambda v: a @ v, krylov.random_start(a[0], generator))
    eps = torch.finfo(precision).eps
    for step in range(60):
        space.expand()
        if step == 40:
            values, coordinates, _ = space.ritz()
            space.compress(values[-20:], coordinates[:, -20:])
            space.follow(krylov.random_start(a[0], generator))
    basis = torch.cat([space.basis[: space.size], space.pending])
    assert (basis @ basis.mT - torch.eye(len(basis))).abs().max() < 50 * eps
    projected = (basis @ a @ basis.mT)[: space.size, : space.size].double().numpy()
    assert space.projection == pytest.approx(projected, abs=1e3 * 50 * eps)


FOR_LANCZOS = {  # and how many products exhaust their spaces
    "normal": (np.random.default_rng(0).normal(size=60), 60),
    "larger modulus below": (np.linspace(-10, 3, 40), 40),
    "rank one": (np.r_[5.0, np.zeros(29)], 3),
    "zero": (np.zeros(30), 1),
}


@pytest.mark.parametrize("name", FOR_LANCZOS)
@pytest.mark.parametrize("seed", range(3))
def test_lanczos_finds_the_largest_and_its_residual_bounds_the_error(seed, name, normal):
    values, needed = FOR_LANCZOS[name]
    a, start = matrix(values), normal(len(values), seed=seed)
    for most in (4, 8, 15, 60):
        found = largest_eigenvalue(lambda v: a @ v, start, 1e-6, most)
        assert np.abs(values - found.value).min() <= found.residual * abs(found.value) + 1e-12
        assert found.converged == (found.residual <= 1e-6)
        assert found.products <= min(most, needed)
    assert found.converged
    assert found.value == pytest.approx(values.max(), rel=1e-9, abs=1e-12)


class Operations(TorchDispatchMode):
    """Counts the operations of torch."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


def test_a_product_of_lanczos_takes_as_many_operations_however_many_came_before(normal):
    values, start = torch.linspace(0, 1, 300, dtype=torch.float64), normal(300)
    counts = {}
    for most in (9, 20, 40, 80):
        with Operations() as operations:
            found = largest_eigenvalue(lambda v: values * v, start, 0.0, most)
        counts[most] = operations.count
        residual = values * found.vector - found.value * found.vector
        assert found.vector.norm().item() == pytest.approx(1, rel=1e-12)
        assert residual.norm().item() / found.value == pytest.approx(found.residual, rel=1e-6)
    assert counts[80] - counts[40] <= 2.2 * (counts[40] - counts[20])


def test_quadratures_are_exact_for_polynomials_and_their_mean_is_the_trace():
    values, products = torch.linspace(-1, 2, SIZE, dtype=torch.float64), []
    a = matrix(values)
    found = quadrature(lambda v: products.append(v) or a @ v, values, 5, 4, seed=2)
    generator = torch.Generator().manual_seed(2)
    for nodes, weights in zip(*found, strict=True):
        signs = 2.0 * torch.randint(2, (SIZE,), generator=generator) - 1
        power = signs.double() / SIZE**0.5
        for degree in range(8):  # up to 2 * 4 - 1
            moment = float(signs.double() @ power) / SIZE**0.5
            assert (weights * nodes**degree).sum() == pytest.approx(moment, abs=1e-10)
            power = a @ power
    assert len(products) == 20


def test_the_quadrature_of_an_exhausted_space_is_the_spectrum_itself():
    values, products = torch.tensor([1.0, 1, 4, 4, 4], dtype=torch.float64), []
    found = quadrature(lambda v: products.append(v) or values * v, values, 3, 5)
    assert len(products) == 6  # two eigenvalues, two products each
    mean, error = density(*found, [1.0, 2.5, 4.0], 0.1)
    peak = 1 / (0.1 * (2 * np.pi) ** 0.5)
    assert mean == pytest.approx([0.4 * peak, 0, 0.6 * peak], abs=1e-9)
    assert error == pytest.approx(0, abs=1e-9)
