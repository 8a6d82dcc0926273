"""Landscapes and barriers against losses that are written out."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab.networks._transformations import transformed
from tests.measurement.comparing import assert_same_state, state
from tests.networks.small_networks import small
from tests.refusals import refused


@torch.no_grad()
def cross_entropy(model, x, labels):
    return float(nn.functional.cross_entropy(model(x), labels))


def moved(model, other, share):
    between = copy.deepcopy(model)
    for tensor, end in zip(*(m.state_dict().values() for m in (between, other)), strict=True):
        if tensor.is_floating_point():
            tensor.lerp_(end, share)
    return between


@pytest.mark.parametrize("name", ["mlp-tanh", "vgg"])
@pytest.mark.parametrize("mode", ["eval", "train"])
def test_a_line_between_two_networks(name, mode):
    model, x, labels = small(name)
    other, _, _ = small(name, seed=1)
    before = state(model), state(other)
    how = {"loss": "cross-entropy", "batch_norm": mode, "batch_size": 4}
    line = flatlab.landscape(model, x, labels, along=[other], span=(0, 1), points=5, **how)
    assert_same_state(before[0], state(model))
    assert_same_state(before[1], state(other))
    assert line.network_first.values.tolist() == [0, 1]
    assert line.attrs["batch_norm"] == mode
    for share, value, accuracy in zip(line.first, line.loss, line.accuracy, strict=True):
        network = moved(model, other, float(share)).train(mode == "train")
        assert float(value) == pytest.approx(cross_entropy(network, x, labels), rel=1e-10)
        right = (network(x).argmax(1) == labels).double().mean()
        assert float(accuracy) == pytest.approx(float(right))


def test_beyond_the_networks_variances_stay_at_zero():
    (model, x, labels), (other, _, _) = small("vgg"), small("vgg", seed=1)
    variances = [n for n in model.state_dict() if n.endswith("running_var")]
    for name in variances:
        other.state_dict()[name].copy_(3 * model.state_dict()[name])
    line = flatlab.landscape(model, x, labels, along=[other], span=(-2, 1), points=4)
    assert variances
    assert np.isfinite(line.loss).all()


def test_a_plane_has_its_three_networks_where_it_says():
    networks = [small("vgg", seed)[0] for seed in range(3)]
    _, x, labels = small("vgg")
    options = {"along": networks[1:], "loss": "cross-entropy"}
    plane = flatlab.landscape(networks[0], x, labels, points=2, **options)
    assert plane.loss.dims == ("first", "second")
    theta = [nn.utils.parameters_to_vector(n.parameters()).detach() for n in networks]
    places = np.stack([plane.network_first, plane.network_second], 1)
    for a in range(3):
        for b in range(3):
            length = (theta[a] - theta[b]).norm() / (theta[1] - theta[0]).norm()
            assert np.linalg.norm(places[a] - places[b]) == pytest.approx(float(length))
    for network, (first, second) in zip(networks, places, strict=True):
        ends = (min(first, second), max(first, second) + 1e-30)
        corner = flatlab.landscape(networks[0], x, labels, points=2, span=ends, **options)
        value = corner.loss.sel(first=first, second=second, method="nearest")
        assert float(value) == pytest.approx(cross_entropy(network, x, labels), rel=1e-8)


def test_random_directions_are_normalized_by_filters():
    model, x, labels = small("lenet")
    model[0].weight.data[1] = 0  # a filter without length does not move
    from flatlab.api.landscape import random_direction

    direction = random_direction(model, torch.Generator().manual_seed(3))
    for name, weight in model.named_parameters():
        if weight.ndim < 2:
            assert name not in direction
        else:
            norms = direction[name].flatten(1).norm(dim=1)
            assert torch.allclose(norms, weight.flatten(1).norm(dim=1))
    line = flatlab.landscape(model, x, labels, points=3, seed=3, loss="cross-entropy")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight += direction.get(name, torch.zeros_like(weight))
    assert float(line.loss[-1]) == pytest.approx(cross_entropy(model, x, labels), rel=1e-9)


def test_curvature_along_the_top_eigenvectors_is_their_eigenvalue():
    model, x, labels = small("mlp-tanh")
    step = 1e-3
    given, loss = (model, x, labels), {"loss": "cross-entropy"}
    how = {"along": "eigenvectors", "dimensions": 2, "span": (-step, step), "points": 3}
    plane = flatlab.landscape(*given, **how, **loss)
    report = flatlab.measure(*given, families="spectrum", largest=2, **loss)
    found = report.largest_eigenvalue.values.flatten()
    loss = plane.loss.values
    curved = [loss[2, 1] - 2 * loss[1, 1] + loss[0, 1], loss[1, 2] - 2 * loss[1, 1] + loss[1, 0]]
    assert np.array(curved) / step**2 == pytest.approx(found, rel=1e-3)


def test_barriers_between_permuted_networks_and_none_to_itself():
    model, x, labels = small("mlp-relu")
    permuted = transformed(model, "permutation", 1)
    networks = [model, permuted, copy.deepcopy(model)]
    found = flatlab.barriers(networks, x, labels, loss="cross-entropy", points=11)
    shares = np.linspace(0, 1, 11)
    losses = [cross_entropy(moved(model, permuted, s), x, labels) for s in shares]
    excess = np.array(losses) - losses[0]  # the ends have the same loss
    assert found.barrier.values[0, 1] == pytest.approx(max(excess.max(), 0), abs=1e-12)
    assert found.barrier.values[0, 2] == pytest.approx(0, abs=1e-12)
    assert np.array_equal(found.barrier.values, found.barrier.values.T)
    assert found.highest_at.values[0, 1] == pytest.approx(1 - found.highest_at.values[1, 0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"along": "up"}, "neither random nor eigenvectors"),
        ({"along": [1]}, "list of other networks"),
        ({"dimensions": 3}, "1 or 2 dimensions"),
        ({"points": 1}, "at least 2"),
        ({"batch_norm": "both"}, "batch_norm='both'"),
        ({"along": [nn.Linear(5, 3).double()]}, "differ in the names"),
        ({"loss": "squares"}, "squares"),
        ({"label_smoothing": 0.1}, "label_smoothing"),
    ],
)
def test_what_has_no_landscape_is_refused_in_a_sentence(options, message):
    model, x, labels = small("mlp-relu")
    refused(message, flatlab.landscape, model, x, labels, **options)


def test_networks_on_a_line_span_no_plane_and_one_network_has_no_barrier():
    model, x, labels = small("mlp-relu")
    other, _, _ = small("mlp-relu", seed=1)
    between = moved(model, other, 0.5)
    refused("lie on a line", flatlab.landscape, model, x, labels, along=[other, between])
    refused("there are 1", flatlab.barriers, [model], x, labels)
    with torch.no_grad():
        [*model.parameters()][-2].mul_(1e30)
    refused("overflow in float32", flatlab.landscape, model, x, labels, dtype="float32")


def test_outputs_that_are_not_finite_have_no_accuracy_barrier_or_eigenvectors():
    model, x, labels = small("mlp-relu")
    broken = nn.Sequential(copy.deepcopy(model), nn.Threshold(1e9, torch.nan))
    assert flatlab.landscape(broken, x, labels, points=3).accuracy.isnull().all()
    found = flatlab.barriers([broken, copy.deepcopy(broken)], x, labels, points=3)
    assert np.isnan([found.barrier[0, 1], found.highest_at[0, 1]]).all()
    refused("not finite", flatlab.landscape, broken, x, labels, along="eigenvectors")
