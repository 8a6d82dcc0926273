"""A small network, ways to call it, and its values written out."""

import torch
import torch.nn.functional as F
from torch import nn

import flatlab
from tests.networks.whole import by_vector
from tests.networks.written import Written

torch.manual_seed(0)
X, LABELS = torch.randn(12, 4).double(), torch.randint(3, (12,))
TOKENS = torch.randint(0, 6, (12, 5))


A = (torch.rand(4, 4) < 0.6).double()


def perceptron(act=nn.Tanh):
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(4, 5), act(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 3)
    ).double()


def around(call, act=nn.Tanh):
    """A perceptron that is called in some way of a user's."""
    return Written(lambda model, x: call(model.net, x), net=perceptron(act))


def behind(net, after):
    return Written(lambda model, x: after(model.net(x)), net=net)


class Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx, g):
        with torch.no_grad():
            return g.detach() * (1 - ctx.saved_tensors[0].tanh() ** 2)


def right(model, x, y=LABELS, loss=F.cross_entropy):
    """lambda_max of the Hessian, mean |df/dtheta|^2 and the loss, written out."""
    given = x if isinstance(x, tuple) else (x,)
    value, start = by_vector(model, lambda f: loss(f, y), *given)
    hessian = torch.autograd.functional.hessian(value, start, vectorize=True)
    jacobian = torch.autograd.functional.jacobian(by_vector(model, lambda f: f, *given)[0], start)
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
