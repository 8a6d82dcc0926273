"""Laws of the losses: what parts of a batch add up to, and how the losses hang together."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from flatlab.objective import loss_gradient, loss_hessian_product, sample_losses, share, total_loss

KINDS = ("half-mse", "mean-mse", "sum-of-squares", "cross-entropy")


@st.composite
def batches(draw):
    """Outputs and one-hot targets of a batch, (samples, outputs) each."""
    samples, width = draw(st.integers(2, 9)), draw(st.integers(2, 5))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    outputs = torch.randn(samples, width, dtype=torch.float64, generator=generator)
    labels = torch.randint(width, (samples,), generator=generator)
    return outputs, nn.functional.one_hot(labels, width).double()


def setting(kind):
    return {"loss": kind, "label_smoothing": 0.0}


@given(batches(), st.sampled_from(KINDS), st.data())
def test_the_loss_of_a_batch_is_that_of_its_parts_by_their_shares(batch, kind, data):
    outputs, targets = batch
    training, count = setting(kind), len(outputs)
    cut = data.draw(st.integers(1, count - 1))
    whole = total_loss(sample_losses(outputs, targets, training), training)
    parts = [
        total_loss(sample_losses(outputs[part], targets[part], training), training)
        * share(len(outputs[part]), count, training)
        for part in (slice(cut), slice(cut, None))
    ]
    assert torch.allclose(parts[0] + parts[1], whole, rtol=1e-12)
    gradients = [
        loss_gradient(outputs[part], targets[part], training)
        * share(len(outputs[part]), count, training)
        for part in (slice(cut), slice(cut, None))
    ]
    assert torch.allclose(
        torch.cat(gradients), loss_gradient(outputs, targets, training), rtol=1e-12
    )


@given(batches(), st.sampled_from(KINDS))
def test_the_gradient_is_the_derivative_of_the_loss_and_the_product_that_of_the_gradient(
    batch, kind
):
    outputs, targets = batch
    training = setting(kind)
    moving = outputs.clone().requires_grad_()
    loss = total_loss(sample_losses(moving, targets, training), training)
    (expected,) = torch.autograd.grad(loss, moving, create_graph=True)
    assert torch.allclose(loss_gradient(outputs, targets, training), expected, atol=1e-14)
    direction = outputs.flip(0)
    (curved,) = torch.autograd.grad((expected * direction).sum(), moving)
    product = loss_hessian_product(outputs, direction, training)
    assert torch.allclose(product * share(1, len(outputs), training), curved, atol=1e-13)


@given(batches())
def test_the_squared_errors_are_multiples_of_each_other(batch):
    outputs, targets = batch
    samples, width = outputs.shape
    half, mean, added = (
        total_loss(sample_losses(outputs, targets, setting(kind)), setting(kind))
        for kind in ("half-mse", "mean-mse", "sum-of-squares")
    )
    assert torch.allclose(added, 2 * samples * half, rtol=1e-12)
    assert torch.allclose(added, samples * width * mean, rtol=1e-12)
