"""Second derivatives of networks with modules and functions of torch, one after the other.

Each is put between two linear layers. Its largest eigenvalues and trace are those of matrices from
differences of plain gradients, or the report says that they are not checked.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

import flatlab
from tests.synthetic.differences import hessian_by_differences

# Each row is a sample of 12 numbers, seen as (3, 4), (3, 2, 2) and so on where a module needs it.


class Apply(nn.Module):
    """A function between two linear layers, on inputs of another shape."""

    def __init__(self, inner, shape=(12,)):
        super().__init__()
        self.first = nn.Linear(5, 12)
        self.inner = inner if isinstance(inner, nn.Module) else None
        self.function, self.shape = inner, shape
        with torch.no_grad():
            width = self.behind(torch.zeros(2, 5)).shape[1]
        self.last = nn.Linear(width, 3)

    def behind(self, x):
        hidden = self.first(x).reshape(len(x), *self.shape)
        out = self.function(hidden)
        out = out[0] if isinstance(out, tuple) else out
        return out.reshape(len(x), -1)

    def forward(self, x):
        return self.last(torch.tanh(self.behind(x)))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(12, 12), nn.Tanh())

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False)


class Cell(nn.Module):
    """Two steps of a recurrent cell."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x):
        state = self.cell(x[:, 0])
        state = self.cell(x[:, 1], state)
        return state[0] if isinstance(state, tuple) else state


VECTORS = {
    kind.__name__: kind
    for kind in (
        *(nn.ELU, nn.Hardshrink, nn.Hardsigmoid, nn.Hardtanh, nn.Hardswish, nn.LeakyReLU),
        *(nn.LogSigmoid, nn.PReLU, nn.ReLU, nn.ReLU6, nn.SELU, nn.CELU, nn.GELU, nn.Sigmoid),
        *(nn.SiLU, nn.Mish, nn.Softplus, nn.Softshrink, nn.Softsign, nn.Tanh, nn.Tanhshrink),
        *(nn.GLU, nn.Identity, nn.Dropout, nn.AlphaDropout),
    )
}
FUNCTIONS = {
    f.__name__: f
    for f in (torch.sin, torch.exp, torch.erf, torch.sinc, torch.atan, torch.abs, torch.special.i0)
} | {
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "threshold": lambda x: F.threshold(x, 0.1, 0.0),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(1),
    "softmin": lambda x: F.softmin(x, 1),
    "normalize": F.normalize,
    "logsumexp": lambda x: x.logsumexp(1, keepdim=True),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(1),
    "std": lambda x: x.std(1, keepdim=True),
    "norm": lambda x: x.norm(dim=1, keepdim=True),
    "sort": lambda x: x.sort(1)[0],
    "topk": lambda x: x.topk(3, 1)[0],
    "max": lambda x: x.amax(1, keepdim=True),
    "logit": lambda x: x.sigmoid().logit(),
    "xlogy": lambda x: torch.xlogy(x.exp(), x.exp() + 1),
    "lgamma": lambda x: torch.lgamma(x.exp()),
    "pow": lambda x: (x * x + 0.1) ** 0.75,
    "bilinear": lambda x: x.roll(1, 1) * x,
    "fft": lambda x: torch.fft.rfft(x).abs(),
    "cosine": lambda x: F.cosine_similarity(x[:, :6], x[:, 6:])[:, None],
}
VECTOR, ROWS, IMAGE = (12,), (3, 4), (3, 2, 2)
MODULES = {
    VECTOR: (nn.LayerNorm(12), nn.RMSNorm(12), nn.BatchNorm1d(12)),
    ROWS: (
        *(nn.GroupNorm(3, 3), nn.InstanceNorm1d(3), nn.Conv1d(3, 2, 3, padding=1)),
        *(nn.ConvTranspose1d(3, 2, 2), nn.MaxPool1d(2), nn.AvgPool1d(2), nn.LPPool1d(2, 2)),
        *(nn.AdaptiveAvgPool1d(2), nn.AdaptiveMaxPool1d(2), nn.Upsample(scale_factor=2)),
        *(nn.ZeroPad1d(1), nn.ReflectionPad1d(1), nn.Flatten(), nn.RNN(4, 3, batch_first=True)),
        *(nn.LSTM(4, 3, batch_first=True), nn.GRU(4, 3, batch_first=True), Attention()),
        nn.TransformerEncoderLayer(4, 2, 6, batch_first=True),
    ),
    IMAGE: (
        *(nn.BatchNorm2d(3), nn.LocalResponseNorm(2), nn.Conv2d(3, 2, 2), nn.MaxPool2d(2)),
        *(nn.ConvTranspose2d(3, 2, 2), nn.AvgPool2d(2), nn.Unfold(2)),
    ),
    (3, 2, 2, 1): (nn.Conv3d(3, 2, 1),),
    (12, 1, 1): (nn.PixelShuffle(2),),
}
IN_SHAPE = {
    **{type(m).__name__: (m, shape) for shape, modules in MODULES.items() for m in modules},
    "grouped": (nn.Conv2d(3, 6, 2, groups=3), IMAGE),
    "dilated": (nn.Conv1d(3, 2, 2, dilation=2), ROWS),
    "bicubic": (nn.Upsample(scale_factor=2, mode="bicubic"), IMAGE),
    **{make.__name__: (Cell(make(4, 3)), ROWS) for make in (nn.RNNCell, nn.LSTMCell, nn.GRUCell)},
    "dot products": (lambda x: F.scaled_dot_product_attention(x, x, x), (1, 3, 4)),
    "cdist": (lambda x: torch.cdist(x, x + 1), ROWS),
    "Bilinear": (lambda x: x @ x.mT, ROWS),
    "grid_sample": (lambda x: F.grid_sample(x, x[:, :2].movedim(1, -1), align_corners=True), IMAGE),
    "solve": (lambda x: torch.linalg.solve(x @ x.mT + torch.eye(3).to(x), x), ROWS),
    "det": (lambda x: torch.linalg.det(x @ x.mT)[:, None], ROWS),
    "weight_norm": (parametrizations.weight_norm(nn.Linear(12, 4)), VECTOR),
    "weight_norm conv": (parametrizations.weight_norm(nn.Conv1d(3, 2, 2)), ROWS),
    "spectral_norm": (parametrizations.spectral_norm(nn.Linear(12, 4)), VECTOR),
    "orthogonal": (parametrizations.orthogonal(nn.Linear(12, 4)), VECTOR),
    "checkpoint": (Checkpointed(), VECTOR),
}


def plain():
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)).double()


def networks():
    """Every network of the sweep, by what lies in its middle."""
    for name, kind in VECTORS.items():
        yield name, lambda kind=kind: Apply(kind())
    for name, function in FUNCTIONS.items():
        yield name, lambda function=function: Apply(function)
    for name, (inner, shape) in IN_SHAPE.items():
        yield name, lambda inner=inner, shape=shape: Apply(inner, shape)
    yield "old weight_norm", lambda: Apply(nn.utils.weight_norm(nn.Linear(12, 4)))
    yield "old spectral_norm", lambda: Apply(nn.utils.spectral_norm(nn.Linear(12, 4)))
    yield "compiled", lambda: torch.compile(Apply(nn.Tanh()), backend="aot_eager")
    yield "scripted", lambda: torch.jit.trace(plain(), torch.zeros(2, 5).double())
    yield "DataParallel", lambda: nn.DataParallel(Apply(nn.Tanh()))


CASES = dict(networks())


def test_there_are_enough_of_them():
    assert len(CASES) >= 80


@pytest.mark.first(8)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_eigenvalues_and_traces_are_those_of_differences(name):
    torch.manual_seed(0)
    model = CASES[name]().double().eval()
    x, labels = torch.randn(6, 5).double(), torch.tensor([0, 1, 2, 0, 1, 2])
    targets = F.one_hot(labels, 3).double()
    families = ["hessian", "flatness"]
    how = {"loss": "cross-entropy", "flatness": ["traces"], "hessian_traces": "exact"}
    report = flatlab.measure(model, x, targets, families=families, **how)
    assert ("derivatives_not_checked" in report.attrs) == (name in UNCHECKED)
    assert ("derivatives" in report.attrs) == (name in BY_DIFFERENCES)
    if name in UNCHECKED:
        return
    hessian, gauss_newton = hessian_by_differences(model, x, targets)
    close = {"rel": 1e-6, "abs": 1e-9}
    assert float(report["hessian_trace"]) == pytest.approx(float(hessian.trace()), **close)
    for key, matrix in (("hessian", hessian), ("gauss_newton", gauss_newton)):
        largest = float(torch.linalg.eigvalsh(matrix)[-1])
        close = {"rel": max(float(report[f"{key}_residual"]), 1e-6), "abs": 1e-9}
        assert float(report[f"{key}_lambda_max"]) == pytest.approx(largest, **close)


UNCHECKED = {"orthogonal"}
"""It takes the integer part of a parameter that is one, so that the function jumps there."""
BY_DIFFERENCES = {"Hardsigmoid"}
"""They have no second backward pass."""
