"""Matrices of few rows against those that are written out, and where they are used."""

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab.derivatives import matrices
from flatlab.derivatives import sample_gradients as of_samples
from flatlab.losses import _positions, loss_of
from tests.networks.small_networks import LOSSES, small, targets_for

MATRICES = ["empirical-fisher", "gauss-newton"]


def written_out(name, model, batches, loss):
    """The matrix by its products with all unit vectors, by torch's own second pass."""
    product = matrices.PRODUCTS[name](model, batches, loss, None)
    count = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return torch.stack([product(unit) for unit in torch.eye(count, dtype=torch.float64)])


def agree(name, model, batches, loss):
    expected = written_out(name, model, batches, loss)
    rows = of_samples.gradient_rows(name, model, batches, loss)
    assert expected.norm() > 0
    assert (rows.mT @ rows - expected).norm() <= 1e-10 * expected.norm()
    return rows


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("name", ["mlp-tanh", "lenet", "vgg", "resnet"])
def test_rows_are_those_of_the_matrix_whole_in_batches_and_in_part(name, matrix):
    model, x, labels = small(name)
    loss, y = loss_of(LOSSES["cross-entropy"]), targets_for("cross-entropy", labels)
    rows = agree(matrix, model, [(x, y)], loss)
    # Cross-entropy of three classes is curved in two directions.
    assert len(rows) == len(x) * (1 if matrix == "empirical-fisher" else 2)
    agree(matrix, model, [(x[:4], y[:4]), (x[4:], y[4:])], loss)
    for number, parameter in enumerate(model.parameters()):
        parameter.requires_grad_(number % 2 == 1)
    agree(matrix, model, [(x, y)], loss)


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("kind", LOSSES)
def test_rows_of_every_loss(kind, matrix):
    model, x, labels = small("mlp-tanh")
    agree(matrix, model, [(x, targets_for(kind, labels))], loss_of(LOSSES[kind]))


@pytest.mark.parametrize("matrix", MATRICES)
def test_rows_of_positions_of_which_some_have_no_target(matrix):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2), nn.Flatten()).double()
    x = torch.randn(6, 3, 4, dtype=torch.float64)
    y = torch.eye(2, dtype=torch.float64)[torch.randint(2, (6, 3))]
    y[0, 1], y[3] = torch.nan, torch.nan
    loss = _positions.Loss(loss_of(LOSSES["cross-entropy"]), 2, 2.2)
    rows = agree(matrix, model, [(x, y.flatten(1))], loss)
    assert rows.norm() > 0


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_eigenvalues_are_those_of_the_matrix_each_as_often_as_it_occurs(precision):
    values = torch.tensor([5.0, 5, 5, 3, 3, 1, 0.5], dtype=torch.float64)
    left = torch.linalg.qr(torch.randn(7, 7, dtype=torch.float64))[0]
    right = torch.linalg.qr(torch.randn(40, 7, dtype=torch.float64))[0]
    rows = (left * values.sqrt()) @ right.mT
    pairs = of_samples.largest_of_rows(rows.to(precision), 6, 1e-4)
    eps = torch.finfo(precision).eps
    assert pairs.values == pytest.approx(values[:6].numpy(), rel=100 * eps)
    assert pairs.converged.all()
    assert pairs.products == 0
    vectors = pairs.vectors.double()
    assert (vectors @ vectors.mT - torch.eye(6)).abs().max() < 200 * eps
    rest = vectors @ rows.mT @ rows - torch.from_numpy(pairs.values)[:, None] * vectors
    assert np.abs(rest.norm(dim=1).numpy() - pairs.residuals).max() < 500 * eps


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_rows_that_are_too_few_or_dependent_are_left_to_lanczos(precision):
    rows = torch.randn(3, 40).to(precision)
    assert of_samples.largest_of_rows(rows, 4, 1e-4) is None
    dependent = torch.cat([rows, rows @ torch.ones(40, 40).to(rows)])
    assert of_samples.largest_of_rows(dependent, 5, 1e-4) is None
    whole = matrices.Matrix(of_samples.product_of_rows(dependent), dependent)
    pairs = whole.eigenvalues(torch.randn(40).to(precision), 5)
    expected = torch.linalg.eigvalsh(dependent.double().mT @ dependent.double()).flip(0)[:5]
    assert pairs.values == pytest.approx(expected.numpy(), abs=1e-5 * float(expected[0]))


def test_rows_are_used_where_they_are_few():
    loss = loss_of(LOSSES["cross-entropy"])
    model = nn.Sequential(nn.Linear(8, 2))
    images = nn.Sequential(nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    few, many = torch.zeros(10, 8), torch.zeros(1000, 8)

    def are_few(matrix, network, x):
        return of_samples.are_few(matrix, network, [(x, torch.zeros(len(x), 2))], loss)

    assert are_few("empirical-fisher", model, few)
    assert are_few("gauss-newton", model, few)
    assert not are_few("hessian", model, few)
    assert not are_few("empirical-fisher", model, many)
    assert are_few("empirical-fisher", images, torch.zeros(1000, 1, 16, 16))


@pytest.mark.parametrize("matrix", MATRICES)
def test_a_regression_with_one_output_needs_no_products(matrix):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1)).double()
    x, y = torch.randn(2, 12, 4, dtype=torch.float64), torch.randn(2, 12, 1, dtype=torch.float64)
    options = {"families": "spectrum", "loss": "half-mse", "matrices": [matrix], "largest": 5}
    found = flatlab.measure(model, x[0], y[0], residual=1e-9, **options).isel(block=0, matrix=0)
    expected = written_out(matrix, model, [(x[0], y[0])], loss_of({"loss": "half-mse"}))
    values = torch.linalg.eigvalsh(expected).flip(0)[:5].numpy()
    assert found.largest_eigenvalue.values == pytest.approx(values, rel=1e-9)
    assert found.eigenvalue_products == 0


class Branching(nn.Module):
    """Torch cannot vectorize it: a sample decides how it is mapped."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2).double()

    def forward(self, x):
        return self.layer(x if float(x.detach().sum()) > -1e9 else -x)


class Mixing(nn.Module):
    """A sample is seen beside the others."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2).double()

    def forward(self, x):
        return self.layer(x - x.mean(0)).sin()


@pytest.mark.parametrize("network", [Branching, Mixing])
def test_products_stand_in_for_rows_that_cannot_be_had_or_are_wrong(network):
    torch.manual_seed(0)
    model, x = network(), torch.randn(6, 4, dtype=torch.float64)
    batches, loss = (
        [(x, torch.eye(2, dtype=torch.float64)[[0, 1] * 3])],
        loss_of(LOSSES["half-mse"]),
    )
    chosen = matrices.matrix_of("empirical-fisher", model, batches, loss)
    assert chosen.rows is None
    expected = written_out("empirical-fisher", model, batches, loss)
    vector = torch.randn(10, dtype=torch.float64)
    assert torch.allclose(chosen.product(vector), expected @ vector, rtol=1e-10)


class Viewing(nn.Module):
    """A view of its convolution takes channels in their usual order alone."""

    def __init__(self):
        super().__init__()
        self.convolution, self.layer = nn.Conv2d(2, 4, 3).double(), nn.Linear(64, 3).double()

    def forward(self, x):
        return self.layer(self.convolution(x).tanh().view(len(x), -1))


@pytest.mark.parametrize("name", ["hessian", "gauss-newton"])
@pytest.mark.parametrize("network", ["resnet", "preact-resnet", "vgg", "view"])
def test_the_order_of_channels_does_not_matter(network, name):
    if network == "view":
        model, x, labels = (
            Viewing(),
            torch.randn(9, 2, 6, 6, dtype=torch.float64),
            torch.arange(9) % 3,
        )
    else:
        model, x, labels = small(network)
    batches = [(x, nn.functional.one_hot(labels, 3).double())]
    loss = loss_of(LOSSES["cross-entropy"])
    product = matrices.matrix_of(name, model, batches, loss).product
    plain = matrices.PRODUCTS[name](model, batches, loss, None)
    vector = torch.randn(sum(p.numel() for p in model.parameters()), dtype=torch.float64)
    assert (product(vector) - plain(vector)).norm() <= 1e-11 * plain(vector).norm()
