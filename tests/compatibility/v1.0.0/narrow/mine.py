"""A network, samples and a loop of my own."""

import torch
from torch import nn


def build():
    return nn.Linear(4, 2)


def samples():
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    return x, (x[:, 0] > 0).long()


def train(lr, seed):
    torch.manual_seed(seed)
    model, (x, y) = build(), samples()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model.state_dict(), {"my_error": (model(x).argmax(1) != y).double().mean().item()}
