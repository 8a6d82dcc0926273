"""Quantities against other libraries: BackPACK's curvature and torch.func's derivatives."""

import numpy as np
import pytest
import torch
from torch import nn

WIDTHS = (6, 9, 8, 4)
SAMPLES = 15
EXACT = 1e-12

pytestmark = pytest.mark.parametrize(
    ("activation", "bias"), [("relu", True), ("relu", False), ("tanh", True), ("tanh", False)]
)


@pytest.fixture
def net(activation, bias, mlp, normal):
    return mlp(WIDTHS, seed=2, activation=activation, bias=bias), normal(SAMPLES, WIDTHS[0])


@pytest.fixture
def values(net, measured):
    return measured(*net)


def per_sample(function, x):
    """A function of one sample and all of its derivatives: (samples, ...)."""
    return torch.func.vmap(function)(x).detach().numpy()


def parts(model):
    """The network from the input of each linear layer on."""
    starts = [k for k, module in enumerate(model) if isinstance(module, nn.Linear)]
    return [(model[:start], model[start:]) for start in starts]


@pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")  # of BackPACK
@pytest.mark.parametrize("residual", [0.0, 3.0])
def test_sharpness_is_the_trace_of_the_gauss_newton_matrix_of_backpack(residual, net, values):
    """The generalized Gauss-Newton matrix of sum (f - y)^2 is 2 sum J^T J, at any residual."""
    from backpack import backpack, extend
    from backpack.extensions import DiagGGNExact

    model, x = net
    targets = model(x).detach() + residual
    model, loss = extend(model), extend(nn.MSELoss(reduction="sum"))
    with backpack(DiagGGNExact()):
        loss(model(x), targets).backward()
    diagonals = {
        name: float(parameter.diag_ggn_exact.sum()) / 2 / SAMPLES
        for name, parameter in model.named_parameters()
    }
    weights = [value for name, value in diagonals.items() if name.endswith("weight")]
    biases = [value for name, value in diagonals.items() if name.endswith("bias")]
    assert values["sharpness"] == pytest.approx(sum(diagonals.values()), rel=EXACT)
    assert values["sharpness_per_layer"] == pytest.approx(np.array(weights), rel=EXACT)
    assert values["bias_sharpness_per_layer"] == pytest.approx(
        np.array(biases or [0.0] * len(weights)), rel=EXACT
    )


def test_sharpness_is_the_mean_square_of_the_derivatives_of_torch_func(net, values):
    model, x = net
    parameters = dict(model.named_parameters())

    def gradients(sample):
        def outputs(parameters):
            return torch.func.functional_call(model, parameters, sample)

        rows = torch.func.jacrev(outputs)(parameters)
        return torch.cat([row.flatten(1) for row in rows.values()], 1)

    squares = (per_sample(gradients, x) ** 2).sum((1, 2))
    assert values["sharpness"] == pytest.approx(squares.mean(), rel=EXACT)


def test_sensitivities_are_the_spectral_norms_of_the_jacobians_of_torch_func(net, values):
    model, x = net
    for number, (before, after) in enumerate(parts(model)):
        jacobians = per_sample(torch.func.jacrev(after), before(x).detach())
        norms = np.linalg.norm(jacobians, 2, axis=(1, 2))
        assert values["mls_per_layer"][number] == pytest.approx(norms.mean(), rel=EXACT)


def test_volume_and_dimension_follow_from_the_gram_matrices_of_torch_func(net, values):
    """2 ln dVol = ln det(J J^T) and D = (Tr C)^2 / Tr C^2, C = J J^T."""
    model, x = net
    jacobians = per_sample(torch.func.jacrev(model), x)
    full = np.linalg.matrix_rank(jacobians) == WIDTHS[-1]
    gram = jacobians @ jacobians.transpose(0, 2, 1)
    volumes = np.linalg.slogdet(gram[full])[1] / 2
    assert values["samples_rank_deficient"] == (~full).sum()
    assert values["log_volume"] == pytest.approx(volumes.mean(), rel=1e-9)  # J J^T squares J
    traces = np.trace(gram, axis1=1, axis2=2), np.trace(gram @ gram, axis1=1, axis2=2)
    assert values["local_dimension"] == pytest.approx(
        (traces[0] ** 2 / traces[1]).mean(), rel=EXACT
    )


def test_relative_flatness_is_the_product_of_inputs_and_jacobians_of_torch_func(net, values):
    model, x = net
    for number, (before, after) in enumerate(parts(model)):
        inputs = before(x).detach()
        squares = (per_sample(torch.func.jacrev(after), inputs) ** 2).sum((1, 2))
        kappa = ((inputs.numpy() ** 2).sum(1) * squares).mean()
        assert values["relative_flatness"][number] == pytest.approx(kappa, rel=EXACT)


def test_relative_flatness_of_the_last_layer_is_a_hessian_of_torch_func(net, values, normal):
    """Sum over s, s' of <w_s, w_s'> Tr H_ss' for mean |f - y|^2 / 2, at any residual."""
    model, x = net
    features, targets = model[:-1](x).detach(), normal(SAMPLES, WIDTHS[-1], seed=9)
    head = model[-1]

    def loss(weight):
        outputs = nn.functional.linear(features, weight, head.bias)
        return (outputs - targets).square().sum(1).mean() / 2

    weight = head.weight.detach()
    hessian = torch.func.jacrev(torch.func.jacrev(loss))(weight).detach()
    kappa = torch.einsum("sa,ta,sbtb->", weight, weight, hessian)
    assert values["relative_flatness"][-1] == pytest.approx(float(kappa), rel=EXACT)
