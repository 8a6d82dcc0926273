"""What each family, and the tracker, makes of several targets."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import flatlab
from flatlab.core.registry import keys_of, measures_samples
from tests.measurement.batches import network, samples, true_eigenvalues, weighted
from tests.refusals import refusal


@pytest.fixture
def net():
    return network()


@pytest.fixture
def parts():
    return samples()


NO_MEANING = {
    "adaptive": "there are several targets",
    "capacity": "capacity: a loss that is a function has no closed form",
    "diagonal": "diagonal is for diagonal linear networks",
    "geometry": "geometry: a loss that is a function has no closed form",
    "linear": "linear is for classifiers that are one linear layer",
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
        words = refusal(
            flatlab.MeasureError, flatlab.measure, net, x, given, families=family, loss=loss
        )
        assert NO_MEANING[family] in words
        return
    report = flatlab.measure(net, x, given, families=family, loss=loss)
    same = flatlab.measure(net, x, baked, families=family, loss=of_columns)
    assert report.equals(same)


def test_sharpness_and_adaptive_have_a_meaning_by_their_options(net, parts):
    x, y, w = parts
    given = {"labels": y, "weight": w}
    how = {"sharpness_loss": None, "sharpness_steps": 2, "sharpness_draws": 2}
    radii = {"worst-standard-linf": [0.001]}
    found = flatlab.measure(
        net, x, given, families="sharpness", loss=weighted, sharpness_radii=radii, **how
    )
    slopes = torch.autograd.grad(weighted(net(x), given), [*net.parameters()])
    steepest = 0.001 * sum(float(slope.abs().sum()) for slope in slopes)  # and the curvature
    assert found["sharpness_at_radius"].item() == pytest.approx(steepest, rel=0.05)
    found = flatlab.measure(net, x, given, families="adaptive", loss=weighted, own_targets=True)
    without = flatlab.measure(net, x, y, families="adaptive", own_targets=True)
    assert found.equals(without)


def test_closed_forms_of_one_layer_do_not_read_several_targets(parts):
    x, y, w = parts
    layer = nn.Linear(4, 3, bias=False).double()
    words = refusal(
        flatlab.MeasureError,
        flatlab.measure,
        layer,
        x,
        {"labels": y, "weight": w},
        families="linear",
        loss=weighted,
    )
    assert words == "the sharpness of a classifier needs targets: classes"


def test_a_tracker_takes_batches_with_more_than_labels(net, parts):
    x, y, w = parts
    batches = [
        {"x": x[:5], "labels": y[:5], "weight": w[:5]},
        {"x": x[5:], "labels": y[5:], "weight": w[5:]},
    ]
    tracker = flatlab.Tracker(
        net, batches, every=1, families="spectrum", loss=weighted, largest=5, residual=1e-10
    )
    tracker(0)
    found = tracker.table["largest_eigenvalue"].values.ravel()
    assert found == pytest.approx(true_eigenvalues(net, x, y, w), rel=1e-8)
    assert tracker.table["loss"].item() == pytest.approx(
        float(weighted(net(x).detach(), {"labels": y, "weight": w})), rel=1e-12
    )
