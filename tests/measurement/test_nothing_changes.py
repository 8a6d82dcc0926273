"""Measuring changes nothing that a network, its samples, or random streams hold."""

import contextlib
import copy
import random
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

import flatlab
from tests.measurement.comparing import assert_same_state, state
from tests.measurement.given import LABELS, A, X, perceptron


class All(nn.Module):
    """Twenty things that change themselves, their input, or random streams, in evaluation."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.net, self.calls, self.seen, self.generator = perceptron(), 0, [], torch.Generator()
        self.numpy, self.nested = np.random.default_rng(0), {"of": [torch.zeros(2)]}
        self.words = nn.Embedding(6, 4, padding_idx=0, sparse=True, scale_grad_by_freq=True)
        self.norm = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
        self.bn, self.drop = nn.BatchNorm1d(4), nn.Dropout(0.5)
        self.register_buffer("mean", torch.full((4,), torch.nan))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("turns", torch.ones(2, dtype=torch.complex128))
        self.register_buffer("adjacent", A.to_sparse())
        self.double().eval()
        self.net[0].weight.register_hook(lambda g: g * 2)
        self.net[2].register_full_backward_hook(lambda *given: None)
        self.net[2].register_forward_hook(lambda *given: None)
        self.net[4].bias.requires_grad_(False)
        self.net[4].weight.grad = torch.ones_like(self.net[4].weight)
        self.words.weight.register_hook(lambda g: g)

    def forward(self, x):
        self.calls, self.last = self.calls + 1, x
        self.seen.append(torch.rand((), generator=self.generator))
        self.nested["of"][0].add_(1)
        self.nested[self.calls] = self.numpy.random(), np.random.rand(), random.random()  # noqa: NPY002
        self.mean.copy_(x.detach().mean(0))
        self.count += 1
        self.turns *= 1j
        self.adjacent = self.adjacent * 2
        self.net[1].training = not self.net[1].training
        x.relu_()
        h = checkpoint(self.norm, x, use_reentrant=True) + self.words((x > 0).long()).mean(1)
        return self.net(self.drop(self.bn(h)))


def all_of(model):
    """What `state` does not see."""
    own = {k: v for k, v in vars(model).items() if k not in ("seen", "nested")}
    named = {n: str(p) + str(p._backward_hooks) for n, p in model.named_parameters()}
    generators = model.generator.get_state().tolist(), str(model.numpy.bit_generator.state)
    embedding = {n: v for n, v in vars(model.words).items() if isinstance(v, int | bool | None)}
    return str(own), str(model.seen), str(model.nested), named, generators, embedding


NAMES = ("geometry", "hessian", "spectrum", "flatness", "adaptive", "capacity", "representations")
OPTIONS = {name: {} for name in NAMES} | {
    "jacobian": {"pairs": 0},
    "sharpness": {"sharpness_radii": {"worst-adaptive-l2": [0.1], "average-standard-linf": [0.1]}},
}
LOSS = {"loss": "cross-entropy"}
EVERYTHING = {
    **{
        name: partial(flatlab.measure, families=name, **LOSS, **options)
        for name, options in OPTIONS.items()
    },
    "landscape": partial(flatlab.landscape, points=3),
    "eigenvectors": partial(flatlab.landscape, along="eigenvectors", points=3),
    "barriers": lambda model, x, y: flatlab.barriers([model, copy.deepcopy(model)], x, y, points=3),
    "tracker": lambda model, x, y: flatlab.Tracker(model, x, y, **LOSS)(0),
    "loader": lambda model, x, y: flatlab.measure(model, shuffled(x, y), families="geometry"),
}
GENERATOR = torch.Generator().manual_seed(5)


def shuffled(x, y):
    return DataLoader(TensorDataset(x, y), 4, shuffle=True, generator=GENERATOR)


@pytest.mark.parametrize("call", EVERYTHING)
def test_nothing_is_changed_that_a_network_or_its_samples_hold(call):
    model, x, y = All(), X.clone(), LABELS.clone()
    before = state(model), all_of(model), GENERATOR.get_state().tolist()
    with contextlib.suppress(flatlab.MeasureError):
        EVERYTHING[call](model, x, y)
    assert_same_state(before[0], state(model))
    assert before[1:] == (all_of(model), GENERATOR.get_state().tolist())
    assert torch.equal(x, X)
    assert torch.equal(y, LABELS)


def test_statistics_of_batches_leave_the_running_ones_to_the_next_family():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)).double()
    model.train()(X + 1)
    call = {"loss": "cross-entropy", "batch_norm": "train"}
    found = flatlab.measure(model.eval(), X, LABELS, families=["hessian", "geometry"], **call)
    assert found.sharpness == flatlab.measure(model, X, LABELS, families="geometry").sharpness
