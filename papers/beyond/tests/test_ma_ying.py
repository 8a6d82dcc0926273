"""Ma and Ying's bound (chen2026 Eq. 6; chen2024 Eq. 6, 7, 12) by autograd for each sample."""

import numpy as np
import pytest
import torch
from numpy.linalg import norm
from torch import nn

import flatlab
from tests.families.representations.reference import samples_of
from tests.networks.small_networks import small

CHAIN = ("sensitivity_by_power", "frobenius_by_power", "ma_ying_first_layer", "ma_ying_bound")


@pytest.mark.parametrize("name", ["mlp-relu", "mlp-tanh", "linear", "lenet"])
def test_it_is_as_printed(name):
    model, inputs, _ = small(name)
    found = flatlab.measure(model, inputs, families="ma-ying")
    weight = next(model.parameters()).detach().flatten(1).numpy()
    smallest = min(float(x.norm()) for x in inputs)
    samples = samples_of(model, inputs)
    outputs, count = len(samples[0].outputs), len(inputs)
    for power in (1, 2):
        factor, wide = ((norm(weight, kind) / smallest) ** power for kind in (2, "fro"))
        of_theta = np.mean([s.sharpness ** (power / 2) for s in samples])
        means = [
            np.mean([norm(s.j0, 2) ** power for s in samples]),
            np.mean([norm(s.j0) ** power for s in samples]),
            factor * np.mean([norm(s.of_first) ** power for s in samples]),
            factor * of_theta,
            wide * of_theta,
        ]
        at = found.sel(power=str(power))
        names = (*CHAIN, "ma_ying_bound_frobenius")
        roots = [mean ** (1 / power) for mean in means]
        assert [at[each].item() for each in names] == pytest.approx(roots, rel=1e-9)
        if name != "lenet":  # weights of convolutions are shared
            assert roots == sorted(roots)
    bound = count ** max(outputs / 2 - 1, 0) * (norm(weight) / smallest) ** outputs
    bound *= (np.mean([s.sharpness for s in samples]) / outputs) ** (outputs / 2)
    assert found.ma_ying_log_volume_bound.item() == pytest.approx(np.log(bound))
    assert found.smallest_input_norm.item() == pytest.approx(smallest)
    if name == "mlp-relu":
        middle = np.mean([norm(s.j0) ** outputs for s in samples])
        volumes = [np.sqrt(abs(np.linalg.det(s.j0 @ s.j0.T))) for s in samples]
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
