"""Samples of which some positions do not count, as they are measured and by index."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.networks.masked import (
    Attending,
    Forecasts,
    Pixels,
    images,
    sequences,
    stack_of_sequences,
    stack_of_vectors,
)
from tests.networks.users import measured, seeded


class Case:
    """A network, samples of which some positions do not count, and the same by index."""

    def __init__(self, kind):
        if kind == "sequences":
            self.model, (tokens, mask, self.labels) = seeded(Attending), sequences()
            self.inputs = {"input_ids": tokens, "attention_mask": mask}
            kept = self.labels != -100
            self.stack = stack_of_sequences(self.model, tokens, mask, kept, self.labels)
            return
        last = 1 if kind == "pixels" else -1
        if kind == "pixels":
            self.model, (self.inputs, self.labels) = seeded(Pixels), images()
        else:
            relu = kind == "piecewise"
            self.model = seeded(lambda: Forecasts(nn.ReLU if relu else nn.Tanh))
            generator = torch.Generator().manual_seed(3)
            self.inputs = torch.randn(6, 5, generator=generator).double()
            self.labels = torch.randint(3, (6, 4), generator=generator)
            self.labels[0, 1:], self.labels[1, 2], self.labels[4, :2] = -100, -100, -100
        flat = self.labels.flatten(1)
        self.stack = stack_of_vectors(self.model, self.inputs, flat != -100, flat, last)

    def measured(self, family, **options):
        return measured(family, self.model, self.inputs, self.labels, **options)

    def loader(self, size):
        if not isinstance(self.inputs, dict):
            return DataLoader(TensorDataset(self.inputs, self.labels), size)
        parts = {**self.inputs, "labels": self.labels}
        count = len(self.labels)
        return [{n: p[k : k + size] for n, p in parts.items()} for k in range(0, count, size)]


def largest(matrix):
    return float(torch.linalg.eigvalsh(matrix)[-1])


def mean(values):
    return float(torch.stack(values).mean())


def sizes(jacobians):
    return mean([jacobian.square().sum() for jacobian in jacobians])


def accuracy(case, theta=None):
    """Over all positions of all samples."""
    right = [
        case.stack.f(n, theta).argmax(1) == case.stack.labels[n][case.stack.kept[n]]
        for n in case.stack
    ]
    return float(torch.cat(right).double().mean())
