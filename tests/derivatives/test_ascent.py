"""Auto-PGD and its projection, on functions whose largest values are known."""

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from flatlab.families.sharpness.auto_pgd import Neighbourhood, ascend, checkpoints, onto_ellipsoid


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


class Watched:
    """A function of changes d, by autograd, which keeps all points at which it was evaluated."""

    def __init__(self, value):
        self.value, self.points, self.gradients = value, [], 0

    def __call__(self, d):
        point = d.clone().requires_grad_()
        self.points.append(d)

        def gradient():
            self.gradients += 1
            return torch.autograd.grad(self.value(point), point)[0]

        return self.value(point).item(), gradient

    def ascended(self, field, steps=20, **how):
        return ascend(self, field, steps, self(torch.zeros_like(field.scale)), **how)


@pytest.mark.parametrize("steps", [20, 100])
def test_the_checkpoints_are_those_of_croce_and_hein(steps):
    found = [0, 22, 41, 57, 70, 80, 87, 93, 99]
    assert checkpoints(steps) == [int(np.ceil(round(p * steps / 100, 9))) for p in found]
    of_the_paper = [0, 5, 9, 12, 14, 16, 18, 19, 20]  # in its source
    assert checkpoints(20) == of_the_paper


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.01, 10), st.floats(0, 6), st.booleans())
@example(85808, 3.0625, 3.0625, False)
def test_the_projection_is_the_nearest_point(seed, radius, spread, frozen):
    """Its multiplier against a root found by scipy."""
    scale = torch.exp(spread * normal(7, seed=seed))
    g = normal(7, seed=seed + 1)
    if frozen:
        scale[2], g[2] = 0.0, 0.0
    found = onto_ellipsoid(g, scale, radius)
    assert float(found.norm()) <= radius * (1 + 1e-12)
    if float(g.norm()) <= radius:
        assert torch.equal(found, g)
        return
    squares, d = scale.numpy() ** 2, g.numpy()

    def excess(logarithm):
        shift = np.exp(logarithm)
        return np.linalg.norm(d * squares / (squares + shift)) - radius

    low, high = np.log(squares[squares > 0].min()) - 60, np.log(squares.max()) + 20
    if excess(low) > 0:
        shift = np.exp(brentq(excess, low, high, xtol=1e-13))
        exact = d * squares / (squares + shift)
        # The norm is right to 1e-6; the multiplier, and with it small coordinates, to that divided
        # by the derivative of log norm by log multiplier.
        slope = (exact**2 * shift / (squares + shift)).sum() / (exact**2).sum()
        np.testing.assert_allclose(found, exact, rtol=2e-6 * (1 + 1 / slope), atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_projection_stands_weights_that_are_almost_zero(dtype):
    scale = torch.tensor([1.0, 1e-3, 1e-20, 1e-38, 0.0], dtype=dtype)
    found = onto_ellipsoid(torch.tensor([2.0, 2, 2, 2, 0], dtype=dtype), scale, 1.0)
    assert found.isfinite().all()
    assert 0.999 < float(found.norm()) <= 1 + 1e-6


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_a_linear_function_is_largest_in_the_dual_direction(norm):
    slope, scale = normal(6), normal(6, seed=1).abs()
    scale[0] = 0.0
    function = Watched(lambda d: d @ slope)
    history = function.ascended(Neighbourhood(norm, 0.3, scale))
    exact = 0.3 * (scale * slope).norm(p=2 if norm == "l2" else 1)
    assert history[-1] == pytest.approx(float(exact), rel=1e-12)
    assert history[-1] <= float(exact) * (1 + 1e-12)


def test_the_step_of_the_text_ends_in_another_point_of_the_ellipsoid():
    slope, scale = normal(6), normal(6, seed=1).abs()
    field = Neighbourhood("l2", 0.3, scale, steepest=False)
    g = torch.zeros_like(scale)
    for _ in range(400):
        g = field.step(g, slope, 0.1)
    end = scale**2 * slope
    torch.testing.assert_close(g, 0.3 * end / end.norm(), rtol=1e-4, atol=1e-6)
    assert float((scale * g) @ slope) < 0.98 * 0.3 * float((scale * slope).norm())


def test_a_quadratic_function_is_largest_along_the_first_eigenvector():
    root = normal(6, 6)
    matrix, scale = root @ root.T, normal(6, seed=2).abs()
    function = Watched(lambda d: d @ matrix @ d / 2)
    field = Neighbourhood("l2", 0.7, scale)
    start = field.draw(torch.Generator().manual_seed(0))
    exact = 0.7**2 / 2 * torch.linalg.eigvalsh(scale[:, None] * matrix * scale)[-1]
    found = function.ascended(field, 50, start=start)[-1]
    assert found == pytest.approx(float(exact), rel=1e-6)
    assert found <= float(exact) * (1 + 1e-12)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["l2", "linf"]), st.booleans(), st.booleans(), st.integers(0, 10**6))
def test_every_point_is_in_the_neighbourhood_and_the_best_value_grows(norm, steepest, random, seed):
    center, scale = normal(8, seed=seed), normal(8, seed=seed + 1).abs()
    scale[3] = 0.0
    function = Watched(lambda d: (3 * d + center).sin().sum())
    field = Neighbourhood(norm, 0.6, scale, steepest)
    start = field.draw(torch.Generator().manual_seed(seed)) if random else None
    history = function.ascended(field, start=start)
    assert len(history) == 21
    assert history == sorted(history)
    assert history[-1] == max(float(function.value(d)) for d in function.points)
    for d in function.points:
        assert d[3] == 0
        g = torch.where(scale > 0, d / scale, 0.0)
        assert float(g.norm(p=2 if norm == "l2" else torch.inf)) <= 0.6 * (1 + 1e-9)


def test_gradients_are_computed_where_they_are_used_and_once():
    function = Watched(lambda d: (d - 0.01).sin().square().sum() - d.square().sum())
    function.ascended(Neighbourhood("linf", 5.0, torch.ones(3, dtype=torch.float64)))
    assert len(function.points) == 21
    assert function.gradients < 20  # steps were halved, and went on from the best point


def by_hand(value, radius, scale, steps):
    """Algorithm 1 in a box, line by line, in changes d; Conditions 1 and 2 of Croce and Hein."""

    def slope(d):
        point = d.clone().requires_grad_()
        return torch.autograd.grad(value(point), point)[0]

    def project(d):
        return torch.minimum(torch.maximum(d, -radius * scale), radius * scale)

    w, size = [torch.zeros_like(scale)], 2 * radius
    w.append(project(w[0] + size * scale * slope(w[0]).sign()))
    f = [float(value(d)) for d in w]
    best, f_max = (w[1], f[1]) if f[1] > f[0] else (w[0], f[0])
    marks, reduced, f_max_then = checkpoints(steps), False, f[0]
    for k in range(1, steps):
        z = project(w[k] + size * scale * slope(w[k]).sign())
        w.append(project(w[k] + 0.75 * (z - w[k]) + 0.25 * (w[k] - w[k - 1])))
        f.append(float(value(w[-1])))
        if f[-1] > f_max:
            best, f_max = w[-1], f[-1]
        if k in marks:
            j = marks[marks.index(k) - 1]
            first = sum(f[i + 1] > f[i] for i in range(j, k)) < 0.75 * (k - j)
            second = not reduced and f_max == f_max_then
            reduced, f_max_then = first or second, f_max
            if reduced:
                size /= 2
                w[k + 1] = w[k] = best
                f[k + 1] = f_max
    return f_max


@pytest.mark.parametrize("seed", range(5))
def test_it_is_algorithm_1_line_by_line(seed):
    center, scale = normal(8, seed=seed), 2 * normal(8, seed=seed + 100).abs()

    def value(d):
        return (4 * d + center).sin().sum() + d.square().sum() / 4

    found = Watched(value).ascended(Neighbourhood("linf", 0.9, scale))[-1]
    expected = by_hand(value, 0.9, scale, 20)
    assert found == pytest.approx(expected, rel=1e-12)
