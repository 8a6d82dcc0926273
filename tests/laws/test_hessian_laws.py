"""Sharpness is the trace of a Hessian, at any parameters and any targets, of |f - y|^2 / 2.

Where a network is piecewise linear, f has no second derivative in any one of its parameters; the
trace of the Hessian is then that of its Gauss-Newton part, however far f is from y.
"""

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import nn

from tests.laws.relations import law

EXACT = 1e-9


def hessian_diagonal(model, x, targets):
    """Of mean |f - y|^2 / 2, by differentiating twice with respect to every parameter."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    loss = (model(x) - targets).square().sum(1).mean() / 2
    gradients = torch.autograd.grad(loss, parameters, create_graph=True)
    flat = torch.cat([gradient.flatten() for gradient in gradients])

    def row(unit):
        rows = torch.autograd.grad(
            flat, parameters, unit, retain_graph=True, materialize_grads=True
        )
        return torch.cat([each.flatten() for each in rows])

    units = torch.eye(len(flat), dtype=flat.dtype)
    return torch.stack([unit @ row(unit) for unit in units]).numpy()


def check(model, x, data, normal, measured):
    """Tr H = S, and the sum of theta_j^2 H_jj is its adaptive version."""
    outputs = model(x).shape[1]
    distance = data.draw(st.sampled_from([0.0, 1.0, 100.0]))
    residuals = distance * normal(len(x), outputs, seed=data.draw(st.integers(0, 10**6)))
    diagonal = hessian_diagonal(model, x, model(x).detach() + residuals)
    parameters = nn.utils.parameters_to_vector(model.parameters()).detach().numpy()
    values = measured(model, x, costly=["elementwise-adaptive-trace"])
    # what cancels in the Hessian is as large as the residuals
    rounding = 1e-13 * (1 + distance) * (1 + np.abs(diagonal).sum())
    assert values["sharpness"] == pytest.approx(diagonal.sum(), rel=EXACT, abs=rounding)
    adaptive = diagonal @ parameters**2
    assert values["elementwise_adaptive_trace"] == pytest.approx(adaptive, rel=EXACT, abs=rounding)


class Residual(nn.Module):
    """x + conv(norm(conv(x))) between two convolutions, with max pooling and a linear head."""

    def __init__(self, channels, outputs):
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 2)
        self.norm = nn.BatchNorm2d(channels)
        self.first = nn.Conv2d(channels, 2, 3, padding=1, bias=False)
        self.inner = nn.BatchNorm2d(2)
        self.second = nn.Conv2d(2, channels, 1)
        self.head = nn.Linear(channels, outputs)

    def forward(self, x):
        x = self.norm(self.stem(x)).relu()
        x = x + self.second(self.inner(self.first(x)).relu())
        return self.head(x.relu().amax((2, 3)))


@pytest.mark.parametrize("kind", ["draw_network", "draw_convolutional"])
@law(25)
def test_sharpness_is_the_trace_of_the_hessian_of_linear_layers_convolutions_and_pooling(
    data, kind, request, normal, measured
):
    net = request.getfixturevalue(kind)(data, activations=["relu"])
    check(net.model, net.x, data, normal, measured)


@law(25)
def test_sharpness_is_the_trace_of_the_hessian_of_residual_networks_with_batch_norm(
    data, randomized, normal, measured
):
    """Batch norm in evaluation mode."""
    seed = data.draw(st.integers(0, 10**6))
    sizes = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    model = randomized(Residual(*sizes), seed)
    check(model, normal(3, 1, 4, 5, seed=seed), data, normal, measured)


@law(25)
def test_with_smooth_activations_the_trace_of_the_hessian_is_sharpness_at_zero_residual_alone(
    data, draw_network, normal, measured
):
    """The difference is linear in the residuals."""
    net = draw_network(data, activations=["tanh"], hidden=(1, 2))
    sharpness = measured(net.model, net.x, costly=[])["sharpness"]
    outputs = net.model(net.x).detach()
    residuals = normal(*outputs.shape, seed=data.draw(st.integers(0, 10**6)))
    traces = [
        hessian_diagonal(net.model, net.x, outputs - times * residuals).sum() for times in (0, 1, 2)
    ]
    assert traces[0] == pytest.approx(sharpness, rel=EXACT)
    once, twice = traces[1] - traces[0], traces[2] - traces[0]
    assert twice == pytest.approx(2 * once, rel=1e-6, abs=1e-9 * sharpness)
    assert abs(once) > 1e-9 * sharpness
