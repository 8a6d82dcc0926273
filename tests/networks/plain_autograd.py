"""A small network, and loops of plain autograd over samples, outputs and parameters."""

import torch
from torch import nn


def inputs(*shape):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*(shape or (6, 5)), generator=generator, dtype=torch.float64)


def perceptron():
    torch.manual_seed(0)
    layers = nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 7), nn.ReLU(), nn.Linear(7, 3)
    return nn.Sequential(*layers).double()


def hooked(change, place=2):
    model = perceptron()
    model[place].register_forward_hook(lambda module, given, output: change(output))
    return model


def sharpness(model, x):
    """||df/dtheta||_F^2 of each sample."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    flags = {"retain_graph": True, "materialize_grads": True}
    return [
        sum(
            float(g.square().sum())
            for f in row
            for g in torch.autograd.grad(f, parameters, **flags)
        )
        for row in model(x)
    ]


def frobenius(model, x):
    x = x.clone().requires_grad_()
    rows = [torch.autograd.grad(f, x, retain_graph=True)[0] for f in model(x).sum(0)]
    return torch.stack(rows).square().flatten(2).sum((0, 2)).sqrt().numpy()
