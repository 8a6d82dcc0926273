"""Relative flatness over the standard deviation of the features: against the closed form."""

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab.simulations import _ridge as features

WIDTHS = (4, 6, 5, 3)


def flatness(model, x, **options):
    return flatlab.measure(model, x, families=["flatness"], **options)


def curvature(function, z, loss):
    """The Hessian of each sample's loss in the outputs z of a layer: (n, d, d)."""

    def of_one(z):
        outputs = function(z[None])[0]
        if loss == "half-mse":  # all that there is in a piecewise linear network: Gauss-Newton
            return outputs
        return outputs.logsumexp(0)

    if loss == "half-mse":
        jacobians = [torch.autograd.functional.jacobian(of_one, part) for part in z]
        return torch.stack([j.T @ j for j in jacobians]).numpy()
    return torch.stack([torch.autograd.functional.hessian(of_one, part) for part in z]).numpy()


@pytest.mark.parametrize("loss", ["half-mse", "cross-entropy"])
@pytest.mark.parametrize("dead", [False, True])
def test_every_layer_has_what_the_closed_form_of_linear_models_has(loss, dead, mlp, normal):
    """Of each layer: its features, its weight, and the curvature of the loss behind it."""
    model, x = mlp(WIDTHS, seed=2), normal(30, WIDTHS[0])
    if dead:
        with torch.no_grad():
            model[0].bias[1] = -100.0
    found = flatness(model, x, loss=loss)
    assert found["layer"].values.tolist() == ["0", "2", "4"]
    for number, place in enumerate((0, 2, 4)):
        phi = model[:place](x).detach()
        z = model[place](phi).detach()
        curved = curvature(model[place + 1 :], z, loss)
        weight, phi = model[place].weight.detach().numpy(), phi.numpy()
        weight, phi, constant = features.normalized(weight, phi, "deviation")
        expected = features.relative_flatness(weight, phi, curved)
        assert found.normalized_kappa_trace[number] == pytest.approx(expected, rel=1e-9)
        assert found.features_constant[number] == constant.sum()
        assert found.features[number] == len(constant)
    assert found.features_constant.values.tolist()[1] >= int(dead)


def test_features_that_have_deviation_one_change_nothing(mlp, normal):
    model = mlp((4, 3), seed=0)
    x = normal(50, 4)
    x = x / x.std(0, correction=0)
    plain = flatlab.measure(model, x).relative_flatness.item()
    assert flatness(model, x).normalized_kappa_trace.item() == pytest.approx(plain, rel=1e-12)


def test_layers_that_see_several_positions_are_left_out_and_the_network_stays_as_it_was(normal):
    convolve = nn.Conv2d(2, 3, 3, dtype=torch.float64)
    head = nn.Linear(3 * 16, 4, dtype=torch.float64, bias=False)
    model = nn.Sequential(convolve, nn.ReLU(), nn.Flatten(), head)
    x = normal(60, 2, 6, 6)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    found = flatness(model, x)
    assert found["layer"].values.tolist() == ["0", "3"]  # those of the family geometry
    assert np.isnan(found.normalized_kappa_trace[0])
    assert list(model.state_dict()) == list(state)
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert model[3] is head
    alone = flatness(head, model[:3](x).detach())
    assert alone["layer"].values.tolist() == [""]
    np.testing.assert_allclose(
        alone.normalized_kappa_trace, found.normalized_kappa_trace[1:], rtol=1e-12
    )
