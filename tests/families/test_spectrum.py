"""Spectra against those of matrices that are written out."""

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab.derivatives.second_order import matrices
from flatlab.derivatives.second_order.hessian_products import empirical_fisher_product
from flatlab.losses import loss_of
from tests.networks.small_networks import LOSSES, small
from tests.networks.whole import matrices_of
from tests.refusals import refused

# torch warns of itself when it first differentiates forward, which torch.func does
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script")

MATRICES = ["hessian", "gauss-newton", "empirical-fisher"]


def dense(model, x, labels, **settings):
    """The matrices, by name."""
    settings = settings or {"loss": "cross-entropy"}
    return matrices_of(model, x, nn.functional.one_hot(labels).to(x), loss_of(settings))


def measured(model, x, labels, loss="cross-entropy", **options):
    options = {"residual": 1e-9, "matrices": MATRICES} | options
    return flatlab.measure(model, x, labels, families="spectrum", loss=loss, **options)


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("name", "kind"),
    [("mlp-tanh", "cross-entropy"), ("lenet", "mean-mse"), ("simple-vit", "smoothed")],
)
def test_eigenvalues_and_vectors_are_those_of_the_matrices(name, kind):
    model, x, labels = small(name)
    settings = dict(LOSSES[kind])
    found = measured(model, x, labels, largest=6, smallest=4, eigenvectors=True, **settings)
    for matrix, whole in dense(model, x, labels, **settings).items():
        values = torch.linalg.eigvalsh(whole).numpy()
        here = found.sel(block="network", matrix=matrix)
        close = {"abs": 1e-8 * np.abs(values).max()}
        assert here.largest_eigenvalue.values == pytest.approx(values[::-1][:6], **close)
        assert here.smallest_eigenvalue.values == pytest.approx(values[:4], **close)
        assert here.largest_converged.values.all()
        for end in ("largest", "smallest"):
            vectors = here[f"{end}_eigenvector"].values
            assert vectors @ vectors.T == pytest.approx(np.eye(len(vectors)), abs=1e-10)
            rest = vectors @ whole.numpy() - here[f"{end}_eigenvalue"].values[:, None] * vectors
            residuals = np.linalg.norm(rest, axis=1)
            assert here[f"{end}_residual"].values == pytest.approx(residuals, **close)


@pytest.mark.parametrize("blocks", ["layers", ["fc1", "network", "*.bias"]])
def test_blocks_are_those_of_the_matrix(blocks):
    model, x, labels = small("mlp-tanh")
    found = measured(model, x, labels, blocks=blocks, largest=3, eigenvectors=True)
    names = dict(model.named_parameters())
    inside = {
        "network": list(names),
        "*.bias": [n for n in names if n.endswith("bias")],
        **{layer: [f"{layer}.weight", f"{layer}.bias"] for layer in ("fc1", "fc2", "fc3")},
    }
    expected = ["fc1", "fc2", "fc3"] if blocks == "layers" else blocks
    assert found.block.values.tolist() == expected
    every = dense(model, x, labels)
    for block in expected:
        flags = [n in inside[block] for n, p in names.items() for _ in range(p.numel())]
        for matrix, whole in every.items():
            values = torch.linalg.eigvalsh(whole[flags][:, flags]).numpy()[::-1][:3]
            here = found.sel(block=block, matrix=matrix)
            assert here.largest_eigenvalue.values == pytest.approx(values, abs=1e-8 * values[0])
            assert not here.largest_eigenvector.values[:, ~np.array(flags)].any()
            assert np.linalg.norm(here.largest_eigenvector.values, axis=1) == pytest.approx(1)


def test_an_eigenvalue_comes_as_often_as_it_occurs():
    """The Hessian of a linear network has one copy of mean x x^T for each output."""
    model, x = nn.Linear(4, 5, bias=False).double(), torch.randn(9, 4, dtype=torch.float64)
    found = measured(model, x, torch.zeros(9, 5).double(), loss="half-mse", largest=20)
    values = torch.linalg.eigvalsh(x.mT @ x / 9).flip(0).repeat_interleave(5).numpy()
    here = found.largest_eigenvalue.sel(block="network", matrix="gauss-newton")
    assert here.values == pytest.approx(values, rel=1e-9)
    few = measured(model, x, torch.zeros(9, 5).double(), loss="half-mse", largest=7)
    here = few.largest_eigenvalue.sel(block="network", matrix="hessian")
    assert here.values == pytest.approx(values[:7], rel=1e-9)


def test_batch_norm_with_the_statistics_of_all_samples():
    model, x, labels = small("vgg")
    train = measured(model, x, labels, largest=4, batch_norm="train", matrices=["hessian"])
    model.train()
    matrix = dense(model, x, labels)["hessian"]
    values = torch.linalg.eigvalsh(matrix).numpy()[::-1][:4]
    assert train.largest_eigenvalue.values.flatten() == pytest.approx(values, rel=1e-7)


def test_density_and_trace():
    matrix = "hessian"
    model, x, labels = small("mlp-tanh")
    options = {"density_probes": 10, "density_steps": 200, "density_width": 0.05, "largest": 0}
    found = measured(model, x, labels, matrices=[matrix], **options).isel(block=0, matrix=0)
    whole = dense(model, x, labels)[matrix]
    values = torch.linalg.eigvalsh(whole).numpy()
    at, width = found.density_at.values, float(found.density_width)
    kernels = np.exp(-0.5 * ((at[:, None] - values) / width) ** 2) / (width * np.sqrt(2 * np.pi))
    distance = np.abs(found.spectral_density.values - kernels.mean(1))
    large = found.spectral_density_error.values > 1e-3 * kernels.mean(1).max()
    assert large.sum() > 20
    assert (distance[large] / found.spectral_density_error.values[large] < 5).all()
    assert np.trapezoid(found.spectral_density.values, at) == pytest.approx(1, abs=1e-3)
    assert abs(float(found.spectral_trace) - values.sum()) < 4 * float(found.spectral_trace_error)
    mean = np.trapezoid(at * found.spectral_density.values, at)
    assert mean * len(values) == pytest.approx(float(found.spectral_trace), rel=1e-3)


def test_fisher_is_gauss_newton_of_a_likelihood_and_refused_otherwise():
    model, x, labels = small("mlp-relu")
    found = measured(model, x, labels, matrices=["fisher", "gauss-newton"])
    fisher, gauss_newton = found.largest_eigenvalue.values[0]
    assert np.array_equal(fisher, gauss_newton)
    how = {"loss": "mean-mse", "matrices": ["fisher"]}
    refused("not a negative log-likelihood", measured, model, x, labels, **how)


def test_blocks_with_fewer_parameters_than_eigenvalues_and_requests_for_nothing():
    model, x, labels = small("mlp-relu")
    found = measured(model, x, labels, blocks=["fc3.bias"], largest=5, matrices=["hessian"])
    assert found.largest_eigenvalue.isnull().values.flatten().tolist() == [False] * 3 + [True] * 2
    refused("are all 0", measured, model, x, labels, largest=0)
    refused("fc9", measured, model, x, labels, blocks=["fc9"])


def test_differences_stand_in_for_second_derivatives_of_the_empirical_fisher():
    model, x, labels = small("mlp-tanh")
    y, loss = nn.functional.one_hot(labels, 3).double(), loss_of({"loss": "cross-entropy"})
    vector = torch.randn(sum(p.numel() for p in model.parameters()), dtype=torch.float64)
    given = model, [(x[:4], y[:4]), (x[4:], y[4:])], loss
    exact, near = (empirical_fisher_product(*given, step)(vector) for step in (None, 1e-5))
    assert (near - exact).norm() < 1e-6 * exact.norm()
    assert matrices.PRODUCTS["empirical-fisher"] is empirical_fisher_product


def test_a_cheap_second_pass_that_is_wrong_is_not_used(monkeypatch):
    model, x, labels = small("lenet")
    right = measured(model, x, labels, largest=2)
    made = matrices.with_second_pass

    def doubled(make, linear):
        product = made(make, linear)
        return lambda vector: 2 * product(vector)

    monkeypatch.setattr(matrices, "with_second_pass", doubled)
    ours = measured(model, x, labels, largest=2)
    assert ours.largest_eigenvalue.values == pytest.approx(right.largest_eigenvalue.values)
