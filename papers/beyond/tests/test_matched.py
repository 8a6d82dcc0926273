"""The penalty on the Jacobian, against the loss written out, and statements on made-up tables."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import flatlab
from flatlab.lab.tables.networks import ResultTables
from flatlab.networks._build import build
from flatlab.papers.beyond import fig17
from flatlab.papers.beyond.claims_matched import CORRUPTED, GRIDS, MLS, S, effect
from papers.beyond.tests.test_runs import drawn, table, verdicts

SHAPE = (1, 8, 8)


def network(architecture, penalty):
    options = {"activation": "relu", "base": architecture, "jacobian_penalty": penalty}
    torch.manual_seed(0)
    return build({"name": "penalized", "options": options}, SHAPE, 10)


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(5, *SHAPE, generator=generator), torch.arange(5)


@pytest.mark.parametrize("architecture", ["mlp", "lenet5"])
def test_gradients_are_those_of_the_loss_with_the_term(architecture, batch):
    inputs, targets = batch
    model, strength = network(architecture, 0.3).double(), 0.3
    inputs = inputs.double()

    def gradients(loss):
        model.zero_grad()
        torch.manual_seed(2)
        loss().backward()
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

    def written_out():
        free = inputs.clone().requires_grad_()
        outputs = nn.Sequential.forward(model, free)
        u = torch.randn(10, dtype=torch.float64)
        (slopes,) = torch.autograd.grad((outputs @ (u / u.norm())).sum(), free, create_graph=True)
        term = strength * 10 * slopes.square().flatten(1).sum(1).mean()
        return cross_entropy(outputs, targets) + term

    found = gradients(lambda: cross_entropy(model(inputs), targets))
    assert torch.allclose(found, gradients(written_out), rtol=1e-12)
    model.penalty = 0.0
    assert not torch.allclose(found, gradients(lambda: cross_entropy(model(inputs), targets)))


def test_in_the_mean_over_directions_the_term_is_the_norm_of_the_jacobian(batch):
    inputs = batch[0].double()
    model = network("mlp", 1.0).double()
    weights = [model.fc2.weight]
    jacobian = torch.func.vmap(torch.func.jacrev(model.eval()))(inputs[:, None])
    (expected,) = torch.autograd.grad(jacobian.square().sum() / 5, weights)
    model.train()
    torch.manual_seed(2)
    draws = [torch.autograd.grad(0 * model(inputs).sum(), weights)[0] for _ in range(1000)]
    found = torch.stack(draws).mean(0)
    assert (found - expected).norm() < 0.1 * expected.norm()


def test_it_is_measured_as_the_layers_that_it_has(batch):
    model = network("lenet5", 0.1).eval()
    plain = nn.Sequential(*model)
    found, expected = (
        flatlab.measure(each, batch[0], families="geometry") for each in (model, plain)
    )
    assert found.mls.item() == expected.mls.item()
    assert found.sharpness.item() == expected.sharpness.item()


def of_pairs(compression, flatness, fit=0.0):
    """Both grids; errors rise with log MLS and log sqrt(S), at equal sharpness SAM has more MLS."""
    generator, tables = np.random.default_rng(0), {}
    strengths = [(0.0, 0.0), *((r, 0.0) for r in (1, 2, 3)), *((0.0, p) for p in (1, 2, 3, 4))]
    rho, penalty, seed = np.array([(*strength, s) for s in range(6) for strength in strengths]).T
    for grid in GRIDS:
        s, mls = -0.1 * rho - 0.12 * penalty, -0.1 * rho - 0.25 * penalty
        noise = 0.1 * generator.standard_normal(len(s))
        errors = 20 + compression * mls + flatness * s + noise
        columns = {name: errors for name in ("test_error", "accuracy_gap", "loss_gap")}
        columns |= {"root_sharpness": np.exp(s), "mls": np.exp(mls), "train_error": fit + 0 * s}
        hyper = {"sam_radius": rho, "jacobian_penalty": penalty, "seed": seed}
        tables[grid] = table(grid, hyper, [100], {n: v[:, None] for n, v in columns.items()})
        both = np.stack([errors, errors], axis=1)[:, None]
        tables[grid]["test_set_error"] = ("run", "checkpoint", "test_set"), both
        tables[grid] = tables[grid].assign_coords(test_set=["test", "corrupted"])
    return tables


def test_of_compression_and_flatness_each_can_be_what_matters():
    assert verdicts("fig17", of_pairs(8.0, 0.0)) == {"c1": "holds", "c2": "holds"}
    assert verdicts("fig17", of_pairs(0.0, 20.0)) == {"c1": "undecided", "c2": "fails"}
    assert verdicts("fig17", of_pairs(-8.0, 0.0)) == {"c1": "fails", "c2": "holds"}
    assert {*verdicts("fig17", of_pairs(8.0, 0.0, fit=2.0)).values()} == {"not run"}


def test_effects_are_those_that_were_put_in():
    networks = ResultTables(of_pairs(8.0, 3.0))["matched-mlp-grid"]
    # at equal sharpness MLS differs by 0.13 / 0.12 of log S, of which SAM has 0.1 to 0.3
    weights = np.array([1, 2, 3]) * 0.1
    apart = 0.13 / 0.12 * weights
    expected = 8 * (apart**2).sum() / apart.sum()
    assert effect(networks, S, CORRUPTED).value == pytest.approx(expected, abs=0.1)
    apart = 0.13 / 0.25 * weights
    expected = -3 * (apart**2).sum() / apart.sum()
    assert effect(networks, MLS, "test_error").value == pytest.approx(-expected, abs=0.1)


def test_its_figure_has_networks_and_effects():
    frame = fig17.frame({}, ResultTables(of_pairs(8.0, 0.0)))
    assert (frame["row"] == "network").sum() == 2 * 48
    assert frame["row"].str.startswith("effect").sum() == 2 * 2 * 4
    drawn(fig17, frame)
