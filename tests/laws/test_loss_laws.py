"""Laws of every loss: definition, derivatives, torch's version, and the parts of a batch."""

from functools import partial

import pytest
import torch
from hypothesis import assume
from hypothesis import strategies as st
from torch import nn

from flatlab.inputs.loss_forms import OfFunction, OfPositions
from flatlab.inputs.losses import Weighted
from flatlab.lab.plan import keys_of
from flatlab.losses import loss_of
from tests.laws.relations import law

LOSSES = [{"loss": key} for key in keys_of("losses")]
LOSSES += [{"loss": "cross-entropy", "label_smoothing": 0.3}]
RUNS = 2


def probabilities(f):
    return f.exp() / f.exp().sum(-1, keepdim=True)


def cross_entropy(f, y):
    return -(y * probabilities(f).log()).sum(-1)


DEFINITIONS = {
    "half-mse": lambda f, y: ((f - y) ** 2).sum(-1) / 2,
    "mean-mse": lambda f, y: ((f - y) ** 2).mean(-1),
    "sum-of-squares": lambda f, y: ((f - y) ** 2).sum(-1),
    "cross-entropy": cross_entropy,
    "logistic": lambda f, y: (1 + (-y * f).exp()).log().sum(-1),
    "normalized-cross-entropy": lambda f, y: cross_entropy(f / f.std(-1, False, keepdim=True), y),
}


@st.composite
def batches(draw):
    """A loss with outputs and targets of the batches of two runs, (runs, samples, outputs)."""
    settings = draw(st.sampled_from(LOSSES))
    shape = RUNS, draw(st.integers(2, 9)), draw(st.integers(2, 5))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    outputs = torch.randn(shape, dtype=torch.float64, generator=generator)
    labels = torch.randint(shape[2], shape[:2], generator=generator)
    targets = nn.functional.one_hot(labels, shape[2]).double()
    return settings, outputs, 2 * targets - 1 if settings["loss"] == "logistic" else targets


@law(batch=batches())
def test_values_are_those_of_the_definition_and_their_mean_is_that_of_torch(batch):
    settings, outputs, targets = batch
    loss, smoothing = loss_of(settings), settings.get("label_smoothing", 0.0)
    smoothed = (1 - smoothing) * targets + smoothing / outputs.shape[-1]
    expected = DEFINITIONS[settings["loss"]](outputs, smoothed if smoothing else targets)
    assert torch.allclose(loss.values(outputs, targets), expected, rtol=1e-12)
    theirs = [loss.reference(*pair) for pair in zip(outputs, targets, strict=True)]
    ours = loss.of_batch(loss.values(outputs, targets))
    assert torch.allclose(ours, torch.stack(theirs), rtol=1e-12)


@law(batch=batches())
def test_the_least_loss_is_a_bound_that_the_best_outputs_reach(batch):
    """The best outputs are the targets, or the logarithms of the smoothed ones; else, far away."""
    settings, outputs, targets = batch
    loss = loss_of(settings)
    least = loss.least(targets)
    assert least.shape == outputs.shape[:-1]
    assert (loss.values(outputs, targets) >= least - 1e-14).all()
    smoothing = settings.get("label_smoothing", 0.0)
    smoothed = (1 - smoothing) * targets + smoothing / outputs.shape[-1]
    far = {"logistic": 100 * targets, "cross-entropy": (smoothed + 1e-30).log()}
    best = loss.values(far.get(settings["loss"], targets), targets)
    assert torch.allclose(best, least, rtol=0, atol=1e-14)


@law(batch=batches())
def test_a_batch_is_the_sum_of_its_parts_by_their_shares(batch, data):
    settings, outputs, targets = batch
    loss, count = loss_of(settings), outputs.shape[1]
    cut = data.draw(st.integers(1, count - 1))
    sizes = [cut, count - cut]
    pairs = list(zip(outputs.split(sizes, 1), targets.split(sizes, 1), strict=True))
    shares = [loss.share(size, count) for size in sizes]
    parts = [s * loss.of_batch(loss.values(*p)) for s, p in zip(shares, pairs, strict=True)]
    assert torch.allclose(sum(parts), loss.of_batch(loss.values(outputs, targets)), rtol=1e-12)
    gradients = [s * loss.gradient(*pair) for s, pair in zip(shares, pairs, strict=True)]
    assert torch.allclose(torch.cat(gradients, 1), loss.gradient(outputs, targets), rtol=1e-12)


@law(batch=batches())
def test_gradient_and_hessian_product_are_the_derivatives(batch):
    settings, outputs, targets = batch
    loss, moving = loss_of(settings), outputs.clone().requires_grad_()
    slack = 1.0
    if settings["loss"] == "normalized-cross-entropy":  # which divides rounding by the deviation
        slack += outputs.std(-1).min().item() ** -2
    total = sum(loss.reference(*pair) for pair in zip(moving, targets, strict=True))
    (slope,) = torch.autograd.grad(total, moving, create_graph=True)
    assert torch.allclose(loss.gradient(outputs, targets), slope, atol=1e-14 * slack)
    direction = outputs.flip(1)
    (curved,) = torch.autograd.grad((slope * direction).sum(), moving)
    rows = zip(outputs, direction, targets, strict=True)
    product = torch.stack([loss.curved(*row) for row in rows]) * loss.share(1, outputs.shape[1])
    assert torch.allclose(product, curved, atol=1e-13 * slack)


@law(batch=batches())
def test_the_root_of_the_second_derivative_squares_to_it(batch):
    settings, outputs, _ = batch
    loss, f = loss_of(settings), 8 * outputs[0]  # some classes almost certain
    assume(settings["loss"] != "normalized-cross-entropy")  # is not convex in the outputs
    unit = torch.eye(f.shape[1], dtype=torch.float64).expand(len(f), -1, -1)
    expected = loss.hessian_product(f[:, None], unit)
    root = loss.hessian_root(f)
    torch.testing.assert_close(root @ root.mT, expected, rtol=1e-9, atol=1e-15)
    alone = torch.cat([loss.hessian_root(x[None]) for x in f])
    torch.testing.assert_close(alone, root, rtol=1e-12, atol=1e-14)


def test_the_logistic_loss_neither_overflows_nor_vanishes_early():
    outputs = torch.tensor([[800.0], [-800.0], [40.0]], dtype=torch.float64)
    values = loss_of({"loss": "logistic"}).values(outputs, torch.ones(3, 1).double())
    expected = [0.0, 800.0, torch.tensor(-40.0).double().exp().item()]
    assert values.tolist() == pytest.approx(expected, rel=1e-12)


WEIGHTS = torch.tensor([1.0, 2.0, 0.5, 3.0]).double()
PLACES = 3


def summed(f, y):
    return nn.functional.cross_entropy(f, y, weight=WEIGHTS, reduction="sum")


def mean_of_classes(outputs, targets, smoothing=0.0):
    """As torch has it: divided by the sum of the weights."""
    labels = targets.argmax(-1)
    how = {"weight": WEIGHTS, "label_smoothing": smoothing}
    return nn.functional.cross_entropy(outputs, labels, **how)


def in_a_measurement(kind, targets):
    """A loss that training has not, its targets, and its mean over the samples in other words."""
    plain = loss_of({"loss": "cross-entropy"})
    mean = float((targets @ WEIGHTS).mean())
    if kind == "smoothed":
        smoothed = loss_of({"loss": "cross-entropy", "label_smoothing": 0.3})
        return Weighted(smoothed, WEIGHTS, mean), targets, partial(mean_of_classes, smoothing=0.3)
    if kind == "function":
        labels = targets.argmax(-1)
        return OfFunction(summed, True, True, lambda f: f), labels, summed
    weighted = Weighted(plain, WEIGHTS, mean)
    if kind == "weighted":
        return weighted, targets, mean_of_classes
    rows = targets.view(-1, PLACES, 4).clone()
    rows[0, 1] = torch.nan
    there = ~rows.isnan().any(-1)
    weighted.mean = float((rows[there] @ WEIGHTS).mean())
    base, total = weighted, mean_of_classes
    if kind == "positions":
        base, total = plain, nn.functional.cross_entropy
    loss = OfPositions(base, 4, float(there.sum()) / len(rows))
    return loss, rows.flatten(1), lambda f, _: total(f.view(rows.shape)[there], rows[there])


@pytest.mark.parametrize(
    "kind", ["weighted", "smoothed", "positions", "weighted positions", "function"]
)
def test_losses_of_measurements_are_those_of_torch_with_their_derivatives(kind):
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (4 * PLACES,), generator=generator)
    one_hot = nn.functional.one_hot(labels, 4).double()
    loss, targets, total = in_a_measurement(kind, one_hot)
    shape = targets.shape if "positions" in kind else one_hot.shape
    outputs = torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()
    value = total(outputs, targets)
    assert torch.allclose(loss.of_batch(loss.values(outputs, targets)), value, rtol=1e-12)
    (slope,) = torch.autograd.grad(value, outputs, create_graph=True)
    if kind != "function":
        assert torch.allclose(loss.gradient(outputs, targets), slope, atol=1e-14)
        assert (loss.values(outputs, targets) >= loss.least(targets) - 1e-14).all()
    direction = outputs.detach().flip(1)
    (curved,) = torch.autograd.grad((slope * direction).sum(), outputs)
    product = loss.curved(outputs.detach(), direction, targets) * loss.share(1, len(outputs))
    assert torch.allclose(product, curved, atol=1e-13)
