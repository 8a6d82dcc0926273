"""Layers that do more than their type says, or that are none, are measured as far as that goes."""

import warnings

import pytest
import torch
import torch.nn.functional as F
import xarray as xr
from torch import nn
from torch.nn.utils import parametrizations, prune

import flatlab
from tests.measurement.comparing import sharpness
from tests.networks.written import Written
from tests.refusals import refused

MORE = "its forward is not that of its base class, or a hook changes what it returns"
NO_MODULE = "it is not called as a module that maps tensor to tensor"
ROWS = "its rows do not belong to one sample each"


def inputs():
    return torch.randn(6, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def perceptron():
    torch.manual_seed(0)
    layers = nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 7), nn.ReLU(), nn.Linear(7, 3)
    return nn.Sequential(*layers).double()


def hooked(change, place=2, model=None):
    model = model or perceptron()
    model[place].register_forward_hook(lambda module, given, output: change(output))
    return model


def frobenius(model, x):
    x = x.clone().requires_grad_()
    rows = [torch.autograd.grad(f, x, retain_graph=True)[0] for f in model(x).sum(0)]
    return torch.stack(rows).square().flatten(2).sum((0, 2)).sqrt().numpy()


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


def with_tuple():
    parts = {"first": nn.Linear(5, 4), "last": nn.Linear(4, 3)}
    model = Written(lambda net, x: net.last(net.first(x)[0].tanh()), **parts)
    model.first.register_forward_hook(lambda module, given, output: (output, 1))
    return model


def standardized():
    layers = pytest.importorskip("timm").layers
    convolutions = layers.StdConv2d(1, 3, 2), nn.ReLU(), layers.ScaledStdConv2d(3, 4, 2)
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    return nn.Sequential(nn.Unflatten(1, (1, 1, 5)), nn.Upsample((5, 5)), *convolutions, *head)


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
    "samples doubled in hooks, first ones dead": (
        lambda: doubled_in_hooks(nn.ReLU()),
        {"4": ROWS} | dict.fromkeys("02", "its gradients are not those of plain autograd"),
    ),
    "samples doubled in hooks": (doubled_in_hooks, dict.fromkeys("024", ROWS)),
    "a tuple in a hook": (with_tuple, {"first": NO_MODULE}),
    "standardized weights": (standardized, dict.fromkeys("24", MORE)),
}


@pytest.mark.parametrize("case", MEASURED)
def test_a_layer_that_does_more_than_its_type_is_left_to_autograd(case):
    build, left_out = MEASURED[case]
    torch.manual_seed(0)
    model, x = build().double(), inputs()
    report = flatlab.measure(model, x)
    assert report.sharpness_per_sample.values == pytest.approx(sharpness(model, x), rel=1e-12)
    assert report.jacobian_frobenius.values == pytest.approx(frobenius(model, x), rel=1e-12)
    assert report.attrs["layers_left_out"] == [f"{n}: {reason}" for n, reason in left_out.items()]
    assert report.layers_left_out == len(left_out)
    assert not {*report.coords.get("layer", xr.DataArray([])).values} & {*left_out}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_hook_that_changes_nothing_leaves_the_layers(dtype):
    models = perceptron(), hooked(F.relu6)
    plain, watched = (flatlab.measure(m, inputs(), dtype=dtype) for m in models)
    assert watched.layer.values.tolist() == ["0", "4"]
    watched = flatlab.measure(hooked(lambda output: None), inputs(), dtype=dtype)
    assert watched.identical(plain)


def recurrent():
    parts = {"cells": nn.GRU(5, 4, batch_first=True)}
    parts["heads"] = nn.ParameterList([nn.Parameter(torch.randn(4, 3))])
    both = lambda x: torch.stack([x, x.flip(1)], 1)  # noqa: E731
    return Written(lambda net, x: net.cells(both(x))[0][:, -1] @ net.heads[0], **parts)


def used(use):
    """Parameters of a layer that is not called as a module."""
    return Written(lambda net, x: use(net.layer, x).tanh(), layer=nn.Linear(5, 3))


def exported():
    batch = ({0: torch.export.Dim("batch", min=1)},)
    return torch.export.export(perceptron(), (inputs(),), dynamic_shapes=batch).module()


WITHOUT_LAYERS = {
    "recurrent": (recurrent, []),
    "bilinear": (lambda: Written(lambda net, x: net.form(x, x), form=nn.Bilinear(5, 5, 3)), []),
    "scripted": (lambda: torch.jit.script(perceptron()), []),
    "traced": (lambda: torch.jit.trace(perceptron(), inputs()), []),
    "exported": (exported, []),
    "called by forward": (lambda: used(lambda la, x: la.forward(x)), [f"layer: {NO_MODULE}"]),
    "functional": (
        lambda: used(lambda la, x: F.linear(x, la.weight, la.bias)),
        [f"layer: {NO_MODULE}"],
    ),
    "one layer, hooked": (
        lambda: hooked(lambda z: z.softmax(1), 0, nn.Sequential(nn.Linear(5, 3))),
        [f"0: {MORE}"],
    ),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")
@pytest.mark.parametrize("case", WITHOUT_LAYERS)
def test_without_layers_there_is_what_needs_none(case):
    build, left_out = WITHOUT_LAYERS[case]
    torch.manual_seed(0)
    model, x = build(), inputs()
    model = model.double()
    report = flatlab.measure(model, x, families=["geometry", "jacobian"])
    assert report.sharpness_per_sample.values == pytest.approx(sharpness(model, x), rel=1e-12)
    assert report.jacobian_frobenius.values == pytest.approx(frobenius(model, x), rel=1e-12)
    assert {"mls", "g", "log_volume", "local_dimension", "normalized_mls"} <= set(report)
    assert report.finite == 1
    assert not {"nmls", "bound_d", "weight_norm", "relative_flatness"} & set(report)
    assert report.attrs["layers_left_out"] == left_out
    assert "those of layers" in report.attrs["quantities_left_out"]


def routed(net, x):
    """Two layers, each for the samples of one sign."""
    f, left = x.new_zeros(len(x), 3), x[:, 0] < 0
    f[left], f[~left] = net.one(x[left]), net.other(x[~left])
    return f


def seldom(net, x):
    """A parameter that only large inputs need."""
    return net.one(x) * net.gain if x.abs().max() > 9 else net.one(x)


def in_place(net, x):
    """Changes what its activation needs for a gradient."""
    y = net.one(x).exp()
    z = y.square()
    y += 1
    return z


def of_layers(forward):
    parts = {"one": nn.Linear(5, 3), "other": nn.Linear(5, 3), "gain": nn.Parameter(torch.ones(3))}
    return lambda: Written(forward, **parts)


def late(value):
    return inputs().index_put((torch.tensor(-1), torch.tensor(0)), torch.tensor(value).double())


REFUSED = {
    "a mean in a hook": (lambda: hooked(lambda z: z - z.mean(0), 1), inputs(), "another sample"),
    "samples of two ways": (
        of_layers(routed),
        late(-3.0).abs().neg().index_fill(0, torch.tensor(5), 1),
        "go different ways",
    ),
    "a parameter of some samples": (of_layers(seldom), late(10.0), "some need 'gain'"),
    "a change in place": (of_layers(in_place), inputs(), "cannot differentiate"),
    "the meta device": (lambda: nn.Linear(5, 3, device="meta"), inputs(), "meta device"),
    "no outputs": (lambda: nn.Linear(5, 0), inputs(), "no outputs"),
    "sparse inputs": (perceptron, inputs().to_sparse(), "to_dense"),
    "an exported program": (
        lambda: torch.export.export(perceptron(), (inputs(),)),
        inputs(),
        "ExportedProgram, not a torch Module",
    ),
    "an exported batch": (
        lambda: torch.export.export(perceptron(), (inputs(),)).module(),
        inputs(),
        "does not accept inputs",
    ),
}


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("case", REFUSED)
def test_what_nothing_exact_is_known_of_is_one_sentence(case):
    build, x, piece = REFUSED[case]
    torch.manual_seed(0)
    refused(piece, flatlab.measure, build(), x, dtype="float64")
