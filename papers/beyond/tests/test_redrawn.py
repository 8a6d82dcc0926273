"""MLS and S(W_1) of networks whose first layer is drawn anew, against autograd."""

import numpy as np
import pytest
import torch

import flatlab
from flatlab.families.redrawn import _redrawn
from tests.networks.small_networks import small


@pytest.mark.parametrize("name", ["mlp-relu", "mlp-tanh", "lenet"])
def test_they_are_those_of_the_network_with_these_weights(name):
    model, inputs, _ = small(name)
    found = flatlab.measure(model, inputs, families="redrawn", redraws=2)
    weight = next(model.parameters())
    for draw in range(2):
        before = weight.data.clone()
        weight.data = _redrawn(before, draw)
        assert weight.norm().item() == pytest.approx(before.norm().item())
        of_samples = []
        for x in inputs:
            x = x[None].clone().requires_grad_()
            rows = [
                torch.autograd.grad(y, [x, weight], retain_graph=True) for y in model(x).flatten()
            ]
            into, first = (torch.stack([r[k].flatten() for r in rows]) for k in (0, 1))
            of_samples.append(
                [torch.linalg.matrix_norm(into, 2).item(), first.square().sum().item()]
            )
        mls, sharpness = np.mean(of_samples, axis=0)
        at = found.sel(redraw=str(draw))
        assert at.redrawn_mls.item() == pytest.approx(mls, rel=1e-9)
        assert at.redrawn_first_sharpness.item() == pytest.approx(sharpness, rel=1e-9)
        weight.data = before
    assert not np.allclose(found.redrawn_mls[0], found.redrawn_mls[1])
