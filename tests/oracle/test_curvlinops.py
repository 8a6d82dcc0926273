"""Eigenvalues and traces against the matrices of curvlinops."""

import pytest
import torch
from torch import nn

import flatlab

WIDTHS = (4, 6, 5, 3)  # 83 parameters
SAMPLES = 12
EXACT = 1e-10

curvlinops = pytest.importorskip("curvlinops")

# torch warns of itself when it first differentiates forward, which curvlinops does
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script")


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("kind", ["mse", "cross-entropy"])
def test_largest_eigenvalues_are_those_of_their_matrices(kind, activation, mlp, normal):
    """mean-mse is the mean over outputs and samples, as theirs."""
    model, x = mlp(WIDTHS, seed=5, activation=activation), normal(SAMPLES, WIDTHS[0])
    targets, loss = torch.arange(SAMPLES) % WIDTHS[-1], nn.CrossEntropyLoss(label_smoothing=0.3)
    options = {"loss": "cross-entropy", "label_smoothing": 0.3}
    if kind == "mse":
        targets, loss = normal(SAMPLES, WIDTHS[-1], seed=4), nn.MSELoss()
        options = {"loss": "mean-mse"}
    found = flatlab.measure(model, x, targets, families=["hessian"], **options)
    for variable, operator_class in (
        ("hessian_lambda_max", curvlinops.HessianLinearOperator),
        ("gauss_newton_lambda_max", curvlinops.GGNLinearOperator),
    ):
        operator = operator_class(model, loss, list(model.parameters()), [(x, targets)])
        matrix = (operator @ torch.eye(operator.shape[1], dtype=torch.float64)).detach()
        largest = torch.linalg.eigvalsh(matrix)[-1].item()
        assert found[variable].item() == pytest.approx(largest, rel=1e-4), variable
    if kind == "mse":  # 2 / N of the sharpness
        trace = WIDTHS[-1] / 2 * float(matrix.trace())
        assert flatlab.measure(model, x).sharpness.item() == pytest.approx(trace, rel=EXACT)
