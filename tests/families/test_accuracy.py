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
    model.zero_grad()
    found["train"].backward()
    gradient = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    assert values["gradient_norm"] == pytest.approx(float(gradient.norm()), rel=EXACT)
    assert values["gradient_norm"] > 0.01


def accuracy_reference(splits, outputs, gap):
    """Losses and accuracies, sample by sample, and one of the definitions of the gap."""
    result = {}
    for name in ("train", "test"):
        split, losses, right = getattr(splits, name), [], []
        for f, target, label in zip(outputs[name], split.targets, split.labels, strict=True):
            pairs = zip(f.tolist(), target.tolist(), strict=True)
            losses.append(sum((a - b) ** 2 for a, b in pairs) / 2)
            winner = min(k for k in range(len(f)) if f[k] == max(f))  # ties: the lowest
            right.append(winner == int(label))
        result[f"{name}_loss"] = np.mean(losses)
        result[f"{name}_accuracy"] = 100 * np.mean(right)
    if gap == "accuracy":
        result["generalization_gap"] = result["train_accuracy"] - result["test_accuracy"]
    else:
        result["generalization_gap"] = result["test_loss"] - result["train_loss"]
    return result


@pytest.mark.parametrize("gap", ["accuracy", "loss"])
def test_every_quantity_of_accuracy_equals_its_definition(gap, stripes):
    splits = prepare(stripes, {"classes": "all", "scaling": "unit"})
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).double()
    nn.init.normal_(model[1].weight, generator=torch.Generator().manual_seed(0))
    model[1].bias.data.zero_()
    model[1].weight.data[2] = model[1].weight.data[0]  # outputs 0 and 2 always tie
    with torch.no_grad():
        outputs = {name: model(getattr(splits, name).inputs) for name in ("train", "test")}
    tied = outputs["train"][:, 0] == outputs["train"].max(1).values
    assert 0 < sum(tied & (splits.train.labels == 0)) < sum(tied)
    expected = accuracy_reference(splits, outputs, gap)
    values = measured(model, splits, {"loss": "half-mse"}, generalization_gap=gap)
    assert set(values) == set(expected)
    for name, value in expected.items():
        assert values[name] == pytest.approx(value, rel=1e-10), name


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
