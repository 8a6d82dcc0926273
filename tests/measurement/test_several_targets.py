"""A loss that is a function takes all that a batch has beside the inputs, in whatever family."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

import flatlab
from flatlab.core.registry import keys_of, measures_samples
from tests.refusals import refused

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


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net().double()


@pytest.fixture
def parts():
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
    by_tuples = measured(net, DataLoader(tuples, size), None, by_place)
    assert by_tuples == pytest.approx(expected, rel=1e-8)
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
            values = F.cross_entropy(f, batch["labels"], self.of_classes, reduction="none")
            return (batch["weight"] * values).mean()

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

    def value(*data):
        how = {"families": "hessian", "loss": loss, "dtype": "float64"}
        return float(flatlab.measure(model, *data, **how)["hessian_lambda_max"])

    whole, inputs = value(batch), batch.pop("input_ids")
    assert value(inputs, batch) == whole > 0
    batch["input_ids"] = inputs
    halves = [{k: v[:3] for k, v in batch.items()}, {k: v[3:] for k, v in batch.items()}]
    assert value(halves) == pytest.approx(whole, rel=1e-10)


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
        refused("integers beyond 9007199254740992", measured, net, x, given, masked)


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
    refused(words, measured, net, x, given, loss)


def test_a_tuple_of_numbers_is_one_target_for_each_sample(net, parts):
    x, y, _ = parts
    expected = measured(net, x, y, "cross-entropy")
    assert (measured(net, x, tuple(y.tolist()), "cross-entropy") == expected).all()


NO_MEANING = {
    "adaptive": "there are several targets",
    "capacity": "capacity: a loss that is a function has no closed form",
    "diagonal": "diagonal is for diagonal linear networks",
    "geometry": "geometry: a loss that is a function has no closed form",
    "linear": "linear is for classifiers that are one linear layer",
    "ma-ying": "ma-ying: a loss that is a function has no closed form",
    "redrawn": "redrawn: a loss that is a function has no closed form",
    "sharpness": "there are several targets",
}
"""Families that have no meaning for such a loss by default, or for this network, in a sentence."""


@pytest.mark.parametrize("family", [k for k in keys_of("metrics") if measures_samples(k)])
def test_no_family_takes_several_targets_for_outputs(net, parts, family):
    """Here there are as many numbers of targets as outputs."""
    x, y, w = parts
    given = {"labels": y, "weight": torch.stack([w, 2 * w], 1)}
    baked = torch.cat([y[:, None].double(), given["weight"]], 1)

    def loss(f, batch):
        values = F.cross_entropy(f, batch["labels"], reduction="none")
        return (batch["weight"][:, 1] * values).mean()

    def of_columns(f, columns):
        return loss(f, {"labels": columns[:, 0].long(), "weight": columns[:, 1:]})

    if family in NO_MEANING:
        how = {"families": family, "loss": loss}
        return refused(NO_MEANING[family], flatlab.measure, net, x, given, **how)
    report = flatlab.measure(net, x, given, families=family, loss=loss)
    same = flatlab.measure(net, x, baked, families=family, loss=of_columns)
    assert report.equals(same)


def test_sharpness_and_adaptive_have_a_meaning_by_their_options(net, parts):
    x, y, w = parts
    given = {"labels": y, "weight": w}
    how = {"sharpness_loss": None, "sharpness_steps": 2, "sharpness_draws": 2}
    how["sharpness_radii"] = {"worst-standard-linf": [0.001]}
    found = flatlab.measure(net, x, given, families="sharpness", loss=weighted, **how)
    slopes = torch.autograd.grad(weighted(net(x), given), [*net.parameters()])
    steepest = 0.001 * sum(float(slope.abs().sum()) for slope in slopes)  # and the curvature
    assert found["sharpness_at_radius"].item() == pytest.approx(steepest, rel=0.05)
    found = flatlab.measure(net, x, given, families="adaptive", loss=weighted, own_targets=True)
    without = flatlab.measure(net, x, y, families="adaptive", own_targets=True)
    assert found.equals(without)


def test_closed_forms_of_one_layer_do_not_read_several_targets(parts):
    x, y, w = parts
    layer, how = nn.Linear(4, 3, bias=False).double(), {"families": "linear", "loss": weighted}
    words = "the sharpness of a classifier needs targets: classes"
    refused(words, flatlab.measure, layer, x, {"labels": y, "weight": w}, **how)


def test_a_tracker_takes_batches_with_more_than_labels(net, parts):
    x, y, w = parts
    batches = [{"x": x[n], "labels": y[n], "weight": w[n]} for n in (slice(5), slice(5, None))]
    how = {"families": "spectrum", "loss": weighted, "largest": 5, "residual": 1e-10}
    tracker = flatlab.Tracker(net, batches, every=1, **how)
    tracker(0)
    found = tracker.table["largest_eigenvalue"].values.ravel()
    assert found == pytest.approx(true_eigenvalues(net, x, y, w), rel=1e-8)
    loss = float(weighted(net(x).detach(), {"labels": y, "weight": w}))
    assert tracker.table["loss"].item() == pytest.approx(loss, rel=1e-12)
