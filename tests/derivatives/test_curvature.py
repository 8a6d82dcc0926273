"""Largest eigenvalues of the Hessian and of the Gauss-Newton matrix against the whole matrices."""

import copy

import numpy as np
import pytest
import torch
import xarray as xr
from torch import nn

import flatlab
from flatlab.derivatives.second_order.hessian_products import (
    gauss_newton_product,
    hessian_product,
    trainable,
)
from flatlab.derivatives.second_order.lanczos import RESIDUAL
from flatlab.families.hessian import Options, measure
from flatlab.lab.train import train_packs
from flatlab.losses import loss_of
from flatlab.measuring.grid import measure_pack
from flatlab.measuring.quantity import SampleSet, Settings
from tests.lab.train.packs import images, settings
from tests.networks.small_networks import LOSSES
from tests.networks.whole import matrices_of
from tests.networks.written import Written
from tests.synthetic.packs import asked, of_split

# torch warns of itself when it first differentiates forward, which torch.func.hessian does
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script")

WIDTHS = (4, 6, 5, 3)  # 83 parameters
SAMPLES = 9


def matrices(model, inputs, targets, loss):
    found = matrices_of(model, inputs, targets, loss_of(loss))
    return {"hessian": found["hessian"], "gauss_newton": found["gauss-newton"]}


def check_largest(found, model, inputs, targets, loss):
    """The eigenvalues of a report are the largest of the whole matrices."""
    for name, matrix in matrices(model, inputs, targets, loss).items():
        largest = torch.linalg.eigvalsh(matrix)[-1].item()
        assert found[f"{name}_lambda_max"].item() == pytest.approx(largest, rel=RESIDUAL)
        assert found[f"{name}_residual"].item() <= RESIDUAL
        assert found[f"{name}_converged"].item() == 1


@pytest.fixture(params=sorted(LOSSES.keys() - {"logistic"}))
def loss(request):
    return LOSSES[request.param]


def one_hot(count=SAMPLES, width=WIDTHS[-1]):
    return nn.functional.one_hot(torch.arange(count) % width, width).double()


@pytest.mark.first(4)
@pytest.mark.parametrize(("activation", "sizes"), [("relu", [SAMPLES]), ("tanh", [4, 4, 1])])
def test_products_are_those_of_the_whole_matrices(activation, sizes, loss, mlp, normal):
    """Also in batches of different sizes, each of which weighs as much as it has samples."""
    model, x = mlp(WIDTHS, seed=2, activation=activation), normal(SAMPLES, WIDTHS[0])
    batches = list(zip(x.split(sizes), one_hot().split(sizes), strict=True))
    both = matrices(model, x, one_hot(), loss)
    for name, product in (("hessian", hessian_product), ("gauss_newton", gauss_newton_product)):
        apply, matrix = product(model, batches, loss_of(loss)), both[name]
        for vector in normal(3, len(matrix)):
            torch.testing.assert_close(apply(vector), matrix @ vector, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_eigenvalues_are_the_largest_of_the_whole_matrices(activation, loss, mlp, normal):
    model, x = mlp(WIDTHS, seed=4, activation=activation), normal(SAMPLES, WIDTHS[0])
    found = flatlab.measure(model, x, one_hot(), families=["hessian"], **loss)
    check_largest(found, model, x, one_hot(), loss)


def of_the_batch(norm):
    """Batch norm in training mode, written out: torch.func differentiates the built-in one wrongly.

    Its Hessian is not even symmetric.
    """

    def normalized(net, x):
        centred = x - x.mean(0)
        scale = (centred.square().mean(0) + norm.eps).sqrt()
        return centred / scale * net.weight + net.bias

    return Written(normalized, weight=norm.weight, bias=norm.bias)


@pytest.mark.first(1)
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_batch_norm_is_that_of_the_samples_or_the_running_one_as_asked(mode, normal):
    """With all samples as one batch, whatever batch_size says; the network stays as it was."""
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)).double()
    model(normal(SAMPLES, 4, seed=8))  # running statistics of other samples
    model.eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    x = normal(SAMPLES, 4)
    how = {"families": "hessian", "batch_norm": mode, "batch_size": 4}
    found = flatlab.measure(model, x, one_hot(), **how)
    assert not any(module.training for module in model.modules())
    assert all(torch.equal(before[n], tensor) for n, tensor in model.state_dict().items())
    if mode == "train":
        model[1] = of_the_batch(model[1])
    check_largest(found, model, x, one_hot(), LOSSES["half-mse"])


def test_frozen_and_unused_parameters_are_no_part_of_it(mlp, normal):
    model, x = mlp(WIDTHS, seed=4), normal(SAMPLES, WIDTHS[0])
    model[0].weight.requires_grad_(False)
    with_unused = copy.deepcopy(model)
    with_unused.spare = nn.Parameter(torch.ones(2, dtype=torch.float64))
    assert len(trainable(with_unused)) == 6
    found = flatlab.measure(with_unused, x, one_hot(), families=["hessian"])
    check_largest(found, model, x, one_hot(), LOSSES["half-mse"])


def test_a_warm_start_saves_products_and_changes_no_eigenvalue(mlp, normal):
    """Of the checkpoints of a training, in their order; each run starts anew."""
    model, x = mlp((4, 30, 30, 3), seed=4), normal(40, 4)
    samples = SampleSet(x, one_hot(40))
    memory, found = {}, {True: [], False: []}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(8):
        for warm in found:
            options = Options(warm_start=warm)
            settings = Settings(options, loss_of(LOSSES["half-mse"]), memory=memory)
            found[warm].append(measure(model, samples, settings).values)
        optimizer.zero_grad()
        (model(x) - one_hot(40)).square().sum(1).mean().backward()
        optimizer.step()
    assert not {*memory} - {"hessian", "gauss-newton"}
    for name in ("hessian", "gauss_newton"):
        warm, cold = (
            np.array([each[f"{name}_lambda_max"] for each in found[way]]) for way in (True, False)
        )
        np.testing.assert_allclose(warm, cold, rtol=2 * RESIDUAL)
        assert all(each[f"{name}_residual"] <= RESIDUAL for each in found[True])
    warm, cold = (sum(e["hessian_products"] for e in found[way][1:]) for way in (True, False))
    assert warm < cold


@pytest.mark.parametrize("largest", [1.01, 1.1, 3.0])
def test_a_warm_start_finds_an_eigenvalue_that_has_overtaken_the_largest(largest):
    """At the eigenvector of the one that was largest, whose product has nothing of the new one."""
    model = torch.nn.Linear(50, 1, bias=False).double()
    values = torch.linspace(0.1, 0.5, 50, dtype=torch.float64)
    values[0], values[1] = 1.0, largest
    samples = SampleSet(torch.diag((50 * values).sqrt()), torch.zeros(50, 1).double())
    memory = {"hessian": torch.eye(50, dtype=torch.float64)[0]}
    settings = Settings(Options(warm_start=True), loss_of(LOSSES["half-mse"]), memory=memory)
    found = measure(model, samples, settings).values
    assert found["hessian_lambda_max"] == pytest.approx(largest, rel=RESIDUAL)


@pytest.mark.more
def test_a_grid_measures_with_warm_starts():
    """The memory is that of one run and one sample set."""
    raw = images((8, 8))
    given = settings("mlp", mode="batched", checkpoints=[0, 20, 40], iterations=60)
    [trained] = train_packs(raw, [given])
    sets = {name: of_split(name, 6) for name in ("train", "test")}
    same = {key: given[key] for key in ("data", "outputs", "seeds")}

    def measured(warm):
        options = {"curvature": "all", "batch_norm": "eval", "warm_start": warm}
        job = asked("hessian", given["network"], samples=sets, options={"hessian": options}, **same)
        return measure_pack([trained.weights, trained.dense], raw, job)

    warm, cold = measured(True), measured(False)
    np.testing.assert_allclose(warm.hessian_lambda_max, cold.hessian_lambda_max, rtol=2 * RESIDUAL)
    assert warm.hessian_products.values.sum() < cold.hessian_products.values.sum()
    first = {"checkpoint": 0}
    xr.testing.assert_identical(warm.isel(first), cold.isel(first))
