"""Networks with positions that do not count, and what is measured on them, written out.

Everything here selects positions by index: no masks, no batches.
"""

import torch
from torch import nn
from torch.func import functional_call, jacrev
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.networks.users import measured, seeded
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
    """The unmasked outputs of each sample as a function of weights and of its input.

    model: the network.
    outputs: of the network and one sample's input, (1, ...) -> (positions, classes), with weights.
    inputs: what derivatives are with respect to, of each sample, (1, ...) each.
    kept: of each sample, (positions,).
    labels: (samples, positions), or None.
    """

    def __init__(self, model, outputs, inputs, kept, labels=None):
        self.named = {name: p.detach() for name, p in model.named_parameters()}
        self.outputs, self.inputs, self.kept, self.labels = outputs, inputs, kept, labels
        self.theta = torch.cat([p.flatten() for p in self.named.values()])
        self.tokens = float(kept.sum())

    def state(self, theta):
        parts = theta.split([p.numel() for p in self.named.values()])
        pieces = zip(self.named.items(), parts, strict=True)
        return {name: part.view_as(p) for (name, p), part in pieces}

    def f(self, number, theta=None, x=None):
        """(kept positions, classes) of one sample."""
        theta = self.theta if theta is None else theta
        x = self.inputs[number] if x is None else x
        return self.outputs(self.state(theta), number, x)[self.kept[number]]

    def of_weights(self):
        """df/dtheta of each sample, (N_i, P)."""
        return [jacrev(lambda t, n=n: self.f(n, t).flatten())(self.theta) for n in self]

    def of_inputs(self):
        """df/dx of each sample, (N_i, M)."""
        of = [jacrev(lambda x, n=n: self.f(n, x=x).flatten())(self.inputs[n]) for n in self]
        return [jacobian.flatten(1) for jacobian in of]

    def losses(self, theta=None, weights=None):
        """The sum of the losses of the positions of each sample."""
        values = []
        for n in self:
            wanted = self.labels[n][self.kept[n]]
            values.append(F.cross_entropy(self.f(n, theta), wanted, weights, reduction="sum"))
        return torch.stack(values)

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
        scale = len(self.kept) / self.tokens
        slopes = jacrev(lambda t: scale * self.losses(t))(self.theta)
        return slopes.T @ slopes / len(self.kept)

    def __iter__(self):
        return iter(range(len(self.kept)))


def stack_of_sequences(model, tokens, mask, kept, labels=None):
    """Of a network of tokens; inputs are their embeddings."""
    behind = Written(lambda net, *given: net.model.behind(*given), model=model)
    embedded = [model.embedding(row).detach() for row in tokens.split(1)]

    def outputs(state, number, x):
        if x is embedded[number]:  # as the weights have it
            x = F.embedding(tokens[number : number + 1], state["embedding.weight"])
        of_behind = {f"model.{name}": p for name, p in state.items()}
        return functional_call(behind, of_behind, (x, mask[number : number + 1]))[0]

    return Stack(model, outputs, embedded, kept, labels)


def stack_of_vectors(model, x, kept, labels=None, last=-1):
    """Of a network of real inputs.  last: the place of the classes among its outputs."""

    def outputs(state, number, one):
        return functional_call(model, state, (one,)).movedim(last, -1).flatten(1, -2)[0]

    return Stack(model, outputs, list(x.split(1)), kept, labels)


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


def accuracy(case, theta=None):
    """Over all positions of all samples."""
    right = [
        case.stack.f(n, theta).argmax(1) == case.stack.labels[n][case.stack.kept[n]]
        for n in case.stack
    ]
    return float(torch.cat(right).double().mean())
