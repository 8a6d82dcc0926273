"""Products and rows of matrices, by the cheap second pass and in the memory that there is."""

from itertools import cycle

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab.derivatives.per_sample.memory import held_while
from flatlab.derivatives.second_order import matrices
from flatlab.derivatives.second_order.second_pass import SecondPass, with_second_pass
from flatlab.inputs.loss_forms import OfPositions
from flatlab.losses import loss_of
from tests.networks.small_networks import LOSSES, small, targets_for
from tests.networks.written import Written

CONVOLUTIONS = {
    "plain": nn.Conv2d(2, 4, 3),
    "without bias": nn.Conv2d(2, 4, 3, bias=False),
    "stride and padding": nn.Conv2d(2, 4, 3, stride=2, padding=(1, 2)),
    "dilation and groups": nn.Conv2d(2, 4, (3, 2), dilation=2, groups=2),
    "circular": nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular"),
    "same": nn.Conv2d(2, 4, 3, padding="same"),
    "transposed": nn.ConvTranspose2d(2, 4, 3),
    "one axis": nn.Sequential(nn.Flatten(2), nn.Conv1d(2, 4, 5, stride=3), nn.Unflatten(2, (4, 5))),
    "three axes": nn.Sequential(nn.Unflatten(1, (1, 2)), nn.Conv3d(1, 4, 2), nn.Flatten(2, 3)),
}
NORMS = {
    "none": nn.Identity,
    "norm": lambda: nn.BatchNorm2d(4),
    "without weights": lambda: nn.BatchNorm2d(4, affine=False),
    "after an activation": lambda: nn.Sequential(nn.Tanh(), nn.BatchNorm2d(4)),
    "written over": lambda: nn.Sequential(nn.ELU(inplace=True), nn.BatchNorm2d(4)),
    "of the batch": lambda: nn.BatchNorm2d(4, track_running_stats=False),
}


def convolutional(convolution, norm):
    torch.manual_seed(0)
    last = nn.LazyConv2d(3, 2), nn.BatchNorm2d(3), nn.Tanh(), nn.AdaptiveAvgPool2d(2)
    model = nn.Sequential(CONVOLUTIONS[convolution], NORMS[norm](), nn.Tanh(), *last, nn.Flatten())
    model.append(nn.Linear(12, 3))
    return randomized(model.double(), (5, 2, 8, 8))


def randomized(model, shape):
    x = torch.randn(shape, dtype=torch.float64)
    model(x)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d) and module.track_running_stats:
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            if module.affine:
                nn.init.normal_(module.weight)
                nn.init.normal_(module.bias)
    return model.eval(), x


def agree(model, x, batches=1):
    loss = loss_of({"loss": "cross-entropy"})
    y = torch.eye(3, dtype=torch.float64)[torch.arange(len(x)) % 3]
    parts = list(zip(x.chunk(batches), y.chunk(batches), strict=True))
    theta = [p for p in model.parameters() if p.requires_grad]
    vector = torch.randn(sum(p.numel() for p in theta), dtype=torch.float64)
    for matrix, product in matrices.PRODUCTS.items():
        plain = product(model, parts, loss)(vector)
        cheap = with_second_pass(lambda: product(model, parts, loss), matrix != "hessian")  # noqa: B023
        for _ in range(2):
            assert (cheap(vector) - plain).norm() <= 1e-12 * plain.norm(), matrix
        assert plain.norm() > 0


@pytest.mark.parametrize(
    ("convolution", "norm"),
    [*zip(CONVOLUTIONS, cycle(NORMS)), *(("plain", norm) for norm in [*NORMS][1:])],
)
def test_products_are_those_of_torch(convolution, norm):
    agree(*convolutional(convolution, norm))


@pytest.mark.first(2)
@pytest.mark.parametrize("name", ["lenet", "vgg", "resnet", "preact-resnet", "simple-vit"])
def test_products_of_architectures_whole_in_batches_and_in_part(name):
    model, x, _ = small(name)
    agree(model, x)
    agree(model, x, batches=2)
    for number, parameter in enumerate(model.parameters()):
        parameter.requires_grad_(number % 2 == 1)
    agree(model, x)


def reused(written):
    """The output of a convolution goes elsewhere, too; its input or its output is written to."""

    def call(net, x):
        output = net.first(image := x.clone())
        if written == "output":
            output.tanh_()
        elif written == "input":
            with torch.no_grad():
                image.mul_(2)
        return net.last((net.norm(output).tanh() * output.sin()).mean((2, 3)))

    parts = {"first": nn.Conv2d(2, 4, 3), "norm": nn.BatchNorm2d(4), "last": nn.Linear(4, 3)}
    return randomized(Written(call, **parts).double(), (5, 2, 8, 8))


def test_an_output_that_is_used_twice_or_written_to():
    torch.manual_seed(0)
    for written in ("", "output"):
        agree(*reused(written))
    model, x = reused("input")
    with torch.no_grad():
        plain = model(x)
        for linear in (True, False):
            with SecondPass(linear):
                assert torch.allclose(model(x), plain, rtol=1e-12, atol=0)


def test_nothing_is_left_behind():
    model, x = convolutional("plain", "norm")
    before = model(x)
    with SecondPass(linear=True):
        inside = model(x)
    assert torch.allclose(inside, before, rtol=1e-12)
    assert torch.equal(model(x), before)
    assert "_Convolution" not in str(model[0](x).grad_fn)


MATRICES = ["empirical-fisher", "gauss-newton"]


def written_out(name, model, batches, loss):
    """The matrix by its products with all unit vectors, by torch's own second pass."""
    product = matrices.PRODUCTS[name](model, batches, loss, None)
    count = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return torch.stack([product(unit) for unit in torch.eye(count, dtype=torch.float64)])


def rows_agree(name, model, batches, loss):
    product = matrices.PRODUCTS[name](model, batches, loss, None)
    rows = matrices.gradient_rows(name, model, batches, loss)
    for vector in torch.randn(3, rows.shape[1], dtype=torch.float64):
        expected = product(vector)
        assert expected.norm() > 0
        assert (rows.mT @ (rows @ vector) - expected).norm() <= 1e-10 * expected.norm()
    return rows


@pytest.mark.first(2)
@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("name", ["lenet", "vgg", "resnet"])
def test_rows_are_those_of_the_matrix_whole_in_batches_and_in_part(name, matrix):
    model, x, labels = small(name)
    loss, y = loss_of(LOSSES["cross-entropy"]), targets_for("cross-entropy", labels)
    rows = rows_agree(matrix, model, [(x, y)], loss)
    # Cross-entropy of three classes is curved in two directions.
    assert len(rows) == len(x) * (1 if matrix == "empirical-fisher" else 2)
    rows_agree(matrix, model, [(x[:4], y[:4]), (x[4:], y[4:])], loss)
    for number, parameter in enumerate(model.parameters()):
        parameter.requires_grad_(number % 2 == 1)
    rows_agree(matrix, model, [(x, y)], loss)


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("kind", LOSSES)
def test_rows_of_every_loss(kind, matrix):
    model, x, labels = small("mlp-tanh")
    rows_agree(matrix, model, [(x, targets_for(kind, labels))], loss_of(LOSSES[kind]))


@pytest.mark.parametrize("matrix", MATRICES)
def test_rows_of_positions_of_which_some_have_no_target(matrix):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2), nn.Flatten()).double()
    x = torch.randn(6, 3, 4, dtype=torch.float64)
    y = torch.eye(2, dtype=torch.float64)[torch.randint(2, (6, 3))]
    y[0, 1], y[3] = torch.nan, torch.nan
    loss = OfPositions(loss_of(LOSSES["cross-entropy"]), 2, 2.2)
    rows = rows_agree(matrix, model, [(x, y.flatten(1))], loss)
    assert rows.norm() > 0


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_eigenvalues_are_those_of_the_matrix_each_as_often_as_it_occurs(precision):
    values = torch.tensor([5.0, 5, 5, 3, 3, 1, 0.5], dtype=torch.float64)
    left = torch.linalg.qr(torch.randn(7, 7, dtype=torch.float64))[0]
    right = torch.linalg.qr(torch.randn(40, 7, dtype=torch.float64))[0]
    rows = (left * values.sqrt()) @ right.mT
    pairs = matrices.largest_of_rows(rows.to(precision), 6, 1e-4)
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
    assert matrices.largest_of_rows(rows, 4, 1e-4) is None
    dependent = torch.cat([rows, rows @ torch.ones(40, 40).to(rows)])
    assert matrices.largest_of_rows(dependent, 5, 1e-4) is None
    whole = matrices.Matrix(matrices.product_of_rows(dependent), dependent)
    pairs = whole.eigenvalues(torch.randn(40).to(precision), 5)
    expected = torch.linalg.eigvalsh(dependent.double().mT @ dependent.double()).flip(0)[:5]
    assert pairs.values == pytest.approx(expected.numpy(), abs=1e-5 * float(expected[0]))


def test_rows_are_used_where_they_are_few():
    loss = loss_of(LOSSES["cross-entropy"])
    model = nn.Sequential(nn.Linear(8, 2))
    images = nn.Sequential(nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    few, many = torch.zeros(10, 8), torch.zeros(1000, 8)

    def are_few(matrix, network, x):
        return matrices.are_few(matrix, network, [(x, torch.zeros(len(x), 2))], loss)

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


UNLIKE_OTHERS = [
    lambda net, x: net.layer(x if float(x.detach().sum()) > -1e9 else -x),  # nothing to vectorize
    lambda net, x: net.layer(x - x.mean(0)).sin(),  # a sample is seen beside the others
]


@pytest.mark.parametrize("network", UNLIKE_OTHERS)
def test_products_stand_in_for_rows_that_cannot_be_had_or_are_wrong(network):
    torch.manual_seed(0)
    model = Written(network, layer=nn.Linear(4, 2).double())
    x = torch.randn(6, 4, dtype=torch.float64)
    batches, loss = [(x, torch.eye(2).double()[[0, 1] * 3])], loss_of(LOSSES["half-mse"])
    chosen = matrices.matrix_of("empirical-fisher", model, batches, loss)
    assert chosen.rows is None
    expected = written_out("empirical-fisher", model, batches, loss)
    vector = torch.randn(10, dtype=torch.float64)
    assert torch.allclose(chosen.product(vector), expected @ vector, rtol=1e-10)


@pytest.mark.parametrize("name", ["hessian", "gauss-newton"])
def test_a_view_that_takes_channels_in_their_usual_order_alone(name):
    x = torch.randn(9, 2, 6, 6, dtype=torch.float64)
    parts = {"convolution": nn.Conv2d(2, 4, 3).double(), "layer": nn.Linear(64, 3).double()}
    viewing = lambda net, x: net.layer(net.convolution(x).tanh().view(len(x), -1))  # noqa: E731
    model, loss = Written(viewing, **parts), loss_of(LOSSES["cross-entropy"])
    batches = [(x, torch.eye(3, dtype=torch.float64)[torch.arange(9) % 3])]
    product = matrices.matrix_of(name, model, batches, loss).product
    plain = matrices.PRODUCTS[name](model, batches, loss, None)
    vector = torch.randn(sum(p.numel() for p in model.parameters()), dtype=torch.float64)
    assert (product(vector) - plain(vector)).norm() <= 1e-11 * plain(vector).norm()


@pytest.fixture
def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 3)).double()


def test_what_autograd_keeps_is_counted_once(network):
    x = torch.randn(50, 20, dtype=torch.float64)
    kept = held_while(lambda: network[1](network[0](x)))
    # The input of the first layer and its weight, and the output of tanh.
    assert 8 * 50 * (20 + 30) <= kept <= 8 * (50 * (20 + 30) + 20 * 30)
    assert held_while(lambda: None) == 0


RADII = {"average-standard-l2": [0.1], "worst-standard-linf": [0.001]}
FITTING = {  # families, their options, and what does not depend on how many samples fit
    "hessian": ({}, ["hessian_lambda_max", "gauss_newton_lambda_max"]),
    "sharpness": ({"sharpness_radii": RADII}, ["sharpness_at_radius"]),
    "spectrum": ({}, ["largest_eigenvalue"]),
}


@pytest.mark.first(2)
@pytest.mark.parametrize("family", FITTING)
def test_as_many_samples_are_evaluated_at_once_as_fit(network, family):
    (options, names), sizes = FITTING[family], []
    x, y = torch.randn(40, 20, dtype=torch.float64), torch.arange(40) % 3
    network[0].register_forward_hook(lambda module, given, f: sizes.append(len(given[0])))

    def measured(**how):
        sizes.clear()
        how |= {"families": family, "loss": "cross-entropy", **options}
        return flatlab.measure(network, x, y, **how), max(sizes)

    (whole, all_samples), (blocks, some) = measured(), measured(memory=20_000)
    assert all_samples == 40 > some > 4
    for name in names:
        assert blocks[name].values == pytest.approx(whole[name].values, rel=1e-7, nan_ok=True)
    assert measured(memory=100_000, batch_size=25)[1] == 25
