"""Networks whose layers do more than their type says are measured all the same."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, prune

import flatlab
from tests.networks.plain_autograd import frobenius, hooked, inputs, perceptron, sharpness

MORE = "its forward is not that of its base class, or a hook changes what it returns"
ROWS = "its rows do not belong to one sample each"


def patched():
    model = perceptron()
    layer = model[2]
    layer.forward = lambda x: 3 * F.linear(x, layer.weight, layer.bias)
    return model


def weight_norm():
    model = perceptron()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        for place in (0, 2):
            nn.utils.weight_norm(model[place])
    return model


def pruned():
    model = perceptron()
    for place in (0, 2):
        prune.l1_unstructured(model[place], "weight", 0.5)
    prune.l1_unstructured(model[2], "bias", 0.3)
    return model


def parametrized():
    """Weights that are computed anew each time one asks for them."""
    model = perceptron()
    parametrizations.weight_norm(model[0])
    parametrizations.weight_norm(model[2])
    parametrizations.spectral_norm(model[4])
    return model.eval()


def hooked_norms():
    torch.manual_seed(0)
    layers = nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3)
    model = nn.Sequential(*layers).double().eval()
    model[1].register_forward_hook(lambda module, given, output: output.relu())
    model[3].register_forward_hook(lambda module, given, output: output.square())
    return model


def silent_activation():
    """A batch norm with an activation that changes nothing on these samples."""
    layers = pytest.importorskip("timm").layers
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), layers.BatchNormAct2d(8), nn.Flatten(), nn.Linear(8, 3))
    model.insert(1, nn.Unflatten(1, (8, 1, 1)))
    model[2].bias.data.fill_(50.0)
    return model.double().eval()


def gradient_hook():
    model = perceptron()
    model[2].weight.register_hook(lambda gradient: 2 * gradient)
    return model


def doubled_in_hooks(activation=None):
    """Each sample enters the network twice, the copies behind all samples."""
    model = perceptron()
    model[3] = activation or nn.Tanh()  # of which no unit is dead
    model.register_forward_pre_hook(lambda m, given: (torch.cat([given[0], 2 * given[0]]),))
    model.register_forward_hook(lambda m, given, f: f[: len(f) // 2] + f[len(f) // 2 :])
    return model


def frozen():
    model = hooked(lambda output: 2 * output)
    model[2].requires_grad_(False)
    return model


MEASURED = {
    "a forward hook": (lambda: hooked(lambda z: 2 * z + 1), {"2": MORE}),
    "a hook that seldom acts": (lambda: hooked(lambda z: z.clamp(max=1e3)), {"2": MORE}),
    "a hook of a frozen layer": (frozen, {"2": MORE}),
    "a softmax in a hook": (lambda: hooked(lambda z: z.softmax(1), 4), {"4": MORE}),
    "a patched forward": (patched, {"2": MORE}),
    "weight norm in a hook": (weight_norm, {}),
    "pruning": (pruned, {}),
    "parametrizations": (parametrized, {}),
    "hooks of normalizations": (hooked_norms, {}),
    "an activation that changes nothing": (silent_activation, {}),
    "a hook of a gradient": (gradient_hook, {"2": "its gradients are not those of plain autograd"}),
    "samples doubled in hooks, first ones dead": (
        lambda: doubled_in_hooks(nn.ReLU()),
        {"4": ROWS} | dict.fromkeys("02", "its gradients are not those of plain autograd"),
    ),
    "samples doubled in hooks": (doubled_in_hooks, dict.fromkeys("024", ROWS)),
}


@pytest.mark.parametrize("case", MEASURED)
def test_a_layer_that_does_more_than_its_type_is_left_to_autograd(case):
    build, left_out = MEASURED[case]
    model, x = build(), inputs()
    report = flatlab.measure(model, x)
    assert report.sharpness_per_sample.values == pytest.approx(sharpness(model, x), rel=1e-12)
    assert report.jacobian_frobenius.values == pytest.approx(frobenius(model, x), rel=1e-12)
    assert report.attrs["layers_left_out"] == [f"{n}: {reason}" for n, reason in left_out.items()]
    assert report.layers_left_out == len(left_out)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_hook_that_changes_nothing_leaves_the_layers(dtype):
    plain, watched = (
        flatlab.measure(m, inputs(), dtype=dtype) for m in (perceptron(), hooked(F.relu6))
    )
    assert watched.layer.values.tolist() == ["0", "4"]
    watched = flatlab.measure(hooked(lambda output: None), inputs(), dtype=dtype)
    assert watched.identical(plain)
