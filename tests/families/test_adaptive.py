"""Adaptive sharpness and the norms of Jacobians against brute force, with their stated errors."""

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab.derivatives.estimates.random_perturbations import loss_changes, random_gauss_newton
from flatlab.families.adaptive import QUANTITIES, _of_sharpness
from tests.networks.small_networks import small
from tests.networks.whole import by_vector

RAW = {"outputs": "network"}


def linear(seed, inputs=6, outputs=3):
    torch.manual_seed(seed)
    return nn.Linear(inputs, outputs, bias=False, dtype=torch.float64)


def measured(model, inputs, targets, seed=0, **options):
    return flatlab.measure(model, inputs, targets, families=["adaptive"], seed=seed, **options)


def exact_trace(model, inputs, targets):
    """The sum of theta_j^2 H_jj over what is trained, of mean |f - y|^2 / 2."""
    loss, theta = by_vector(model, lambda f: (f - targets).square().sum(1).mean() / 2, inputs)
    hessian = torch.autograd.functional.hessian(loss, theta, vectorize=True)
    return float(theta**2 @ hessian.diagonal())


def test_a_quadratic_loss_has_the_trace_at_any_rho_within_the_stated_error(normal):
    # of a linear network the third derivatives vanish: E[...] is the trace, exactly
    scores = []
    for seed in range(40):
        model, inputs = linear(seed), normal(4, 6, seed=seed)
        targets = normal(4, 3, seed=seed + 100)
        how = {"rho": 0.5, "draws": 30, "ascent_steps": 0, "trace": "exact", **RAW}
        report = measured(model, inputs, targets, seed, **how)
        exact = exact_trace(model, inputs, targets)
        assert float(report.elementwise_adaptive_trace) == pytest.approx(exact, rel=1e-10)
        error = float(report.adaptive_sharpness_draw_error)
        scores.append((float(report.adaptive_sharpness) - exact) / error)
    # Student's t with 29 degrees of freedom, 40 times
    assert abs(np.mean(scores)) < 4 / len(scores) ** 0.5
    assert 0.75 < np.std(scores) < 1.3
    assert np.max(np.abs(scores)) < 4.5


@pytest.mark.more
def test_random_signs_are_unbiased_within_the_stated_error(mlp, normal):
    scores = []
    for seed in range(30):
        model, inputs = mlp((5, 6, 3), seed=seed), normal(4, 5, seed=seed)
        given, how = (model, inputs, normal(4, 3), seed), {"draws": 2, "ascent_steps": 0}
        report, exact = (
            measured(*given, trace=trace, probes=30, **how) for trace in ("random", "exact")
        )
        for name in ("elementwise_adaptive_trace", "sharpness"):
            assert float(exact[f"{name}_error"]) == 0
            difference = float(report[name] - exact[name])
            scores.append(difference / float(report[f"{name}_error"]))
    assert abs(np.mean(scores)) < 0.5
    assert 0.75 < np.std(scores) < 1.4


def test_traces_and_norms_are_those_of_geometry(mlp, normal):
    model, inputs = mlp((5, 6, 3)), normal(4, 5)
    options = {"trace": "exact", "draws": 2, **RAW}
    report, both = (
        flatlab.measure(model, inputs, normal(4, 3), families=families, **options)
        for families in (["adaptive"], ["geometry", "adaptive"])
    )
    exact = flatlab.measure(model, inputs)
    tolerances = {"elementwise_adaptive_trace": 1e-6, "sharpness": 1e-6}
    for name, tolerance in {**tolerances, "mls": 1e-3, "normalized_mls": 2e-3}.items():
        assert float(report[name]) == pytest.approx(float(exact[name]), rel=tolerance)
        assert float(both[name]) == float(exact[name])  # and no error of an estimate beside it
        assert f"{name}_error" in report
        assert f"{name}_error" not in both


def test_finite_rho_is_that_of_plain_sampling(mlp, normal):
    """With a sigmoid and one-hot targets, against draws one by one, without antithetic ones."""
    model, inputs, labels = mlp((3, 4, 2)), normal(3, 3), torch.tensor([0, 1, 1])
    report = measured(model, inputs, labels, draws=400)
    targets = nn.functional.one_hot(labels, 2)
    generator = np.random.default_rng(0)

    def loss(parameters):
        w1, b1, w2, b2 = parameters
        hidden = np.maximum(inputs.numpy() @ w1.T + b1, 0)
        outputs = 1 / (1 + np.exp(-(hidden @ w2.T + b2)))
        return ((outputs - targets.numpy()) ** 2).sum(1).mean() / 2

    theta = [p.detach().numpy() for p in model.parameters()]

    def moved(p):
        return p + 0.1 * np.abs(p) * generator.standard_normal(p.shape)

    changes = [loss(map(moved, theta)) - loss(theta) for _ in range(20_000)]
    brute, error = 200 * np.mean(changes), 200 * np.std(changes) / len(changes) ** 0.5
    error = np.hypot(error, float(report.adaptive_sharpness_draw_error))
    assert abs(float(report.adaptive_sharpness) - brute) < 4 * error


def test_small_rho_gives_the_hessian_and_not_its_gauss_newton_part(mlp, normal):
    model = nn.Sequential(mlp((3, 4, 2), activation="tanh"), nn.Sigmoid())
    inputs, targets = normal(5, 3), 3 * normal(5, 2, seed=50)
    report = measured(model, inputs, targets, rho=1e-3, draws=2000, trace="exact", **RAW)
    exact = exact_trace(model, inputs, targets)
    error = float(report.adaptive_sharpness_draw_error)
    assert abs(float(report.adaptive_sharpness) - exact) < 4 * error
    gauss_newton = float(report.elementwise_adaptive_trace)
    outputs, theta = by_vector(model, lambda f: f, inputs)
    brute = float((torch.func.jacrev(outputs)(theta) * theta).square().sum())
    assert gauss_newton == pytest.approx(brute / len(inputs), rel=1e-10)
    assert abs(gauss_newton - exact) > 6 * error  # the residual's term is not in it


def test_standard_errors_cover_samples_and_draws_that_all_samples_share():
    """Over many tables with known effects the stated variance of the mean is the true one."""
    generator = np.random.default_rng(0)
    means, stated, of_draws = [], [], []
    for _ in range(4000):
        table = generator.normal(5, 1, (8, 1)) + generator.normal(0, 2, (1, 12))
        table = table + generator.normal(0, 3, (8, 12))
        found = _of_sharpness(torch.from_numpy(table))
        means.append(found["adaptive_sharpness"])
        stated.append(found["adaptive_sharpness_error"] ** 2)
        of_draws.append(found["adaptive_sharpness_draw_error"] ** 2)
    assert np.var(means) == pytest.approx(1 / 8 + 4 / 12 + 9 / 96, rel=0.08)
    assert np.mean(stated) == pytest.approx(np.var(means), rel=0.1)
    assert np.mean(of_draws) == pytest.approx(4 / 12 + 9 / 96, rel=0.08)


def test_too_few_iterations_are_said_and_counted(mlp, normal):
    model, inputs = mlp((30, 30, 20)), normal(5, 30)
    report = measured(model, inputs, normal(5, 20), iterations=2, tolerance=1e-6, draws=2, **RAW)
    assert float(report.not_converged) == 5
    assert bool((report.norm_residual > 1e-3).all())


def test_frozen_parameters_do_not_move(mlp, normal):
    model, inputs, targets = mlp((4, 5, 2)), normal(3, 4), normal(3, 2)
    for p in model.parameters():
        p.requires_grad_(False)
    model[0].weight.requires_grad_()
    changes = loss_changes(model, inputs, targets, draws=300, rho=1e-2)
    exact = exact_trace(model, inputs, targets)
    per_draw = (2e4 * changes).mean(0)
    assert abs(float(per_draw.mean()) - exact) < 4 * float(per_draw.std()) / 300**0.5


def test_every_error_above_the_allowed_share_is_flagged(mlp, normal):
    model, inputs, targets = mlp((4, 5, 3)), normal(7, 4), normal(7, 3)
    for share, flag in ((1e-9, 1), (1e9, 0), (None, 0)):
        report = measured(model, inputs, targets, draws=5, drop_above=share)
        assert float(report.dropped) == flag


def test_every_quantity_is_computed_and_no_other(mlp, normal):
    report = measured(mlp((4, 3)), normal(3, 4), normal(3, 3), draws=2)
    assert set(report) == set(QUANTITIES)


def test_a_transformer_of_timm_as_it_is():
    model, inputs, labels = small("timm")
    inputs, labels = inputs[:3], labels[:3]
    how = {"draws": 2, "tolerance": 1e-6, "trace": "exact"}
    report = measured(model, inputs, labels, **how)
    whole = nn.Sequential(model, nn.Sigmoid())
    rows = [torch.autograd.functional.jacobian(whole, x[None]).flatten(2)[0] for x in inputs]
    exact = torch.linalg.svdvals(torch.stack(rows))[:, 0].numpy()
    assert report.mls_per_sample.values == pytest.approx(exact, rel=1e-5)
    plain, _ = random_gauss_newton(whole, inputs, 200)
    error = float(plain.std()) / 200**0.5
    assert abs(float(plain.mean()) - float(report.sharpness)) < 4 * error
