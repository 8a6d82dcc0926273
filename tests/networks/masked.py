"""Networks with positions that do not count, and what is measured on them, written out.

Everything here selects positions by index: no masks, no batches.
"""

import torch
from torch import nn
from torch.func import jacrev
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.networks.users import measured, seeded
from tests.networks.whole import by_vector
from tests.networks.written import Written

VOCABULARY, LENGTH, WIDTH = 5, 4, 3


class Attending(nn.Module):
    """Causal attention over tokens that are no padding; arguments by the names of Hugging Face."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.mix, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, input_ids, attention_mask):
        return {"logits": self.behind(self.embedding(input_ids), attention_mask)}

    def behind(self, embedded, attention_mask):
        causal = torch.ones(LENGTH, LENGTH, dtype=torch.bool, device=embedded.device).tril()
        scores = self.mix(embedded) @ embedded.mT
        seen = causal & (attention_mask[:, None, :] != 0)
        share = scores.masked_fill(~seen, -1e9).softmax(-1)
        return self.head(torch.tanh(embedded + share @ embedded))


def pixels():
    """A class for each pixel: (batch, 2, 3, 2) to (batch, 3, 3, 2)."""
    parts = {"first": nn.Conv2d(2, 3, 3, padding=1), "last": nn.Conv2d(3, 3, 1)}
    return Written(lambda net, x: net.last(net.first(x).tanh()), **parts)


def forecasts(activation=nn.Tanh):
    """Four positions of three classes from one vector, behind layers that see it once."""
    parts = {"first": nn.Linear(5, 4), "last": nn.Linear(4, 12), "activation": activation()}
    return Written(lambda net, x: net.last(net.activation(net.first(x))).view(-1, 4, 3), **parts)


def sequences(samples=5, seed=0):
    """Tokens, an attention mask of padding on the right, and labels, some of them ignored."""
    generator = torch.Generator().manual_seed(seed)
    tokens, labels = torch.randint(VOCABULARY, (2, samples, LENGTH), generator=generator)
    lengths = torch.tensor([4, 2, 3, 1, 2])[:samples]
    mask = (torch.arange(LENGTH) < lengths[:, None]).long()
    labels = labels.masked_fill(mask == 0, -100)
    labels[0, 1] = -100
    return tokens, mask, labels


def images(samples=4, seed=0):
    """Images (samples, 2, 3, 2) and classes of their pixels, some of them void."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, 2, 3, 2, generator=generator).double()
    y = torch.randint(3, (samples, 3, 2), generator=generator)
    void = torch.rand(samples, 3, 2, generator=generator) < 0.4
    void[0], void[1, 0, 0] = False, True
    return x, y.masked_fill(void, -100)


class Stack:
    """The outputs of each sample at positions that count, as functions of weights or input.

    model: the network.  given: what it is called with, of each sample.
    taken: of the number of a sample, the function from all outputs to (positions, classes).
    inputs: what derivatives are with respect to, of each sample, (1, ...) each.
    behind: from the number of a sample and such an input to all outputs.
    wanted: the labels of the positions that count, of each sample, or None.
    """

    def __init__(self, model, given, taken, inputs, behind, wanted):
        self.of_theta = [by_vector(model, taken(n), *one)[0] for n, one in enumerate(given)]
        self.of_input = [lambda x, n=n: taken(n)(behind(n, x)) for n in range(len(given))]
        self.theta, self.inputs, self.wanted = by_vector(model, None)[1], inputs, wanted
        self.tokens = float(sum(len(self.f(n)) for n in self))

    def f(self, number, theta=None):
        """(positions that count, classes) of one sample."""
        return self.of_theta[number](self.theta if theta is None else theta)

    def of_weights(self):
        """df/dtheta of each sample, (N_i, P)."""
        return [jacrev(lambda t, n=n: self.f(n, t).flatten())(self.theta) for n in self]

    def of_inputs(self):
        """df/dx of each sample, (N_i, M)."""
        pairs = zip(self.of_input, self.inputs, strict=True)
        return [jacrev(lambda x, f=f: f(x).flatten())(x).flatten(1).detach() for f, x in pairs]

    def losses(self, theta=None):
        """The sum of the losses of the positions of each sample."""
        pairs = enumerate(self.wanted)
        return torch.stack(
            [F.cross_entropy(self.f(n, theta), y, reduction="sum") for n, y in pairs]
        )

    def loss(self, theta=None):
        """The mean over all positions of all samples."""
        return self.losses(theta).sum() / self.tokens

    def hessian(self):
        return torch.autograd.functional.hessian(self.loss, self.theta, vectorize=True)

    def gauss_newton(self):
        total = 0
        for n, jacobian in enumerate(self.of_weights()):
            p = self.f(n).softmax(1)
            curved = torch.block_diag(*(torch.diag(row) - torch.outer(row, row) for row in p))
            total = total + jacobian.T @ curved @ jacobian
        return total / self.tokens

    def empirical_fisher(self):
        """Of losses of samples: sums over their positions, over the mean number of these."""
        slopes = jacrev(self.losses)(self.theta) * len(self.inputs) / self.tokens
        return slopes.T @ slopes / len(self.inputs)

    def __iter__(self):
        return iter(range(len(self.inputs)))


def of_kept(labels, kept):
    return None if labels is None else [y[k] for y, k in zip(labels, kept, strict=True)]


def stack_of_sequences(model, tokens, mask, kept, labels=None):
    """Of a network of tokens; inputs are their embeddings."""
    given = [*zip(tokens.split(1), mask.split(1), strict=True)]
    embedded = [model.embedding(row).detach() for row, _ in given]
    taken = lambda n: lambda f: f["logits"][0][kept[n]]  # noqa: E731
    behind = lambda n, x: {"logits": model.behind(x, mask[n : n + 1])}  # noqa: E731
    return Stack(model, given, taken, embedded, behind, of_kept(labels, kept))


def stack_of_vectors(model, x, kept, labels=None, last=-1):
    """Of a network of real inputs.  last: the place of the classes among its outputs."""
    rows = x.split(1)
    taken = lambda n: lambda f: f.movedim(last, -1).flatten(1, -2)[0][kept[n]]  # noqa: E731
    behind = lambda n, one: model(one)  # noqa: E731
    return Stack(model, [(row,) for row in rows], taken, rows, behind, of_kept(labels, kept))


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
            self.model, (self.inputs, self.labels) = seeded(pixels), images()
        else:
            relu = kind == "piecewise"
            self.model = seeded(lambda: forecasts(nn.ReLU if relu else nn.Tanh))
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


def accuracy(stack, theta=None):
    """Over all positions of all samples."""
    pairs = enumerate(stack.wanted)
    right = torch.cat([stack.f(n, theta).argmax(1) == wanted for n, wanted in pairs])
    return float(right.double().mean())
