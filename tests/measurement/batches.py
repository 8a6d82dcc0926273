"""A network, samples with weights, and losses that take whole batches."""

import torch
import torch.nn.functional as F
from torch import nn

import flatlab

FAMILIES = ["hessian", "spectrum"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


class Language(nn.Module):
    """Tokens (batch, positions) to logits of seven tokens."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(7, 4), nn.Linear(4, 7)

    def forward(self, input_ids, attention_mask=None):
        return {"logits": self.head(torch.tanh(self.embedding(input_ids)))}


def network():
    torch.manual_seed(0)
    return Net().double()


def samples():
    """Inputs, classes and weights of twelve samples."""
    torch.manual_seed(1)
    weights = torch.rand(12, dtype=torch.float64) + 0.1
    return torch.randn(12, 4, dtype=torch.float64), torch.arange(12) % 3, weights


def weighted(f, batch):
    assert not batch["labels"].is_floating_point()
    values = F.cross_entropy(f, batch["labels"], reduction="none")
    return (batch["weight"].to(f) * values).mean()


def by_place(f, batch):
    return weighted(f, {"labels": batch[0], "weight": batch[1]})


def measured(model, inputs, targets=None, loss=weighted, **more):
    report = flatlab.measure(
        model, inputs, targets, families=FAMILIES, loss=loss, largest=5, residual=1e-10, **more
    )
    return report["largest_eigenvalue"].values.ravel()


def true_eigenvalues(net, x, y, w):
    """Of the whole Hessian, by plain autograd."""
    named = dict(net.named_parameters())
    shapes = [p.shape for p in named.values()]

    def loss(theta):
        sizes = [shape.numel() for shape in shapes]
        values = [p.view(s) for p, s in zip(theta.split(sizes), shapes, strict=True)]
        f = torch.func.functional_call(net, dict(zip(named, values, strict=True)), (x,))
        return (w * F.cross_entropy(f, y, reduction="none")).mean()

    theta = torch.cat([p.detach().flatten() for p in named.values()])
    hessian = torch.autograd.functional.hessian(loss, theta).detach()
    return torch.linalg.eigvalsh(hessian).flip(0)[:5].numpy()
