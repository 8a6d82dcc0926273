"""Ma and Ying's bound (chen2026 Eq. 6; chen2024 Eq. 6, 7, 12) by autograd for each sample."""

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from tests.networks.small_networks import small

CHAIN = ("sensitivity_by_power", "frobenius_by_power", "ma_ying_first_layer", "ma_ying_bound")


def rows(model, x):
    """df/dx, df/dW of the first layer and df/dtheta of one sample: (N, ...) each."""
    x = x[None].clone().requires_grad_()
    theta = list(model.parameters())
    jacobian, first, whole = [], [], []
    for output in model(x)[0]:
        into, *parts = torch.autograd.grad(output, [x, *theta], retain_graph=True)
        jacobian.append(into.flatten())
        first.append(parts[0].flatten())
        whole.append(torch.cat([part.flatten() for part in parts]))
    return [torch.stack(each).numpy() for each in (jacobian, first, whole)]


@pytest.mark.parametrize("name", ["mlp-relu", "mlp-tanh", "linear", "lenet"])
def test_it_is_as_printed(name):
    model, inputs, _ = small(name)
    found = flatlab.measure(model, inputs, families="ma-ying")
    weight = next(model.parameters()).detach().flatten(1).numpy()
    smallest = min(float(x.norm()) for x in inputs)
    of_samples = [rows(model, x) for x in inputs]
    outputs, count = len(of_samples[0][0]), len(inputs)
    for power in (1, 2):
        factor = (np.linalg.norm(weight, 2) / smallest) ** power
        wide = (np.linalg.norm(weight) / smallest) ** power
        means = [
            np.mean([np.linalg.norm(j, 2) ** power for j, _, _ in of_samples]),
            np.mean([np.linalg.norm(j) ** power for j, _, _ in of_samples]),
            factor * np.mean([np.linalg.norm(w) ** power for _, w, _ in of_samples]),
            factor * np.mean([np.linalg.norm(t) ** power for _, _, t in of_samples]),
            wide * np.mean([np.linalg.norm(t) ** power for _, _, t in of_samples]),
        ]
        at = found.sel(power=str(power))
        names = (*CHAIN, "ma_ying_bound_frobenius")
        roots = [mean ** (1 / power) for mean in means]
        assert [at[each].item() for each in names] == pytest.approx(roots, rel=1e-9)
        if name != "lenet":  # weights of convolutions are shared
            assert roots == sorted(roots)
    sharpness = np.mean([np.linalg.norm(t) ** 2 for _, _, t in of_samples])
    bound = (
        count ** max(outputs / 2 - 1, 0)
        * (np.linalg.norm(weight) / smallest) ** outputs
        * (sharpness / outputs) ** (outputs / 2)
    )
    assert found.ma_ying_log_volume_bound.item() == pytest.approx(np.log(bound))
    assert found.smallest_input_norm.item() == pytest.approx(smallest)
    if name == "mlp-relu":
        middle = np.mean([np.linalg.norm(j) ** outputs for j, _, _ in of_samples])
        volumes = [np.sqrt(abs(np.linalg.det(j @ j.T))) for j, _, _ in of_samples]
        assert np.mean(volumes) <= outputs ** (-outputs / 2) * middle <= bound


def test_it_is_looser_than_bound_d_and_infinite_with_an_input_of_zero():
    model, inputs, _ = small("mlp-relu")
    both = flatlab.measure(model, inputs, families=["ma-ying", "geometry"])
    assert both.bound_d <= both.ma_ying_bound.sel(power="2")
    assert both.ma_ying_bound.sel(power="2") ** 2 == pytest.approx(
        (both.weight_norm[0] / both.smallest_input_norm) ** 2 * both.sharpness
    )
    inputs[0] = 0
    assert np.isposinf(flatlab.measure(model, inputs, families="ma-ying").ma_ying_bound).all()


def test_of_a_network_without_layers_there_is_none():
    with pytest.raises(flatlab.MeasureError, match="first layer"):
        flatlab.measure(nn.PReLU(), torch.ones(2, 3), families="ma-ying")
