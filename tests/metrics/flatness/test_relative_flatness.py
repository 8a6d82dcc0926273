"""Relative flatness and traces of Hessians against double backward, for networks of every kind."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab import MeasureError
from flatlab.derivatives.layer_curvature import DENSE, largest_of_blocks
from flatlab.derivatives.piecewise import piecewise_linear
from tests.networks.small_networks import (
    LINEAR,
    LOSSES,
    PIECEWISE_LINEAR,
    flatness,
    hessian,
    small,
    targets_for,
    total_loss,
)

EXACT, SINGLE = 1e-9, 1e-4
LONG = pytest.mark.long
SLOW = [("simple-vit", loss) for loss in LOSSES if loss != "cross-entropy"]


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


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", LINEAR)
def test_every_layer_has_what_its_hessian_says(name, loss):
    """As it is and normalized, in float64 and in float32."""
    model, inputs, labels = small(name)
    targets = targets_for(loss, labels)
    found = measured(model, inputs, targets, loss)
    single = measured(model, inputs, targets, loss, dtype="float32")
    linear = [
        str(layer) for layer in found.layer.values if not np.isnan(found.features.sel(layer=layer))
    ]
    assert linear == LINEAR[name]
    for layer in linear:
        weight = f"{layer}.weight"
        other = normalized(model, inputs, layer)
        for network, head in ((model, ""), (other, "normalized_")):
            matrix = network.get_parameter(weight).detach().numpy()
            blocks = hessian(network, weight, total_loss(network, inputs, targets, loss))
            kappa_trace, kappa, _ = flatness(matrix, blocks)
            for key, value in ((f"{head}kappa_trace", kappa_trace), (f"{head}kappa_max", kappa)):
                assert found[key].sel(layer=layer) == pytest.approx(value, rel=EXACT), (layer, key)
                close = pytest.approx(value, rel=SINGLE, abs=1e-5)
                assert single[key].sel(layer=layer) == close, (layer, key)


TRACED = [
    pytest.param(name, loss, marks=LONG if (name, loss) in SLOW else [])
    for name in LINEAR
    for loss in LOSSES
    if name != "timm"  # too many parameters to be differentiated twice one by one
]


@pytest.mark.parametrize(("name", "loss"), TRACED)
def test_exact_traces_are_those_of_the_hessian(name, loss):
    """Of the weights of each layer, convolutions included, and of all parameters."""
    model, inputs, labels = small(name)
    targets = targets_for(loss, labels)
    found = measured(model, inputs, targets, loss, flatness=["traces"])
    function, total = total_loss(model, inputs, targets, loss), 0.0
    for key, parameter in model.named_parameters():
        blocks = hessian(model, key, function).reshape(parameter.numel(), parameter.numel())
        total += np.trace(blocks)
        layer, _, kind = key.rpartition(".")
        if kind == "weight" and layer in found.layer:
            own = found.hessian_trace_per_layer.sel(layer=layer)
            assert own == pytest.approx(np.trace(blocks), rel=EXACT), key
    assert found.hessian_trace == pytest.approx(total, rel=EXACT)
    assert found.hessian_trace_error == 0
    single = measured(model, inputs, targets, loss, flatness=["traces"], dtype="float32")
    assert single.hessian_trace == pytest.approx(total, rel=SINGLE)
    assert found.attrs["hessian_probes"] == 0


@pytest.mark.parametrize("name", ["mlp-tanh", pytest.param("simple-vit", marks=pytest.mark.long)])
def test_estimated_traces_are_within_their_errors(name):
    """In at least 99 of 100 seeds within four standard errors, which are of the right size."""
    model, inputs, labels = small(name)
    how = {"flatness": ["traces"]}
    exact = measured(model, inputs, labels, hessian_traces="exact", **how)
    scores = []
    for seed in range(100):
        found = measured(model, inputs, labels, hessian_traces="random", seed=seed, **how)
        difference = found.hessian_trace_per_layer - exact.hessian_trace_per_layer
        own = (found.hessian_trace - exact.hessian_trace) / found.hessian_trace_error
        layers = difference / found.hessian_trace_per_layer_error
        scores.append([float(own), *layers.values])
    scores = np.abs(np.array(scores))
    assert ((scores > 4).sum(0) <= 1).all()
    assert 0.5 < np.median(scores) < 0.9  # 0.67 of a normal number


def test_piecewise_linear_networks_are_recognized_and_no_others():
    found = {name: piecewise_linear(small(name)[0](small(name)[1])) for name in LINEAR}
    assert [name for name, linear in found.items() if linear] == [
        name for name in LINEAR if name in PIECEWISE_LINEAR
    ]


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


@pytest.mark.parametrize("samples", [20, DENSE + 40, 2 * DENSE])
@pytest.mark.parametrize("features", [10, DENSE + 20, DENSE + 60])
@pytest.mark.parametrize("active", [0.0, 0.3, 0.9, 1.0])
def test_largest_eigenvalues_behind_a_relu(normal, samples, features, active):
    """The curvature is never negative, and 0 where a neuron is inactive."""
    x, curvature = normal(samples, features), normal(samples, 3).square()
    curvature[: round((1 - active) * samples)] = 0
    expected = [np.linalg.eigvalsh((x.T * c) @ x)[-1] for c in curvature.T]
    found = largest_of_blocks(x, curvature)
    assert found.numpy() == pytest.approx(expected, rel=EXACT, abs=1e-12)
    assert (found >= 0).all()


def test_layers_can_be_chosen_and_batches_do_not_matter():
    model, inputs, labels = small("mlp-tanh")
    whole = measured(model, inputs, labels)
    few = measured(model, inputs, labels, flatness_layers=["fc3"], batch_size=2)
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
    parts = ["exact", "maximal", "traces"]
    exact, single = (
        measured(model, inputs, labels, flatness=parts, dtype=dtype)
        for dtype in ("float64", "float32")
    )
    rows = slice(exact.layer.values.tolist().index(LINEAR[name][0]), None)
    keys = ["kappa_trace", "kappa_max", "normalized_kappa_trace"]
    for key in keys + ["hessian_trace_per_layer"] * (name != "mlp-tanh"):
        assert single[key][rows].values == pytest.approx(exact[key][rows].values, rel=1e-3), key


@pytest.mark.parametrize(
    ("name", "change", "options", "words"),
    [
        ("mlp-relu", None, {"flatness_layers": ["fc4"]}, "did you mean 'fc3'"),
        ("lenet", None, {"flatness_layers": ["0"]}, "it is a Conv2d"),
        ("simple-vit", None, {"flatness_layers": ["embed"]}, "several positions"),
        ("mlp-tanh", "no targets", {}, "behind layer 'fc1' is not piecewise linear"),
        ("mlp-relu", "no targets", {"flatness": ["traces"]}, "needs targets"),
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
    with pytest.raises(MeasureError) as raised:
        measured(model, inputs, given, loss, **options)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
