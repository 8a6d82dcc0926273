"""A small network, ways to call it, and its values written out."""

import torch
import torch.nn.functional as F
from torch import nn

import flatlab

torch.manual_seed(0)
X, LABELS = torch.randn(12, 4).double(), torch.randint(3, (12,))
TOKENS = torch.randint(0, 6, (12, 5))


A = (torch.rand(4, 4) < 0.6).double()


def perceptron(act=nn.Tanh):
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(4, 5), act(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 3)
    ).double()


class Around(nn.Module):
    """A perceptron that is called in some way of a user's."""

    def __init__(self, call, act=nn.Tanh):
        super().__init__()
        self.net, self.call = perceptron(act), call

    def forward(self, *given, **named):
        return self.call(self.net, *given, **named)


class Behind(nn.Module):
    def __init__(self, net, after):
        super().__init__()
        self.net, self.after = net, after

    def forward(self, x):
        return self.after(self.net(x))


class Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx, g):
        with torch.no_grad():
            return g.detach() * (1 - ctx.saved_tensors[0].tanh() ** 2)


def loss_on(model, x, y, loss=F.cross_entropy):
    """The loss as a function of one vector, and that vector."""
    theta = {n: p for n, p in model.named_parameters() if p.requires_grad}
    start = torch.cat([p.detach().flatten() for p in theta.values()])

    def value(v, reduced=True):
        parts = v.split([p.numel() for p in theta.values()])
        moved = {n: part.view_as(p) for (n, p), part in zip(theta.items(), parts, strict=True)}
        f = torch.func.functional_call(model, moved, x if isinstance(x, tuple) else (x,))
        return loss(f, y) if reduced else f

    return value, start


def right(model, x, y=LABELS, loss=F.cross_entropy):
    """lambda_max of the Hessian, mean |df/dtheta|^2 and the loss, written out."""
    value, start = loss_on(model, x, y, loss)
    hessian = torch.autograd.functional.hessian(value, start, vectorize=True)
    jacobian = torch.autograd.functional.jacobian(lambda v: value(v, False), start)
    sharpness = jacobian.flatten(1, -2).square().sum((1, 2)).mean()
    return float(torch.linalg.eigvalsh(hessian)[-1]), float(sharpness), float(value(start))


def measured(model, x, y=LABELS, **how):
    how = {"loss": "cross-entropy"} | how
    hessian = flatlab.measure(model, x, y, families="hessian", **how)
    sharpness = None  # of tokens behind no embedding
    if not any(isinstance(module, nn.EmbeddingBag) for module in model.modules()):
        given = {k: v for k, v in how.items() if k in ("dtype", "class_axis")}
        sharpness = flatlab.measure(model, x, **given).sharpness.item()
    line = flatlab.landscape(model, x, y, points=3, **how)
    return hessian.hessian_lambda_max.item(), sharpness, line.loss.values[1]
