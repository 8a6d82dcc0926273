"""Gradients of large linear layers that the optimizer computes run by run: the same bits."""

import pytest
import torch

from flatlab.lab.train.optimizers import sgd
from flatlab.lab.train.optimizers._update import ProductSteps
from flatlab.lab.train.stacked_layers import Product
from tests.lab.train.packs import content, images, only, settings


def trained(depth=3, **training):
    """Two layers of three have more than 2^16 weights in images of 20 x 20 pixels."""
    options = {"width": 256, "depth": depth}
    given = {"mode": "batched", "precision": "float32", "iterations": 30, **training}
    return content(only(images((20, 20)), settings("mlp", (0, 3, 4), options=options, **given)))[:2]


@pytest.fixture
def products(monkeypatch):
    """How often a step had products."""
    counts, original = [], ProductSteps._same_bits

    def same_bits(self, number, product):
        counts.append(number)
        return original(self, number, product)

    monkeypatch.setattr(ProductSteps, "_same_bits", same_bits)
    return counts


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_run_by_run_or_together_the_weights_are_the_same(precision, products, monkeypatch):
    by_run = trained(precision=precision)
    assert len(products) == 2 * 30
    with monkeypatch.context() as patch:
        patch.setattr(ProductSteps, "_same_bits", lambda self, number, product: False)
        assert trained(precision=precision) == by_run
    monkeypatch.setattr(sgd, "takes_products", lambda training: False)
    assert trained(precision=precision) == by_run


@pytest.mark.parametrize(
    "training",
    [
        {"momentum": 0.9},
        {"weight_decay": 0.01},
        {"optimizer": "adam"},
        {"lr": {"low": 0.01, "high": 0.02}},
        {"minibatches": "full", "batch_size": 9},
        {"regularizer": "sam", "sam_radius": 0.1},
    ],
)
def test_whatever_needs_the_gradient_itself_has_it(training, products):
    trained(**training)
    assert products == []


def test_a_product_that_rounds_differently_for_one_run_is_computed_for_all(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    left, right, weight = (
        torch.randn(2, *shape, generator=generator) for shape in ((5, 4), (4, 3), (5, 3))
    )
    expected = weight - 0.5 * (left @ right)
    original = torch.mm

    def rough(one, other, **given):
        return original(one, other, **given).mul_(1.25)

    monkeypatch.setattr(torch, "mm", rough)
    ProductSteps().descend([weight], [Product(left, right)], 0.5)
    assert torch.allclose(weight, expected)


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_another_rate_above_is_that_rate_to_the_bit(factor, products):
    """After one step, as later ones see what the others have become."""
    one = {"depth": 4, "iterations": 1}
    found, _ = trained(optimizer="sgd-by-depth", upper_factor=factor, **one)
    assert products
    below, above = (trained(lr=rate, **one)[0] for rate in (0.02, 0.02 * factor))
    for name, bytes_ in found.items():
        upper = "fc3." in name or "fc4." in name
        assert bytes_ == (above if upper else below)[name], name
