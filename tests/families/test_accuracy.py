"""What a grid may ask for beyond losses and accuracies, against torch and against definitions."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from flatlab.data._tensors import prepare
from flatlab.families import accuracy
from flatlab.losses import loss_of
from flatlab.measuring.quantity import settings_of
from flatlab.networks import build
from tests.lab.train.packs import images, small

EXACT = 1e-12
ALL = ["errors", "gaps", "excess-losses", "gradient-norm"]
SMOOTHING = 0.5
SMOOTHED = {"loss": "cross-entropy", "label_smoothing": SMOOTHING}
CASES = [(name, loss) for name in ("vgg", "resnet") for loss in ({"loss": "half-mse"}, SMOOTHED)]


def trained(name, samples=300):
    """A network with batch norm whose running statistics and weights are not those of the start."""
    torch.manual_seed(1)
    raw = images((3, 8, 8), samples, 4)
    splits = prepare(raw, {"classes": "all", "scaling": "channels"})
    model = build(small(name, normalization="batch"), (3, 8, 8), 4).double()
    optimizer = torch.optim.SGD(model.parameters(), 0.02)
    for _ in range(3):
        optimizer.zero_grad()
        functional.cross_entropy(model(splits.train.inputs), splits.train.labels).backward()
        optimizer.step()
    optimizer.zero_grad()
    return model.eval(), splits


def measured(model, splits, loss, **options):
    settings = settings_of("accuracy", options, loss_of(loss))
    return accuracy.measure_splits(model, splits, settings).values


def theirs(outputs, split, loss):
    """The mean loss of a split, by torch's functions."""
    if loss["loss"] == "half-mse":
        return functional.mse_loss(outputs, split.targets, reduction="sum") / (2 * len(split))
    return functional.cross_entropy(outputs, split.labels, label_smoothing=SMOOTHING)


@pytest.mark.parametrize(("name", "loss"), CASES)
def test_all_quantities_are_those_of_torch(name, loss):
    model, splits = trained(name)
    values = measured(model, splits, loss, more=ALL)
    assert set(values) == {name for name, each in accuracy.QUANTITIES.items() if not each.dims}
    found = {}
    for part in ("train", "test"):
        split = getattr(splits, part)
        outputs = model(split.inputs)
        found[part] = theirs(outputs, split, loss)
        mean = float(found[part].detach())
        assert values[f"{part}_loss"] == pytest.approx(mean, rel=EXACT)
        wrong = np.mean(outputs.argmax(1).numpy() != split.labels.numpy())
        found[f"{part} error"] = wrong
        assert values[f"{part}_error"] == 100 * wrong
        assert values[f"{part}_accuracy"] == pytest.approx(100 - 100 * wrong, rel=EXACT)
        excess = found[part]
        if loss is SMOOTHED:
            smoothed = torch.full_like(split.targets, SMOOTHING / 4)
            smoothed += (1 - SMOOTHING) * split.targets
            log = outputs.log_softmax(1)
            excess = functional.kl_div(log, smoothed, reduction="batchmean")
            assert excess < found[part] - 0.5
        assert values[f"{part}_excess_loss"] == pytest.approx(float(excess.detach()), rel=EXACT)
    gap = float((found["test"] - found["train"]).detach())
    assert values["loss_gap"] == pytest.approx(gap, rel=EXACT)
    assert values["absolute_loss_gap"] == pytest.approx(abs(gap), rel=EXACT)
    assert values["error_gap"] == pytest.approx(found["test error"] - found["train error"])
    assert values["accuracy_gap"] == pytest.approx(100 * values["error_gap"], abs=EXACT)
    for kind, found_gap in (("accuracy", values["accuracy_gap"]), ("loss", gap)):
        again = measured(model, splits, loss, generalization_gap=kind)
        assert again["generalization_gap"] == pytest.approx(found_gap, abs=EXACT)
    model.zero_grad()
    found["train"].backward()
    gradient = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    assert values["gradient_norm"] == pytest.approx(float(gradient.norm()), rel=EXACT)
    assert values["gradient_norm"] > 0.01


def test_of_equal_outputs_the_lowest_is_the_class(stripes):
    splits = prepare(stripes, {"classes": "all", "scaling": "unit"})
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).double()
    nn.init.normal_(model[1].weight, generator=torch.Generator().manual_seed(0))
    model[1].bias.data.zero_()
    model[1].weight.data[2] = model[1].weight.data[0]  # outputs 0 and 2 always tie
    values = measured(model, splits, {"loss": "half-mse"})
    for part in ("train", "test"):
        split = getattr(splits, part)
        outputs, labels = model(split.inputs).tolist(), split.labels.tolist()
        tied = [label for f, label in zip(outputs, labels, strict=True) if f[0] == max(f)]
        assert 0 < tied.count(0) < len(tied)
        right = [f.index(max(f)) == label for f, label in zip(outputs, labels, strict=True)]
        assert values[f"{part}_accuracy"] == pytest.approx(100 * np.mean(right), rel=EXACT)


def test_nothing_more_is_computed_than_asked_for(monkeypatch):
    model, splits = trained("vgg", 20)
    monkeypatch.setattr(accuracy, "gradient_norm", None)
    plain = measured(model, splits, SMOOTHED)
    assert len(plain) == 5
    more = measured(model, splits, SMOOTHED, more=["errors"])
    assert set(more) - set(plain) == {"train_error", "test_error"}
    assert all(more[name] == plain[name] for name in plain)


def test_a_measured_network_is_left_as_it_was():
    model, splits = trained("vgg", 20)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    measured(model, splits, SMOOTHED, more=ALL)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_the_gradient_of_a_loss_that_is_a_sum_is_that_of_the_sum():
    model, splits = trained("vgg", 20)
    norm = measured(model, splits, {"loss": "sum-of-squares"}, more=["gradient-norm"])
    mean = measured(model, splits, {"loss": "half-mse"}, more=["gradient-norm"])
    expected = 2 * len(splits.train) * mean["gradient_norm"]
    assert norm["gradient_norm"] == pytest.approx(expected, rel=EXACT)
