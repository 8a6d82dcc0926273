"""Networks without layers are measured as far as that goes; what cannot be is one sentence."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import flatlab
from flatlab import MeasureError
from tests.networks.plain_autograd import frobenius, hooked, inputs, perceptron, sharpness

MORE = "its forward is not that of its base class, or a hook changes what it returns"
NO_MODULE = "it is not called as a module that maps tensor to tensor"


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.GRU(5, 4, batch_first=True)
        self.heads = nn.ParameterList([nn.Parameter(torch.randn(4, 3))])

    def forward(self, x):
        return self.cells(torch.stack([x, x.flip(1)], 1))[0][:, -1] @ self.heads[0]


class Used(nn.Module):
    """Parameters of a layer that is not called as a module."""

    def __init__(self, use):
        super().__init__()
        self.layer, self.use = nn.Linear(5, 3), use

    def forward(self, x):
        return self.use(self.layer, x).tanh()


class Bilinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.form = nn.Bilinear(5, 5, 3)

    def forward(self, x):
        return self.form(x, x)


def exported():
    batch = ({0: torch.export.Dim("batch", min=1)},)
    return torch.export.export(perceptron(), (inputs(),), dynamic_shapes=batch).module()


WITHOUT_LAYERS = {
    "recurrent": (Recurrent, []),
    "bilinear": (Bilinear, []),
    "scripted": (lambda: torch.jit.script(perceptron()), []),
    "traced": (lambda: torch.jit.trace(perceptron(), inputs()), []),
    "exported": (exported, []),
    "called by forward": (lambda: Used(lambda la, x: la.forward(x)), [f"layer: {NO_MODULE}"]),
    "functional": (
        lambda: Used(lambda la, x: F.linear(x, la.weight, la.bias)),
        [f"layer: {NO_MODULE}"],
    ),
    "one layer, hooked": (lambda: hooked_alone(), [f"0: {MORE}"]),
}


def hooked_alone():
    model = nn.Sequential(nn.Linear(5, 3))
    model[0].register_forward_hook(lambda module, given, output: output.softmax(1))
    return model


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


class Mixed(nn.Module):
    """The mean of the batch is taken off where no derivative sees it."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, x):
        h = self.layer(x).tanh()
        return self.head(h - h.mean(0).detach())


class Routed(nn.Module):
    """Two layers, each for the samples of one sign."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(5, 3), nn.Linear(5, 3)

    def forward(self, x):
        f, left = x.new_zeros(len(x), 3), x[:, 0] < 0
        f[left], f[~left] = self.one(x[left]), self.other(x[~left])
        return f


class Seldom(nn.Module):
    """A parameter that only large inputs need."""

    def __init__(self):
        super().__init__()
        self.layer, self.gain = nn.Linear(5, 3), nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.layer(x) * self.gain if x.abs().max() > 9 else self.layer(x)


class InPlace(nn.Module):
    """Changes what its activation needs for a gradient."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, x):
        y = self.layer(x).exp()
        z = y.square()
        y += 1
        return z


class Meta(nn.Module):
    def __new__(cls):
        with torch.device("meta"):
            return nn.Sequential(nn.Linear(5, 3))


def late(value):
    x = inputs()
    x[-1, 0] = value
    return x


REFUSED = {
    "a mean without a derivative": (Mixed, inputs(), "depend on another sample"),
    "a mean in a hook": (lambda: hooked(lambda z: z - z.mean(0), 1), inputs(), "another sample"),
    "samples of two ways": (
        Routed,
        late(-3.0).abs().neg().index_fill(0, torch.tensor(5), 1),
        "go different ways",
    ),
    "a parameter of some samples": (Seldom, late(10.0), "some need 'gain'"),
    "a change in place": (InPlace, inputs(), "cannot differentiate"),
    "the meta device": (Meta, inputs(), "meta device"),
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
    with pytest.raises(MeasureError, match=piece) as error:
        flatlab.measure(build(), x, dtype="float64")
    assert "\n" not in str(error.value)


class Tuple(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 4), nn.Linear(4, 3)
        self.first.register_forward_hook(lambda module, given, output: (output, 1))

    def forward(self, x):
        return self.last(self.first(x)[0].tanh())


def standardized():
    layers = pytest.importorskip("timm").layers
    convolutions = layers.StdConv2d(1, 3, 2), nn.ReLU(), layers.ScaledStdConv2d(3, 4, 2)
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    return nn.Sequential(nn.Unflatten(1, (1, 1, 5)), nn.Upsample((5, 5)), *convolutions, *head)


@pytest.mark.parametrize(
    ("build", "layers"), [(Tuple, ["last"]), (standardized, ["7"])], ids=["tuple", "standardized"]
)
def test_layers_of_other_kinds_leave_the_rest(build, layers):
    torch.manual_seed(0)
    model, x = build().double(), inputs()
    report = flatlab.measure(model, x)
    assert report.sharpness_per_sample.values == pytest.approx(sharpness(model, x), rel=1e-12)
    assert report.layer.values.tolist() == layers


def test_many_outputs_are_measured_in_bounded_memory():
    """1,200 outputs of 7 hidden units: only the Jacobians are held, for a few samples at a time."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1200)).double()
    x = inputs(3, 5)
    report = flatlab.measure(model, x, costly=())
    assert report.g == pytest.approx((frobenius(model, x) ** 2).mean(), rel=1e-12)
    assert (report.samples_rank_deficient == 3) & (report.local_dimension <= 5)
