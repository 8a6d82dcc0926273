"""A sweep of networks and inputs: what comes out is right by plain autograd, or a `MeasureError`.

Nothing else: no traceback of torch's or of this project's, and no other number. Eigenvalues and
traces of small networks are those of matrices from differences of plain gradients.
"""

import importlib.util
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

import flatlab
from tests.measurement.comparing import sharpness
from tests.networks.written import Written
from tests.synthetic.differences import hessian_by_differences

STEMS = {
    "rows": (lambda: nn.Linear(6, 8), (4, 6)),
    "steps": (lambda: nn.Linear(6, 8), (4, 5, 6)),
    "1d": (lambda: nn.Conv1d(2, 8, 3, padding=1), (4, 2, 8)),
    "2d": (lambda: nn.Conv2d(2, 8, 3, padding=1), (4, 2, 4, 4)),
    "3d": (lambda: nn.Conv3d(2, 8, 3, padding=1), (3, 2, 4, 4, 4)),
}


def first(inside, times=1):
    """The first of several outputs of a module, which is called with its input several times."""

    def call(net, x):
        out = net.inside(*[x] * times)
        return out[0] if isinstance(out, tuple) else out

    return Written(call, inside=inside)


def word(inside):
    def call(net, tokens):
        hidden = net.inside(tokens)
        return net.head(hidden.mean(1) if hidden.ndim > 2 else hidden)

    return Written(call, inside=inside, head=nn.Linear(8, 3))


def between(stem, make):
    """A network with a module in its middle, and samples for it."""
    stem, shape = STEMS[stem][0](), STEMS[stem][1]
    x = torch.randn(shape)
    body = nn.Sequential(stem, make(), nn.Flatten())
    body.train(), body(x), body.eval()  # lazy modules, and statistics of batches
    return nn.Sequential(body, nn.Linear(body(x).shape[1], 3)).eval(), x


ROWS = {
    f.__name__: f
    for f in (torch.sin, torch.exp, torch.erf, torch.sinc, torch.atan, torch.abs, torch.special.i0)
} | {
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "threshold": lambda x: F.threshold(x, 0.1, 0.0),
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
}
TABLES = {
    "dot products": lambda x: F.scaled_dot_product_attention(x, x, x),
    "cdist": lambda x: torch.cdist(x, x + 1),
    "solve": lambda x: torch.linalg.solve(x @ x.mT + torch.eye(5).to(x), x),
    "det": lambda x: torch.linalg.det(x @ x.mT + torch.eye(5).to(x))[:, None],
}


OF_AXES = {  # modules of one, two and three axes, with their arguments
    **{"MaxPool": (2,), "AvgPool": (2,), "LPPool": (2, 2)},
    **{"AdaptiveAvgPool": (2,), "AdaptiveMaxPool": (2,)},
    **{"BatchNorm": (8,), "InstanceNorm": (8,), "Dropout": (0.5,), "LazyBatchNorm": ()},
    **{"ConstantPad": (1, 0.5), "ReflectionPad": (1,), "ReplicationPad": (1,)},
    **{"ZeroPad": (1,), "CircularPad": (1,)},
}


def zoo():
    """Modules and functions of torch by the shape that they take."""
    for stem, functions in {"rows": ROWS, "steps": TABLES}.items():
        for name, function in functions.items():
            yield name, stem, lambda f=function: first(f)
    grid = partial(F.grid_sample, align_corners=True)
    yield "grid_sample", "2d", lambda: first(lambda x: grid(x, x[:, :2].movedim(1, -1)))
    yield "checkpoint", "rows", lambda: first(partial(checkpoint, nn.Tanh(), use_reentrant=False))
    for wrap in (nn.utils.weight_norm, nn.utils.spectral_norm):
        yield f"old {wrap.__name__}", "rows", lambda w=wrap: w(nn.Linear(8, 4))
    names = (
        "ELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid PReLU ReLU ReLU6 RReLU "
        "SELU CELU GELU Sigmoid SiLU Mish Softplus Softshrink Softsign Tanh Tanhshrink GLU Identity"
    )
    for name in names.split():
        yield name, "rows", getattr(nn, name)
    for name in ("ReLU", "ELU", "SiLU", "Hardtanh"):
        yield f"{name} in place", "2d", lambda n=name: getattr(nn, n)(inplace=True)
    for name in ("Softmax", "Softmin", "LogSoftmax"):
        yield name, "rows", lambda n=name: getattr(nn, n)(1)
    yield "Softmax2d", "2d", nn.Softmax2d
    yield "Threshold", "rows", lambda: nn.Threshold(0.1, 0.0)
    for d in (1, 2, 3):
        for name, arguments in OF_AXES.items():
            yield f"{name}{d}d", f"{d}d", partial(getattr(nn, f"{name}{d}d"), *arguments)
        for name in ("Conv", "ConvTranspose"):
            for how in ({}, {"groups": 2, "stride": 2}, {"dilation": 2, "bias": False}):
                make = partial(getattr(nn, f"{name}{d}d"), 8, 4, 2, **how)
                yield f"{name}{d}d {' '.join(how)}", f"{d}d", make
        yield f"GroupNorm {d}d", f"{d}d", lambda: nn.GroupNorm(2, 8)
    for name in ("nearest", "bilinear", "bicubic"):
        yield f"Upsample {name}", "2d", lambda n=name: nn.Upsample(scale_factor=2, mode=n)
    yield "FractionalMaxPool2d", "2d", lambda: nn.FractionalMaxPool2d(2, output_size=3)
    yield "PixelShuffle", "2d", lambda: nn.PixelShuffle(2)
    yield "PixelUnshuffle", "2d", lambda: nn.PixelUnshuffle(2)
    yield "ChannelShuffle", "2d", lambda: nn.ChannelShuffle(2)
    yield "Unfold", "2d", lambda: nn.Unfold(3)
    yield "LocalResponseNorm", "2d", lambda: nn.LocalResponseNorm(2)
    yield "reflected", "2d", lambda: nn.Conv2d(8, 3, 3, padding=1, padding_mode="reflect")
    yield "circular", "2d", lambda: nn.Conv2d(8, 3, 3, padding="same", padding_mode="circular")
    yield "Alpha dropout", "rows", lambda: nn.AlphaDropout(0.5)
    yield "LayerNorm", "steps", lambda: nn.LayerNorm(8)
    yield "RMSNorm", "steps", lambda: nn.RMSNorm(8)
    yield "Unflatten", "rows", lambda: nn.Unflatten(1, (2, 4))
    yield "Bilinear", "rows", lambda: first(nn.Bilinear(8, 8, 4), 2)
    yield "CosineSimilarity", "steps", lambda: first(nn.CosineSimilarity(2), 2)
    for name in ("RNN", "LSTM", "GRU"):
        yield name, "steps", lambda n=name: first(getattr(nn, n)(8, 4, batch_first=True))
        two = {"num_layers": 2, "bidirectional": True, "batch_first": True}
        yield f"{name} both ways", "steps", lambda n=name, h=two: first(getattr(nn, n)(8, 4, **h))
        yield f"{name}Cell", "rows", lambda n=name: first(getattr(nn, f"{n}Cell")(8, 4))
    yield "LSTM projected", "steps", lambda: first(nn.LSTM(8, 6, proj_size=3, batch_first=True))
    yield "attention", "steps", lambda: first(nn.MultiheadAttention(8, 2, batch_first=True), 3)
    for norm_first in (False, True):
        how = {"dim_feedforward": 8, "batch_first": True, "norm_first": norm_first}
        yield f"encoder {norm_first}", "steps", lambda h=how: nn.TransformerEncoderLayer(8, 2, **h)
        decoder = partial(nn.TransformerDecoderLayer, 8, 2, **how)
        yield f"decoder {norm_first}", "steps", lambda make=decoder: first(make(), 2)
    yield "weight norm", "rows", lambda: parametrizations.weight_norm(nn.Linear(8, 4))
    yield "spectral norm", "rows", lambda: parametrizations.spectral_norm(nn.Linear(8, 4))
    yield "orthogonal", "rows", lambda: parametrizations.orthogonal(nn.Linear(8, 4))
    yield "LazyLinear", "rows", lambda: nn.LazyLinear(4)
    yield "LazyConv2d", "2d", lambda: nn.LazyConv2d(3, 2)


def mlp(**how):
    return nn.Sequential(nn.Linear(6, 5, **how), nn.Tanh(), nn.Linear(5, 3, **how)).eval()


X, Y = torch.randn(8, 6, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3
INPUTS = {
    "as they are": (X, Y), "one sample": (X[:1], Y[:1]), "none": (X[:0], Y[:0]),
    "numpy": (X.numpy(), Y.numpy()), "float64": (X.double(), Y), "half": (X.half(), Y),
    "bfloat16": (X.bfloat16(), Y), "integers": (X.long(), Y), "bytes": (X.byte(), Y),
    "booleans": (X > 0, Y), "complex": (X + 0j, Y), "sparse": (X.to_sparse(), Y),
    "NaN": (X.where(X > -1, torch.nan), Y), "infinite": (X.where(X > -1, torch.inf), Y),
    "huge": (X * 1e30, Y), "large": (X * 1e12, Y), "tiny": (X * 1e-30, Y), "zero": (X * 0, Y),
    "same": (X[:1].expand(8, 6), Y),
    "transposed": (X.T.contiguous().T, Y), "every second": (X.repeat_interleave(2, 0)[::2], Y),
    "with gradients": (X.clone().requires_grad_(), Y), "too wide": (torch.randn(8, 7), Y),
    "one row": (X[0], Y[:1]), "a number": (torch.tensor(1.0), Y), "words": (["a"] * 8, Y),
    "nested": (X[:, None], Y), "rows in a list": ([*X], Y), "lists": (X.tolist(), Y),
    "a tuple": ((X,), Y), "two inputs": ((X, X), Y), "by name": ({"input": X}, Y),
    "another name": ({"z": X}, Y), "dataset": (TensorDataset(X, Y), None), "nothing": (None, None),
    "loader": (DataLoader(TensorDataset(X, Y), 3), None),
    "pairs": ([(X[:5], Y[:5]), (X[5:], Y[5:])], None),
    "labels too large": (X, Y + 1), "negative labels": (X, Y - 1), "fewer labels": (X, Y[:5]),
    "columns": (X, Y[:, None]), "one-hot": (X, F.one_hot(Y, 3)), "values": (X, torch.randn(8, 3)),
    "one class": (X, Y * 0), "floats": (X, Y.float()), "strings": (X, ["a"] * 8),
    "an object": (X, object()),
}  # fmt: skip


def several():
    """Networks that are more than a module in the middle, and inputs that are unlike others."""
    for kind, inputs in INPUTS.items():
        yield f"inputs, {kind}", lambda given=inputs: (mlp(), *given)
    for kind in (torch.float64, torch.bfloat16, torch.float16):
        yield f"network in {kind}", lambda k=kind: (mlp().to(k), X, Y)
    yield "no bias", lambda: (mlp(bias=False), X, Y)
    yield "frozen", lambda: (mlp().requires_grad_(False), X, Y)
    partly = lambda: nn.Sequential(mlp()[0].requires_grad_(False), nn.Linear(5, 3))  # noqa: E731
    yield "first layer frozen", lambda: (partly(), X, Y)
    yield "no parameters", lambda: (nn.ReLU(), X, Y)
    yield "training mode", lambda: (nn.Sequential(mlp(), nn.Dropout(0.5)).train(), X, Y)
    yield "no network", lambda: (len, X, Y)
    yield "scripted", lambda: (torch.jit.script(mlp()), X, Y)
    yield "parallel", lambda: (nn.DataParallel(mlp()), X, Y)
    yield "averaged", lambda: (torch.optim.swa_utils.AveragedModel(mlp()), X, Y)
    yield "lazy", lambda: (nn.LazyLinear(3), X, Y)
    yield "meta", lambda: (mlp(device="meta"), X, Y)
    yield "NaN inside", lambda: (nn.Sequential(mlp(), nn.Threshold(0, torch.nan)), X, Y)
    tokens = torch.randint(11, (4, 5), generator=torch.Generator().manual_seed(0))
    for how in ({}, {"padding_idx": 0}, {"max_norm": 1.0}, {"sparse": True}):
        yield f"Embedding {how}", lambda h=how: (word(nn.Embedding(11, 8, **h)), tokens, Y[:4])
    for mode in ("mean", "sum", "max"):
        bag = partial(nn.EmbeddingBag, 11, 8, mode=mode)
        yield f"EmbeddingBag {mode}", lambda make=bag: (word(make()), tokens, Y[:4])
    if importlib.util.find_spec("timm"):
        import timm

        for name in timm.list_models("test_*"):
            size = 160 if name in ("test_coatnet", "test_maxvit") else 96  # of a fixed one
            images = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
            make = lambda n=name: timm.create_model(n, num_classes=3).eval()  # noqa: E731
            yield f"timm {name}", lambda m=make, x=images: (m(), x, Y[:2])


CASES = {name: lambda s=stem, m=make: (*between(s, m), None) for name, stem, make in zoo()}
CASES |= dict(several())
SWEPT = [
    name
    if place % 6 == 0 and not name.startswith("timm ")
    else pytest.param(name, marks=pytest.mark.long)
    for place, name in enumerate(CASES)
]


def check_curvature(name, model, x, y):
    """The largest eigenvalues and the trace in float64."""
    how = {"families": ["hessian", "flatness"], "flatness": ["traces"], "loss": "cross-entropy"}
    report = attempted(flatlab.measure, model, x, y, hessian_traces="exact", **how)
    if report is None:
        return
    assert ("derivatives" in report.attrs) == (name in BY_DIFFERENCES)
    assert ("derivatives_not_checked" in report.attrs) == (name in UNCHECKED)
    if name in UNCHECKED:
        return
    hessian, gauss_newton = hessian_by_differences(model, x, F.one_hot(y, 3).double())
    close = {"rel": 1e-6, "abs": 1e-8}
    assert float(report["hessian_trace"]) == pytest.approx(float(hessian.trace()), **close)
    for key, matrix in (("hessian", hessian), ("gauss_newton", gauss_newton)):
        close["rel"] = max(float(report[f"{key}_residual"]), 1e-6)
        largest = float(torch.linalg.eigvalsh(matrix)[-1])
        assert float(report[f"{key}_lambda_max"]) == pytest.approx(largest, **close)


UNCHECKED = {"orthogonal"}
"""It takes the integer part of a parameter that is one, so that the function jumps there."""
BY_DIFFERENCES = {"Hardsigmoid"}
"""They have no second backward pass."""


def attempted(call, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(*arguments, **options)
        except flatlab.MeasureError as error:
            return print(error)


@pytest.mark.every(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SWEPT)
def test_a_value_is_right_or_refused(name, tmp_path):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, x, y = CASES[name]()
    if y is None and isinstance(x, torch.Tensor):
        y = torch.arange(len(x)) % 3
    loss = {"loss": "cross-entropy"}
    report = attempted(flatlab.measure, model, x, y, families=["geometry"])
    curved = attempted(flatlab.measure, model, x, y, families=["hessian"], **loss)
    line = attempted(flatlab.landscape, model, x, y, points=3, **loss)
    way = attempted(flatlab.barriers, [model, model], x, y, points=3, **loss)
    attempted(lambda: flatlab.Tracker(model, x, y, every=1, families=["hessian"], **loss)(0))
    if report is curved is line is None:
        return
    plain = isinstance(x, torch.Tensor) and x.is_floating_point() and isinstance(model, nn.Module)
    if not plain or x.layout != torch.strided or model(x.to(next(model.parameters()))).ndim != 2:
        return
    kind = next(model.parameters()).dtype
    model, inputs = (model, x.to(kind)) if kind.itemsize > 2 else (model.float(), x.float())
    if report is not None and bool(model(inputs).isfinite().all()):  # else a result that says so
        wanted = np.mean(sharpness(model, inputs))
        assert float(report["sharpness"]) == pytest.approx(wanted, rel=1e-3)
    labels = isinstance(y, torch.Tensor) and y.ndim == 1 and not y.is_floating_point()
    if not labels or line is None:
        return
    value = pytest.approx(F.cross_entropy(model(inputs), y).item(), rel=1e-4, abs=1e-5, nan_ok=True)
    assert float(line["loss"][1]) == value
    assert way is None or not float(way["barrier"].max()) > 1e-5
    finite = bool(line["loss"][1].notnull())
    if curved is not None and finite and sum(p.numel() for p in model.parameters()) < 700:
        torch.manual_seed(0)
        check_curvature(name, CASES[name]()[0].double(), inputs.double(), y)
