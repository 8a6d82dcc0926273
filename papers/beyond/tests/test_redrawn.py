"""MLS and S(W_1) of networks whose first layer is drawn anew, against autograd."""

import numpy as np
import pytest
from numpy.linalg import norm

import flatlab
from flatlab.families.redrawn import _redrawn
from tests.families.representations.reference import samples_of
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
        samples = samples_of(model, inputs)
        mls = np.mean([norm(s.j0, 2) for s in samples])
        sharpness = np.mean([norm(s.of_first) ** 2 for s in samples])
        at = found.sel(redraw=str(draw))
        assert at.redrawn_mls.item() == pytest.approx(mls, rel=1e-9)
        assert at.redrawn_first_sharpness.item() == pytest.approx(sharpness, rel=1e-9)
        weight.data = before
    assert not np.allclose(found.redrawn_mls[0], found.redrawn_mls[1])
