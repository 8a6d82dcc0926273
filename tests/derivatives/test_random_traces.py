"""Hutchinson's trace and Hutch++ of explicit matrices: expectation, standard error, cost."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from flatlab.derivatives.estimates import random_traces
from flatlab.derivatives.estimates.random_directions import jackknife
from flatlab.derivatives.estimates.random_traces import ROUND, orthonormalize, random_trace, signs
from flatlab.derivatives.second_order.hessian_products import hessian_product
from flatlab.losses import loss_of
from tests.networks.small_networks import NETWORKS, OUTPUTS, many_outputs

LIKE = torch.zeros((), dtype=torch.float64)
HELD = 2**30
KINDS = [*NETWORKS, "tied"]
SOME = [pytest.param(name, marks=[pytest.mark.long] * (name != "tied")) for name in KINDS]


def parts_of(matrix, sizes, products=None):
    """v^T H v by part of v, and how many of them were asked for."""

    def parts(vectors, into=None):
        rows = torch.stack([make() for make in vectors])
        if products is not None:
            products.append(len(rows))
        if into is not None:
            into += rows @ matrix
        return torch.stack([p.sum(1) for p in (rows * (rows @ matrix)).split(sizes, 1)], 1)

    return parts


def hessian_of(name):
    """Of the mean cross-entropy of a network, and the sizes of its parameters."""
    model, x = many_outputs(name)
    targets = torch.eye(OUTPUTS, dtype=torch.float64)[: len(x)]
    sizes = [p.numel() for p in model.parameters()]
    with sdpa_kernel(SDPBackend.MATH):
        product = hessian_product(model, [(x, targets)], loss_of({"loss": "cross-entropy"}))
        matrix = torch.stack([product(unit) for unit in torch.eye(sum(sizes), dtype=x.dtype)])
    return matrix, sizes


def matrix_of(values, seed=0):
    generator = torch.Generator().manual_seed(seed)
    square = torch.randn(len(values), len(values), generator=generator, dtype=torch.float64)
    basis = torch.linalg.qr(square)[0]
    return basis @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ basis.T


@pytest.mark.more
@pytest.mark.parametrize("name", SOME)
def test_of_100_seeds_99_traces_lie_within_four_standard_errors(name):
    """Of all parameters and of each one, by both ways."""
    matrix, sizes = hessian_of(name)
    parts, count = parts_of(matrix, sizes), len(matrix)
    diagonal = torch.stack([d.sum() for d in matrix.diagonal().split(sizes)])
    exact = torch.cat([matrix.trace()[None], diagonal])
    close = torch.zeros(2, len(exact))
    for seed in range(100):
        sketch = matrix.new_zeros(ROUND, count)
        draws = parts([lambda k=k, s=seed: signs(count, s, k, LIKE) for k in range(ROUND)], sketch)
        trace, _ = random_traces.hutch_plus_plus(parts, sketch, seed)
        for way, (known, rows) in enumerate([(0 * diagonal, draws), (trace.exact, trace.draws)]):
            rows = torch.cat([rows.sum(1)[:, None], rows], 1)
            value = rows.mean(0) + torch.cat([known.sum()[None], known])
            errors = rows.std(0) / ROUND**0.5
            close[way] += (value - exact).abs() <= 4 * errors + 1e-9 * exact[0].abs()
    assert close.min() >= 99, close


def test_the_expectation_over_all_signs_is_the_trace_of_each_part():
    matrix, sizes = matrix_of([3.0, -2.0, 1.0, 0.5, 0.1, 0.0]), [2, 4]
    generator = torch.Generator().manual_seed(1)
    basis = torch.randn(2, 6, generator=generator, dtype=torch.float64)
    basis = basis[: orthonormalize(basis)]
    inside = parts_of(matrix, sizes)([basis[0].clone, basis[1].clone]).sum(0)
    every = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * 6)
    outside = every - every @ basis.T @ basis
    mean = parts_of(matrix, sizes)([row.clone for row in outside]).mean(0)
    expected = torch.stack([d.sum() for d in matrix.diagonal().split(sizes)])
    assert (inside + mean).numpy() == pytest.approx(expected.numpy(), rel=1e-12)


def test_a_matrix_of_low_rank_is_exact_by_hutch_plus_plus():
    matrix = matrix_of([5.0, -4.0, 2.0] + 197 * [0.0])
    sketch = torch.stack([signs(200, 0, k, LIKE) for k in range(ROUND)]) @ matrix
    assert random_traces.left_by_half(sketch) < 1e-8
    products = []
    trace, basis = random_traces.hutch_plus_plus(parts_of(matrix, [200], products), sketch, 0)
    assert len(basis) == 3
    assert products == [3, ROUND]
    assert float(trace.exact.sum() + trace.draws.mean()) == pytest.approx(3.0, rel=1e-9)
    assert trace.draws.abs().max() < 1e-9


@pytest.mark.parametrize(
    ("values", "way"),
    [
        ([100.0, 50.0, -40.0, *(397 * [0.2])], "hutch++"),  # few large ones
        ([1.0 + (k % 7) / 7 for k in range(400)], "hutchinson"),  # none that are large
    ],
)
def test_the_cheaper_way_is_taken_and_reaches_the_accuracy(values, way):
    matrix, products = matrix_of(values), []
    parts = parts_of(matrix, [100, 300], products)
    trace = random_trace(parts, LIKE, 400, 0.02, 0, HELD)
    assert trace.way == way
    assert trace.relative_error() <= 0.02
    value = trace.exact.sum() + trace.draws.sum(1).mean()
    assert abs(value / sum(values) - 1) <= 4 * 0.02
    taken = sum(products)
    if way == "hutch++":
        assert random_trace(parts, LIKE, 400, 0.02, 0, held=1).way != "hutch++"
        plain = [lambda k=k: signs(400, 0, k, LIKE) for k in range(300)]
        needed = 300 * (parts(plain).sum(1).std() / sum(values) / 300**0.5 / 0.02) ** 2
        assert taken < needed


def test_where_a_product_for_each_number_is_cheaper_the_trace_is_exact():
    matrix = matrix_of([1.0 if k % 2 else -0.98 for k in range(60)])
    trace = random_trace(parts_of(matrix, [60]), LIKE, 60, 0.01, 0, HELD)
    assert trace.way == "exact"
    assert float(trace.exact.sum()) == pytest.approx(0.6, rel=1e-9)


def test_nothing_is_left_of_what_a_basis_spans():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(5, 3, generator=generator) @ torch.randn(3, 200_000, generator=generator)
    rank = orthonormalize(rows)
    assert rank == 3
    assert torch.allclose(rows[:3] @ rows[:3].T, torch.eye(3), atol=1e-5)
    left = random_traces.rest(0, 0, rows[0], 200_000, rows[:3])
    assert (rows[:3] @ left).abs().max() < 1e-3


def test_no_curvature_has_no_trace():
    matrix = torch.zeros(50, 50, dtype=torch.float64)
    trace = random_trace(parts_of(matrix, [50]), LIKE, 50, 0.1, 0, HELD)
    assert float(trace.draws.sum()) == 0
    again = random_traces.further(parts_of(matrix, [50]), LIKE, 50, trace, 0.1, 0)
    assert again is trace


def test_the_jackknife_takes_the_bias_of_a_squared_mean():
    draws = torch.tensor([1.0, 2.0, 4.0, 9.0], dtype=torch.float64)
    without = torch.stack([draws[draws != draw].mean() ** 2 for draw in draws])
    value, _ = jackknife(draws.mean() ** 2, without)
    assert value.item() == pytest.approx(draws.mean().item() ** 2 - draws.var().item() / 4)
