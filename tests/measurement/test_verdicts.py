"""Verdicts on derivatives hold for what they were made of, and networks that fit have values."""

import operator
import types
from itertools import cycle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import flatlab
from flatlab.derivatives.checks import derivative_check
from tests.measurement.given import LABELS, Tanh, X, around, behind, perceptron, right


def saturated(scale):
    model = perceptron()
    with torch.no_grad():
        model[4].weight.mul_(scale)
    return model


def fitted(scale):
    model = saturated(scale)
    return model, X, model(X).argmax(1)


def dead(model):
    with torch.no_grad():
        model[0].bias.fill_(-1e3)
    return model


def times(factor):
    """All weights, but not biases."""
    model = perceptron()
    with torch.no_grad():
        for layer in model[::2]:
            layer.weight.mul_(factor)
    return model, X, LABELS


FITTED = {
    "a loss of 1e-12": lambda: fitted(1e2),
    "a loss of 0": lambda: fitted(1e4),
    "saturated units": lambda: times(40),
    "dead units": lambda: (dead(perceptron(nn.ReLU)), X, LABELS),
    "weights of 0": lambda: times(0),
    "softmax inside": lambda: (behind(saturated(1e3), lambda f: f.softmax(1)), X, LABELS),
    "sigmoids inside": lambda: (behind(saturated(1e3), torch.sigmoid), X, LABELS),
}
LINEAR = nn.Linear(4, 3).double()


@pytest.mark.parametrize(
    ("case", "families"),
    [
        *((case, "hessian") for case in FITTED),
        *zip(FITTED, cycle(["spectrum", "geometry", "flatness", "adaptive", "sharpness"])),
    ],
)
def test_a_network_that_fits_or_is_saturated_has_values(case, families):
    model, x, y = FITTED[case]()
    how = {"flatness": ["traces"]} if families == "flatness" else {}
    report = flatlab.measure(model, x, y, families=families, loss="cross-entropy", **how)
    if families == "hessian":
        wanted = right(model, x, y)[0]
        assert report.hessian_lambda_max.item() == pytest.approx(wanted, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize(
    "loss", [lambda f, y: f.abs().sum(1).mean(), lambda f, y: (f * F.one_hot(y, 3)).sum(1).mean()]
)
@pytest.mark.parametrize("family", ["hessian", "spectrum", "sharpness"])
def test_a_loss_that_is_linear_where_the_network_is_has_values(loss, family):
    report = flatlab.measure(LINEAR, X, LABELS, families=family, loss=loss)
    if family == "hessian":
        assert report.hessian_lambda_max.item() == pytest.approx(0, abs=1e-12)


class Wrong(nn.Module):
    """Its second backward pass is not that of its function."""

    def __init__(self, act=Tanh.apply):
        super().__init__()
        self.act, self.behind = act, [nn.Identity()]
        self.register_buffer("again", torch.zeros(()))

    def forward(self, x):
        h = self.behind[0](self.act(x))
        return Tanh.apply(h) if self.again else h


CHANGES = {  # of a perceptron whose second layer is Wrong(torch.tanh)
    "replaced": lambda net: operator.setitem(net, 1, Wrong()),
    "repatched": lambda net: setattr(
        net[1], "forward", types.MethodType(lambda self, x: Tanh.apply(x), net[1])
    ),
    "renamed": lambda net: setattr(net[1], "act", Tanh.apply),
    "by a hook": lambda net: net[1].register_forward_hook(lambda m, x, f: Tanh.apply(f)),
    "in a list": lambda net: operator.setitem(net[1].behind, 0, Tanh.apply),
    "by a buffer": lambda net: net[1].again.fill_(1),
}
AGAIN = "by a hook", "in a list", "by a buffer"
"""The nonlinearity is applied to its outputs."""


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_verdict_on_derivatives_holds_for_what_it_was_made_of(change, tracked):
    model, starts = around(lambda net, x: net(x)), {}
    model.net[1] = Wrong(torch.tanh)
    how = {"families": "hessian", "loss": "cross-entropy"}
    tracker = flatlab.Tracker(model, X, LABELS, every=1, **how)
    first = flatlab.measure(model, X, LABELS, starts=starts, **how)
    tracker(0)
    CHANGES[change](model.net)
    tracker(1)
    second = flatlab.measure(model, X, LABELS, starts=starts, **how)
    found = (
        tracker.table.hessian_lambda_max[1].item() if tracked else second.hessian_lambda_max.item()
    )
    assert "derivatives" not in first.attrs
    assert "derivatives" in second.attrs
    wanted = perceptron()
    if change in AGAIN:
        wanted[1] = nn.Sequential(nn.Tanh(), nn.Tanh())
    assert found == pytest.approx(right(wanted, X)[0], rel=1e-5)


@pytest.fixture
def asked(monkeypatch):
    """One more each time that derivatives are checked."""
    asked, copied = [], derivative_check.double_copy
    monkeypatch.setattr(
        derivative_check, "double_copy", lambda model: asked.append(1) or copied(model)
    )
    return asked


def test_parts_that_are_unfrozen_other_samples_and_other_losses_ask_again(asked):
    model, starts = perceptron(), {}
    model[0].requires_grad_(False)

    def ask(x=X, y=LABELS, **how):
        before = len(asked)
        flatlab.measure(
            model, x, y, **{"families": "hessian", "starts": starts, "loss": "cross-entropy"} | how
        )
        return len(asked) > before

    assert ask()
    with torch.no_grad():
        model[2].weight.add_(1)
    assert not ask()
    model[0].requires_grad_(True)
    assert ask()
    assert not ask()
    assert ask(X + 1)
    assert ask(X[:5], LABELS[:5])
    assert ask(loss=F.cross_entropy)
    assert not ask(loss=F.cross_entropy, families="hessian")
    assert ask(label_smoothing=0.1)
    assert ask(dtype="float32")
    model.register_buffer("other", torch.ones(3))
    assert ask()


def test_families_of_different_losses_have_verdicts_of_their_own(asked):
    how = {"families": ["jacobian", "geometry"], "loss": "cross-entropy"}
    for named, count in ((None, 1), ("half-mse", 3)):
        flatlab.measure(perceptron(), X, LABELS, **how, relative_flatness_loss=named)
        assert len(asked) == count


def test_what_a_tracker_meets_does_not_stop_the_training_and_is_checked_once(asked):
    model = perceptron()
    tracker = flatlab.Tracker(model, X, LABELS, every=1, families="hessian", loss="cross-entropy")
    with pytest.raises(flatlab.MeasureError):
        flatlab.Tracker(model, X, LABELS, loss="no loss")(0)
    asked.clear()
    weight = model[0].weight.detach().clone()

    def at(step, factor):
        with torch.no_grad():
            model[0].weight.copy_(factor * weight)
        tracker(step)

    for step, factor in enumerate([torch.nan, 1, torch.nan, 0.9]):
        at(step, factor)
    assert len(asked) == 1  # nothing can be checked at weights that are not finite
    model.forward = lambda x: 1 / 0
    with pytest.warns(UserWarning, match="not measured at step 4"):
        tracker(4)
    del model.forward
    at(5, 0.8)
    values = tracker.table.hessian_lambda_max.values
    assert np.isfinite(values).tolist() == [False, True, False, True, False, True]
    assert tracker.table.attrs["failures"][0].startswith("step 4: ")
