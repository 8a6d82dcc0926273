"""Relative flatness and traces against double backward, for forward passes of many forms."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import flatlab
from tests.networks.small_networks import flatness, hessian, targets_for, total_loss

EXACT = 1e-9
FORMS = {
    # from the network and what fc1 returns to the outputs
    "functional": lambda net, h: net.fc3(net.fc2(torch.tanh(h))),
    "in place": lambda net, h: net.fc3(net.fc2(F.relu_(h))),
    "skip": lambda net, h: net.fc3(torch.relu(net.fc2(torch.relu(h))) + h),
    "gate": lambda net, h: net.fc3(torch.relu(h) * net.fc2(torch.relu(h))),
    "square": lambda net, h: net.fc3(h * torch.relu(h)),
    "quadratic at the end": lambda net, h: net.fc3(torch.relu(h)) + h[:, :3] * net.fc2(h)[:, :3],
    "scale": lambda net, h: net.fc3(net.fc2(torch.relu(h) * net.scale)),
    "scale twice": lambda net, h: net.fc3(torch.relu(h * net.scale) * net.scale),
    "batch norm": lambda net, h: net.fc3(torch.relu(net.norm(h))),
    "layer norm": lambda net, h: net.fc3(torch.relu(net.layer_norm(h))),
    "maximum": lambda net, h: net.fc3(torch.maximum(h, net.fc2(h))),
    "where": lambda net, h: net.fc3(torch.where(h > 0, h, h * h)),
    "quotient": lambda net, h: net.fc3(h / h.norm(dim=1, keepdim=True)),
    "weight as a tensor": lambda net, h: net.fc3(torch.relu(h) @ net.fc2.weight),
    "scaled outputs": lambda net, h: 2 * net.fc3(torch.relu(h)),
    "log softmax": lambda net, h: net.fc3(torch.relu(h)).log_softmax(1),
}


class Network(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.form = form
        self.fc1, self.fc2, self.fc3 = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 3)
        self.norm, self.layer_norm = nn.BatchNorm1d(5), nn.LayerNorm(5)
        self.scale = nn.Parameter(torch.rand(5) + 0.5)

    def forward(self, x):
        return FORMS[self.form](self, self.fc1(x))


@pytest.mark.parametrize("loss", ["half-mse", "cross-entropy"])
@pytest.mark.parametrize("form", FORMS)
def test_what_follows_a_layer_may_be_anything(form, loss):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = Network(form).double().eval()
    generator = torch.Generator().manual_seed(2)
    model.norm.running_mean.normal_(generator=generator)
    x = torch.randn(9, 4, dtype=torch.float64, generator=generator)
    labels = torch.arange(9) % 3
    parts = ["exact", "maximal", "traces"]
    found = flatlab.measure(model, x, labels, families=["flatness"], loss=loss, flatness=parts)
    function, total = total_loss(model, x, targets_for(loss, labels), loss), 0.0
    for key, parameter in model.named_parameters():
        blocks = hessian(model, key, function)
        total += np.trace(blocks.reshape(parameter.numel(), -1))
        layer, _, kind = key.rpartition(".")
        if kind == "weight" and layer in found.layer:
            names = ("kappa_trace", "kappa_max", "hessian_trace_per_layer")
            own = [found[name].sel(layer=layer).item() for name in names]
            expected = flatness(parameter.detach().numpy(), blocks)
            assert own == pytest.approx(expected, rel=EXACT, abs=1e-14), layer
    assert found.hessian_trace.item() == pytest.approx(total, rel=EXACT)
