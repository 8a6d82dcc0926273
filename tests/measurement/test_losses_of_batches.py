"""A loss that is a function takes all that a batch has beside the inputs."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

import flatlab
from tests.measurement.batches import (
    Language,
    by_place,
    measured,
    network,
    samples,
    true_eigenvalues,
    weighted,
)
from tests.refusals import refusal


@pytest.fixture
def net():
    return network()


@pytest.fixture
def parts():
    return samples()


def test_targets_by_name_and_by_place_have_the_eigenvalues_of_the_whole_hessian(net, parts):
    x, y, w = parts
    expected = true_eigenvalues(net, x, y, w)
    for found in (
        measured(net, x, {"labels": y, "weight": w}),
        measured(net, x, (y, w), by_place),
        measured(net, {"x": x}, {"labels": y, "weight": w}),
        measured(net, {"x": x, "labels": y, "weight": w}),
    ):
        assert found == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("size", [1, 5, 12])
def test_batches_bring_what_the_network_does_not_take(net, parts, size):
    x, y, w = parts
    expected = measured(net, x, {"labels": y, "weight": w})
    rows = [{"x": a, "labels": b, "weight": c} for a, b, c in zip(x, y, w, strict=True)]
    tuples = [(a, (b, c)) for a, b, c in zip(x, y, w, strict=True)]
    assert measured(net, DataLoader(rows, size)) == pytest.approx(expected, rel=1e-8)
    assert measured(net, DataLoader(tuples, size), None, by_place) == pytest.approx(
        expected, rel=1e-8
    )
    short = measured(net, DataLoader(rows, size), samples=7)
    first = {"labels": y[:7], "weight": w[:7]}
    assert short == pytest.approx(measured(net, x[:7], first), rel=1e-8)


def test_other_inputs_of_a_batch_may_be_for_the_loss(net, parts):
    """What a network takes is not given to the loss; what it reconstructs is a target."""
    x = parts[0]
    batches = [{"x": x, "whole": x[:, :3] * 2, "scale": parts[2]}]

    def reconstruction(f, batch):
        return (batch["scale"][:, None] * (f - batch["whole"]) ** 2).sum(1).mean()

    found = measured(net, batches, None, reconstruction)
    packed = torch.cat([x[:, :3] * 2, parts[2][:, None]], 1)

    def of_columns(f, y):
        return (y[:, 3:] * (f - y[:, :3]) ** 2).sum(1).mean()

    assert found == pytest.approx(measured(net, x, packed, of_columns), rel=1e-10)


def test_float32_networks_and_modules_with_constants(net, parts):
    x, y, w = parts

    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("of_classes", torch.tensor([1.0, 2.0, 0.5]))

        def forward(self, f, batch):
            return (
                batch["weight"]
                * F.cross_entropy(f, batch["labels"], self.of_classes, reduction="none")
            ).mean()

    double = measured(net, x, {"labels": y, "weight": w}, Weighted().double())
    single = measured(net.float(), x.float(), {"labels": y, "weight": w.float()}, Weighted())
    assert single == pytest.approx(double, rel=1e-3)


def test_a_language_model_with_weights_of_sequences():
    torch.manual_seed(0)

    model, tokens = Language().double(), torch.randint(7, (6, 5))
    weight = torch.rand(6, dtype=torch.float64)
    batch = {"input_ids": tokens[:, :-1], "labels": tokens[:, 1:], "sample_weight": weight}

    def loss(f, given):
        values = F.cross_entropy(f.movedim(-1, 1), given["labels"], reduction="none").mean(1)
        return (given["sample_weight"] * values).mean()

    how = {"families": "hessian", "loss": loss, "dtype": "float64"}
    value = float(flatlab.measure(model, batch, **how)["hessian_lambda_max"])
    loaded = flatlab.measure(
        model, [{k: v[:3] for k, v in batch.items()}, {k: v[3:] for k, v in batch.items()}], **how
    )
    assert float(loaded["hessian_lambda_max"]) == pytest.approx(value, rel=1e-10)
    once = flatlab.measure(
        model, tokens[:, :-1], {"labels": tokens[:, 1:], "sample_weight": weight}, **how
    )
    assert float(once["hessian_lambda_max"]) == value > 0


def test_masks_are_targets_and_large_integers_survive(net, parts):
    x, y, _ = parts
    mask, identity = y != 1, 2**53 - torch.arange(12)

    def masked(f, batch):
        assert (batch["mask"].dtype, batch["identity"].dtype) == (torch.bool, torch.long)
        assert set(batch["identity"].tolist()) <= set(identity.tolist())
        return (batch["mask"] * F.cross_entropy(f, batch["labels"], reduction="none")).mean()

    given = {"labels": y, "mask": mask, "identity": identity}
    expected = true_eigenvalues(net, x, y, mask.double())
    assert measured(net, x, given, masked) == pytest.approx(expected, rel=1e-8)
    for extreme in (2**53 + 1, -(2**63)):
        given["identity"] = torch.full((12,), extreme)
        words = refusal(flatlab.MeasureError, measured, net, x, given, masked)
        assert "integers beyond 9007199254740992" in words


@pytest.mark.parametrize("many", [True, False])
def test_a_row_for_each_sample_is_one_target(net, parts, many):
    """As before there were several: for a loss by name, from rows, loaders of rows, and few."""
    x, y, _ = parts
    rows = F.one_hot(y, 3).double()
    loss = "half-mse" if many else lambda f, t: (f - t).square().sum(1).mean() / 2
    expected = measured(net, x, rows, "half-mse")
    of_five = measured(net, x[:5], rows[:5], "half-mse")
    for kind in (tuple, list):
        assert measured(net, x, kind(rows), loss) == pytest.approx(expected, rel=1e-8)
        assert measured(net, x, kind(rows), loss, samples=5) == pytest.approx(of_five, rel=1e-8)
        batches = [(a, kind(b)) for a, b in zip(x.split(5), rows.split(5), strict=True)]
        assert measured(net, batches, None, loss) == pytest.approx(expected, rel=1e-8)


def test_a_batch_of_as_many_samples_as_targets_has_several(net, parts):
    x, y, w = parts
    batches = list(zip(x.split(2), zip(y.split(2), w.split(2), strict=True), strict=True))
    found = measured(net, batches, None, by_place)
    assert found == pytest.approx(true_eigenvalues(net, x, y, w), rel=1e-8)


def test_padding_of_sequences_counts_for_nothing():
    torch.manual_seed(0)

    def loss(f, given):
        values = F.cross_entropy(f.movedim(-1, 1), given["labels"], reduction="none").sum(1)
        return (given["sample_weight"] * values).mean()

    model, tokens = Language().double(), torch.randint(7, (6, 5))
    mask = torch.ones(6, 5, dtype=torch.long)
    mask[:3, 3:] = 0
    given = {"labels": tokens.flip(1).masked_fill(mask == 0, -100)}
    given["sample_weight"] = torch.rand(6, dtype=torch.float64)
    batch = {"input_ids": tokens, "attention_mask": mask, **given}
    found = flatlab.measure(model, batch, families="hessian", loss=loss)
    without = flatlab.measure(model, tokens, given, families="hessian", loss=loss)
    assert found.attrs["positions_ignored"] == 6
    for name in ("hessian_lambda_max", "gauss_newton_lambda_max"):
        assert found[name].item() == pytest.approx(without[name].item(), rel=1e-6)


@pytest.mark.parametrize(
    ("loss", "targets", "words"),
    [
        ("cross-entropy", "both", "there are 2 targets (labels, weight): a loss by name takes one"),
        (lambda f, y: (y["weight"] * f[:, 0]).sum() ** 2, "both", "neither the mean nor the sum"),
        (lambda f, y: f.mean() * y["nothing"], "both", "the loss raises KeyError: 'nothing'"),
        (weighted, "short", "targets have different numbers of samples: (12,), (9,)"),
        (weighted, "large", "a target has integers beyond 16777216, which torch.float32"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(net, parts, loss, targets, words):
    x, y, w = parts
    given = {"labels": y, "weight": w}
    if targets == "short":
        given["weight"] = w[:9]
    if targets == "large":
        net, x, given["labels"] = net.float(), x.float(), y + 2**25
    assert words in refusal(flatlab.MeasureError, measured, net, x, given, loss)


def test_a_tuple_of_numbers_is_one_target_for_each_sample(net, parts):
    x, y, _ = parts
    expected = measured(net, x, y, "cross-entropy")
    assert (measured(net, x, tuple(y.tolist()), "cross-entropy") == expected).all()
