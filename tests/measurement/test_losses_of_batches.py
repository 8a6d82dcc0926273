"""A loss that is a function takes all that a batch has beside the inputs."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

import flatlab
from tests.refusals import refusal

FAMILIES = ["hessian", "spectrum"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net().double()


@pytest.fixture
def parts():
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

    class Language(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(7, 4), nn.Linear(4, 7)

        def forward(self, input_ids, attention_mask=None):
            return {"logits": self.head(torch.tanh(self.embedding(input_ids)))}

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
