"""Relative flatness and traces of Hessians against double backward, for networks of every kind."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import flatlab
from flatlab.derivatives.second_order.layer_curvature import DENSE, largest_of_blocks
from flatlab.derivatives.second_order.second_pass import piecewise_linear
from tests.networks import small_networks as networks
from tests.networks.small_networks import (
    DIAGONAL,
    LINEAR,
    LOSSES,
    flatness,
    hessian,
    small,
    targets_for,
)
from tests.networks.whole import hessian_of
from tests.networks.written import Written
from tests.refusals import refused

EXACT, SINGLE = 1e-9, 1e-4


def measured(model, inputs, targets, loss="cross-entropy", **options):
    options = {"flatness": ["exact", "maximal"], **LOSSES[loss], **options}
    return flatlab.measure(model, inputs, targets, families=["flatness"], **options)


def normalized(model, inputs, layer):
    """The same function with features of standard deviation 1 or, if constant, 0: for one layer."""
    model, seen = copy.deepcopy(model), []
    module = model.get_submodule(layer)
    handle = module.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))
    model(inputs)
    handle.remove()
    deviation = seen[0].std(0, correction=0)
    alive = deviation > 1e-9
    inverse = torch.where(alive, 1 / deviation, 0.0)
    constant = module.weight.data @ (seen[0][0] * ~alive)
    module.weight.data *= deviation * alive
    module.register_forward_pre_hook(lambda _, given: (given[0] * inverse,))
    module.register_forward_hook(lambda _, given, output: output + constant)
    return model


def traces(model, function):
    """Of the Hessian in each parameter, by name."""
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    return {n: np.trace(hessian(model, n, function).reshape(k, k)) for n, k in sizes.items()}


@pytest.mark.first(6)
@pytest.mark.parametrize(("name", "loss"), DIAGONAL)
def test_layers_and_all_parameters_have_what_their_hessian_says(name, loss):
    """Layers as they are and normalized; traces of convolutions too; in float64 and in float32."""
    model, inputs, labels = small(name)
    targets = targets_for(loss, labels)
    parts = ["exact", "maximal"] + ["traces"] * (name != "timm")  # which is large
    found = measured(model, inputs, targets, loss, flatness=parts)
    single = measured(model, inputs, targets, loss, flatness=parts, dtype="float32")
    if "traces" in parts:
        expected = traces(model, networks.total_loss(model, inputs, targets, loss))
        for layer, own in zip(found.layer.values, found.hessian_trace_per_layer, strict=True):
            assert own == pytest.approx(expected[f"{layer}.weight"], rel=EXACT), layer
        total = sum(expected.values())
        assert found.hessian_trace == pytest.approx(total, rel=EXACT)
        assert single.hessian_trace == pytest.approx(total, rel=SINGLE)
        assert found.hessian_trace_error == found.attrs["hessian_probes"] == 0
    assert found.layer.values[found.features.notnull()].tolist() == LINEAR[name]
    for layer in LINEAR[name]:
        weight = f"{layer}.weight"
        other = normalized(model, inputs, layer)
        for network, head in ((model, ""), (other, "normalized_")):
            matrix = network.get_parameter(weight).detach().numpy()
            blocks = hessian(network, weight, networks.total_loss(network, inputs, targets, loss))
            kappa_trace, kappa, _ = flatness(matrix, blocks)
            for key, value in ((f"{head}kappa_trace", kappa_trace), (f"{head}kappa_max", kappa)):
                assert found[key].sel(layer=layer) == pytest.approx(value, rel=EXACT), (layer, key)
                close = pytest.approx(value, rel=SINGLE, abs=1e-5)
                assert single[key].sel(layer=layer) == close, (layer, key)


def test_piecewise_linear_networks_are_recognized_and_no_others():
    found = {name: piecewise_linear(small(name)[0](small(name)[1])) for name in LINEAR}
    assert found == {name: name in networks.PIECEWISE_LINEAR for name in LINEAR}


@pytest.mark.parametrize(
    "curved",
    [
        lambda x, w: x * x,
        lambda x, w: x * w[0] * w[0],
        lambda x, w: x @ w @ w,
        lambda x, w: torch.relu(x @ w) + x @ w,
        lambda x, w: 1 / x,
        lambda x, w: nn.functional.instance_norm(x[:, None] * w.diagonal())[:, 0],
        lambda x, w: (x @ w).softmax(1),
    ],
)
def test_curved_operations_are_not_taken_for_linear_ones(curved):
    """Nor a parameter that is used twice, of which an output may be a square."""
    x, w = torch.randn(4, 3), nn.Parameter(torch.randn(3, 3))
    assert not piecewise_linear(curved(x * nn.Parameter(torch.ones(3)), w))
    assert piecewise_linear(torch.relu(x @ w))


def test_largest_eigenvalues_of_many_features_are_those_of_few(normal):
    """The iteration, and the reduction to the space of the features."""
    size = DENSE + 30
    x, curvature = normal(size + 5, size), normal(size + 5, 3)
    expected = [np.linalg.eigvalsh((x.T * c) @ x)[-1] for c in curvature.T]
    assert largest_of_blocks(x, curvature).numpy() == pytest.approx(expected, rel=EXACT)
    few, negative = x[:6], -curvature[:6].abs()
    assert largest_of_blocks(few, negative).numpy() == pytest.approx(0)
    expected = [np.linalg.eigvalsh((few.T * c) @ few)[-1] for c in curvature[:6].T]
    assert largest_of_blocks(few, curvature[:6]).numpy() == pytest.approx(expected, rel=EXACT)


@pytest.mark.parametrize("samples", [20, DENSE + 40])
@pytest.mark.parametrize("features", [10, DENSE + 60])
@pytest.mark.parametrize("active", [0.0, 0.3, 0.9, 1.0])
def test_largest_eigenvalues_behind_a_relu(normal, samples, features, active):
    """The curvature is never negative, and 0 where a neuron is inactive."""
    x, curvature = normal(samples, features), normal(samples, 3).square()
    curvature[: round((1 - active) * samples)] = 0
    expected = [np.linalg.eigvalsh((x.T * c) @ x)[-1] for c in curvature.T]
    found = largest_of_blocks(x, curvature)
    assert found.numpy() == pytest.approx(expected, rel=EXACT, abs=1e-12)
    assert (found >= 0).all()


def test_a_dead_unit_is_a_constant_feature_and_piecewise_linear_networks_need_no_targets(
    mlp, normal
):
    model, x = mlp((4, 6, 5, 3), seed=2), normal(30, 4)
    model[0].bias.data[1] = -100.0
    for number, factor in ((0, 1.0), (3, 3.0)):  # whose difference is 0 but for rounding
        model[0].weight.data[number] = factor * torch.tensor([1.0, 0.5, -0.25, 0.75])
        model[0].bias.data[number] = factor
    model[2].weight.data[2] = torch.tensor([999.0, 0, 0, -333.0, 0, 0])
    model[2].bias.data[2] = 10.0
    found, free = (measured(model, x, y) for y in (torch.arange(30) % 3, None))
    assert found.features.values.tolist() == [4, 6, 5]
    assert found.features_constant.values.tolist() == [0, 1, 3]
    assert free.normalized_kappa_trace.values == pytest.approx(found.normalized_kappa_trace.values)


def test_layers_can_be_chosen():
    model, inputs, labels = small("mlp-tanh")
    whole = measured(model, inputs, labels)
    few = measured(model, inputs, labels, flatness_layers=["fc3"])
    for key in ("kappa_trace", "kappa_max", "normalized_kappa_trace", "normalized_kappa_max"):
        assert few[key][2].item() == pytest.approx(whole[key][2].item(), rel=1e-12)
        assert np.isnan(few[key].sel(layer=["fc1", "fc2"])).all()


def test_families_with_layers_go_together():
    model, inputs, labels = small("lenet")
    families = ["geometry", "flatness", "capacity"]
    found = flatlab.measure(model, inputs, labels, families=families)
    assert found.layer.values.tolist() == ["0", "3", "6", "8"]
    assert np.isnan(found.kappa_trace.values[:2]).all()
    np.testing.assert_allclose(found.kappa_trace[2:], found.relative_flatness[2:], rtol=1e-10)


@pytest.mark.parametrize("name", ["mlp-relu", "mlp-tanh", "resnet"])
def test_single_precision_is_enough_for_classes_that_are_almost_certain(name):
    """Where a probability is 1 in float32, and the curvature of the loss is tiny."""
    model, inputs, _ = small(name)
    last = model.get_submodule(LINEAR[name][-1])
    labels = model(inputs).argmax(1)
    gaps = model(inputs).detach().topk(2).values @ torch.tensor([1.0, -1.0], dtype=torch.float64)
    last.weight.data *= 18 / float(gaps.median())
    how = {"flatness": ["exact", "maximal", "traces"]}
    exact, single = (measured(model, inputs, labels, dtype=f"float{n}", **how) for n in (64, 32))
    rows = slice(exact.layer.values.tolist().index(LINEAR[name][0]), None)
    keys = ["kappa_trace", "kappa_max", "normalized_kappa_trace"]
    for key in keys + ["hessian_trace_per_layer"] * (name != "mlp-tanh"):
        assert single[key][rows].values == pytest.approx(exact[key][rows].values, rel=1e-3), key


@pytest.mark.parametrize("name", ["mlp-relu", "mlp-tanh"])
def test_weights_that_are_frozen_have_no_trace(name):
    model, inputs, labels = small(name)
    model.fc1.weight.requires_grad_(False)
    own = measured(model, inputs, labels, flatness=["traces"]).hessian_trace_per_layer
    assert own.isnull().values.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("name", "change", "options", "words"),
    [
        ("mlp-relu", None, {"flatness_layers": ["fc4"]}, "did you mean 'fc3'"),
        ("lenet", None, {"flatness_layers": ["0"]}, "it is a Conv2d"),
        ("simple-vit", None, {"flatness_layers": ["embed"]}, "several positions"),
        ("mlp-tanh", "no targets", {}, "behind layer 'fc1' is not piecewise linear"),
        ("mlp-relu", None, {"loss": "logistic"}, "targets +1 and -1"),
        ("resnet", "train", {}, "call model.eval()"),
        ("mlp-relu", "twice", {"flatness_layers": ["0"]}, "it is used 2 times"),
        ("mlp-relu", "tied", {"flatness_layers": ["0"]}, "also used elsewhere"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_a_sentence(name, change, options, words):
    model, inputs, labels = small(name)
    if change == "train":
        model.train()
    if change in ("twice", "tied"):
        one, two = nn.Linear(5, 5).double(), nn.Linear(5, 5).double()
        two.weight = one.weight
        model = nn.Sequential(one, nn.ReLU(), one if change == "twice" else two)
    given = None if change == "no targets" else labels
    loss = options.pop("loss", "cross-entropy")
    refused(words, measured, model, inputs, given, loss, **options)


FORMS = {
    # from the network and what fc1 returns to the outputs
    "functional": lambda net, h: net.fc3(net.fc2(torch.tanh(h))),
    "in place": lambda net, h: net.fc3(net.fc2(F.relu_(h))),
    "skip": lambda net, h: net.fc3(torch.relu(net.fc2(torch.relu(h))) + h),
    "gate": lambda net, h: net.fc3(torch.relu(h) * net.fc2(torch.relu(h))),
    "square": lambda net, h: net.fc3(h * torch.relu(h)),
    "quadratic at the end": lambda net, h: net.fc3(torch.relu(h)) + h[:, :3] * net.fc2(h)[:, :3],
    "scale": lambda net, h: net.fc3(net.fc2(torch.relu(h) * net.scale)),
    "scale twice": lambda net, h: net.fc3(torch.relu(h * net.scale) * net.scale),
    "batch norm": lambda net, h: net.fc3(torch.relu(net.norm(h))),
    "layer norm": lambda net, h: net.fc3(torch.relu(net.layer_norm(h))),
    "maximum": lambda net, h: net.fc3(torch.maximum(h, net.fc2(h))),
    "where": lambda net, h: net.fc3(torch.where(h > 0, h, h * h)),
    "quotient": lambda net, h: net.fc3(h / h.norm(dim=1, keepdim=True)),
    "weight as a tensor": lambda net, h: net.fc3(torch.relu(h) @ net.fc2.weight),
    "scaled outputs": lambda net, h: 2 * net.fc3(torch.relu(h)),
    "log softmax": lambda net, h: net.fc3(torch.relu(h)).log_softmax(1),
}


def network(form):
    return Written(
        lambda net, x: FORMS[form](net, net.fc1(x)),
        **{"fc1": nn.Linear(4, 5), "fc2": nn.Linear(5, 5), "fc3": nn.Linear(5, 3)},
        **{"norm": nn.BatchNorm1d(5), "layer_norm": nn.LayerNorm(5)},
        scale=nn.Parameter(torch.rand(5) + 0.5),
    )


@pytest.mark.parametrize("loss", ["half-mse", "cross-entropy"])
@pytest.mark.parametrize("form", FORMS)
def test_what_follows_a_layer_may_be_anything(form, loss):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = network(form).double().eval()
    generator = torch.Generator().manual_seed(2)
    model.norm.running_mean.normal_(generator=generator)
    x = torch.randn(9, 4, dtype=torch.float64, generator=generator)
    labels = torch.arange(9) % 3
    parts = ["exact", "maximal", "traces"]
    found = flatlab.measure(model, x, labels, families=["flatness"], loss=loss, flatness=parts)
    function = networks.total_loss(model, x, targets_for(loss, labels), loss)
    for layer in found.layer.values:
        weight = model.get_submodule(layer).weight.detach().numpy()
        expected = flatness(weight, hessian(model, f"{layer}.weight", function))
        names = ("kappa_trace", "kappa_max", "hessian_trace_per_layer")
        own = [found[name].sel(layer=layer).item() for name in names]
        assert own == pytest.approx(expected, rel=EXACT, abs=1e-14), layer
    total = sum(traces(model, function).values())
    assert found.hessian_trace.item() == pytest.approx(total, rel=EXACT)


@pytest.mark.parametrize(  # curved, and piecewise linear
    ("name", "loss"), [("perceptron", "half-mse"), ("vgg", "half-mse"), ("vgg", "cross-entropy")]
)
def test_traces_reach_the_accuracy_and_lie_within_four_standard_errors(name, loss):
    model, x = networks.many_outputs(name)
    classes = torch.arange(len(x))
    how = {"families": "flatness", "flatness": ["traces"], "loss": loss}
    exact = flatlab.measure(model, x, classes, hessian_traces="exact", **how)
    report = flatlab.measure(model, x, classes, accuracy=0.05, **how)
    assert 0 < report["hessian_trace_error"] <= 0.05 * abs(report["hessian_trace"])
    off = abs(report["hessian_trace"] - exact["hessian_trace"])
    assert off <= 4 * report["hessian_trace_error"]
    off = abs(report["hessian_trace_per_layer"] - exact["hessian_trace_per_layer"])
    slack = 1e-9 * abs(exact["hessian_trace"])
    assert (off <= 4 * report["hessian_trace_per_layer_error"] + slack).all()
    assert report.attrs["hessian_probes"] >= 30


@pytest.mark.more
def test_traces_of_sequences_are_of_the_mean_loss_over_tokens():
    model, tokens = networks.transformer(samples=2)
    classes = tokens.roll(1, 1)
    how = {"families": "flatness", "flatness": ["traces"], "loss": "cross-entropy"}
    exact = flatlab.measure(model, tokens, classes, hessian_traces="exact", **how)
    with sdpa_kernel(SDPBackend.MATH):  # fused attention has no second derivative
        trace = float(hessian_of(model, lambda f: F.cross_entropy(f.mT, classes), tokens).trace())
    assert exact["hessian_trace"] == pytest.approx(trace, rel=1e-8)
    report = flatlab.measure(model, tokens, classes, accuracy=0.1, **how)
    assert abs(report["hessian_trace"] - trace) <= 4 * report["hessian_trace_error"]
