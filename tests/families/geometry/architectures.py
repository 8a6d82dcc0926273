"""Small networks of every kind that can be measured."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations

from flatlab.networks import build
from tests.networks.written import Written

EXACT = 1e-9
ROUNDING = 1e-12
MATRICES = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
CONVOLUTIONS = MATRICES[1:]


class Residual(nn.Module):
    """Strided convolution, batch norm, ReLU in place, and a connection that is no module."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 4, 3, stride=2, padding=1)
        self.norm1, self.norm2 = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.relu, self.head = nn.ReLU(inplace=True), nn.Linear(4, 3)

    def forward(self, x):
        x = self.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(x))
        y += x
        return self.head(self.relu(y).mean((2, 3)))


def twice(layer, size):
    """One layer used two times."""
    used = lambda net, x: net.layer(net.layer(x).tanh()).tanh().flatten(1)  # noqa: E731
    return Written(lambda net, x: net.head(used(net, x)), layer=layer, head=nn.Linear(size, 2))


def tied():
    """Two layers with one weight, and biases of their own."""
    forward = lambda net, x: net.head(net.two(net.one(x).tanh()).tanh())  # noqa: E731
    model = Written(forward, one=nn.Linear(4, 4), two=nn.Linear(4, 4), head=nn.Linear(4, 2))
    model.two.weight = model.one.weight
    return model


def sequence():
    """Linear layers that see the positions of a sequence, and a parameter without a module."""
    return Written(
        lambda net, x: net.head(F.gelu(net.norm(net.embed(x)) + net.position).mean(1)),
        **{"embed": nn.Linear(3, 5), "norm": nn.LayerNorm(5), "head": nn.Linear(5, 2)},
        position=nn.Parameter(torch.randn(4, 5)),
    )


def borrowed():
    """A weight that is also used outside of its layer."""
    forward = lambda net, x: net.head(F.linear(net.layer(x).relu(), net.layer.weight.t()))  # noqa: E731
    return Written(forward, layer=nn.Linear(4, 5), head=nn.Linear(4, 3))


class Doubled(nn.Linear):
    """A linear layer that is none."""

    def forward(self, x):
        return 2 * super().forward(x)


def transformer(pool="token"):
    timm = pytest.importorskip("timm")
    return timm.models.vision_transformer.VisionTransformer(
        img_size=4, patch_size=2, embed_dim=8, depth=2, num_heads=2, num_classes=3, global_pool=pool
    )


def frozen():
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    model[0].weight.requires_grad_(False)
    return model


def package(name, shape, outputs=2, **options):
    """How a network of the package is built, and the shape of its inputs."""
    activation = {} if name == "simple-vit" else {"activation": "relu"}
    chosen = {"name": name, "options": {**activation, **options}}
    return lambda: build(chosen, shape, outputs), shape


NARROW = {"hidden": [128], "padding": 2}
NARROW["widths"] = [16, "pool", 16, "pool", 32, "pool", 64, "pool", 64, "pool"]
PLAIN = {"normalization": "none", "widths": [5, 6]}
SMALL_VIT = {"patch": 2, "width": 8, "depth": 2, "heads": 2, "head_width": 3, "mlp_width": 5}
THIRTY_SECOND = {"hidden": [6, 6]}
THIRTY_SECOND["widths"] = [2, "pool", 4, "pool", 8, 8, "pool", 16, 16, "pool", 16, 16, "pool"]
S = nn.Sequential


ZOO = {
    "perceptron": (
        lambda: S(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 7), nn.ReLU(), nn.Linear(7, 3)),
        (5,),
    ),
    "one layer": (lambda: S(nn.Linear(5, 3)), (5,)),
    "perceptron without biases": (
        lambda: S(nn.Linear(5, 8, bias=False), nn.Tanh(), nn.Linear(8, 3, bias=False)),
        (5,),
    ),
    "lenet5": package("lenet5", (1, 16, 16)),
    "vgg-narrow": package("vgg", (3, 8, 8), **NARROW),
    "vgg11, narrow": package("vgg", (3, 32, 32), **THIRTY_SECOND),
    "vgg, batch norm": package("vgg", (2, 4, 4), widths=[3, "pool", 4], normalization="batch"),
    "residual, batch norm": (Residual, (2, 6, 6)),
    "resnet": package("resnet", (2, 4, 4), widths=[5, 6]),
    "resnet, plain": package("resnet", (2, 4, 4), **PLAIN),
    "preactivation": package("resnet", (2, 4, 4), order="pre", widths=[5, 6]),
    "preactivation, plain": package("resnet", (2, 4, 4), order="pre", **PLAIN),
    "simple vit": package("simple-vit", (2, 4, 6), 3, **SMALL_VIT),
    "transformer": (transformer, (3, 4, 4)),
    "transformer, mean of tokens": (lambda: transformer("avg"), (3, 4, 4)),
    "linear twice": (lambda: twice(nn.Linear(4, 4), 4), (4,)),
    "convolution twice": (lambda: twice(nn.Conv2d(2, 2, 3, padding=1), 18), (2, 3, 3)),
    "tied": (tied, (4,)),
    "sequence": (sequence, (4, 3)),
    "borrowed": (borrowed, (4,)),
    "frozen": (frozen, (4,)),
    "strides, groups": (
        lambda: S(
            *(nn.Conv2d(4, 4, 2, groups=2), nn.Tanh()),
            *(nn.Conv2d(4, 6, 3, groups=2, stride=2, padding=1, bias=False), nn.ReLU()),
            *(nn.Conv2d(6, 6, 3, groups=6, dilation=2, padding="same"), nn.GELU()),
            *(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(6, 3)),
        ),
        (4, 4, 4),
    ),
    "dilation": (
        lambda: S(nn.Conv2d(2, 4, 3, dilation=2), nn.Tanh(), nn.Flatten(), nn.Linear(36, 3)),
        (2, 7, 7),
    ),
    "few channels": (
        lambda: S(
            *(nn.Conv2d(3, 5, (3, 2), padding=(2, 1)), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
            *(nn.Conv2d(5, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)),
        ),
        (3, 5, 5),
    ),
    "circular": (
        lambda: S(
            *(nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), nn.ReLU()),
            *(nn.Conv2d(4, 4, 2, stride=3), nn.Flatten(), nn.Linear(4, 3)),
        ),
        (3, 4, 4),
    ),
    "one dimension": (
        lambda: S(
            *(nn.Conv1d(2, 3, 3, padding=1), nn.InstanceNorm1d(3, affine=True), nn.Tanh()),
            *(nn.Flatten(), nn.Linear(15, 3)),
        ),
        (2, 5),
    ),
    "three dimensions": (
        lambda: S(
            *(nn.Conv3d(2, 4, 2), nn.GroupNorm(2, 4), nn.Tanh(), nn.Flatten()), nn.Linear(32, 3)
        ),
        (2, 3, 3, 3),
    ),
    "normalized input": (
        lambda: S(nn.BatchNorm1d(5), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)),
        (5,),
    ),
    "parametrized": (
        lambda: S(parametrizations.weight_norm(nn.Linear(5, 4)), nn.Tanh(), nn.Linear(4, 2)),
        (5,),
    ),
    "another forward": (
        lambda: S(nn.Linear(4, 5), nn.Tanh(), Doubled(5, 3), nn.Linear(3, 2)),
        (4,),
    ),
    "transposed convolution": (
        lambda: S(nn.ConvTranspose2d(2, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(27, 2)),
        (2, 2, 2),
    ),
    "one output": (lambda: S(nn.Linear(4, 5, bias=False), nn.ReLU(), nn.Linear(5, 1)), (4,)),
    "more outputs than inputs": (lambda: S(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 3)), (2,)),
    "leaky": (lambda: S(nn.Linear(4, 5), nn.PReLU(5), nn.Linear(5, 3)), (4,)),
}
GENERIC = {
    "transformer": ["cls_token", "pos_embed"],
    "transformer, mean of tokens": ["cls_token", "pos_embed"],
    "sequence": ["position"],
    "borrowed": ["layer.weight"],
    "parametrized": [f"0.parametrizations.weight.original{k}" for k in (0, 1)],
    "another forward": ["2.weight", "2.bias"],
    "transposed convolution": ["0.weight", "0.bias"],
    "leaky": ["1.weight"],
}
MORE = "2: its forward is not that of its base class, or a hook changes what it returns"
LEFT_OUT = {"another forward": [MORE]}
SAMPLES = 3


def network(name):
    """A network in float64 with statistics and affine parameters that are not trivial."""
    make, shape = ZOO[name]
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = make().double().eval()
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
            if isinstance(module, nn.modules.batchnorm._NormBase | nn.LayerNorm | nn.GroupNorm):
                nn.init.normal_(module.weight)
                nn.init.normal_(module.bias)
        if name.startswith("transformer"):
            nn.init.normal_(model.cls_token)
        return model, torch.randn(SAMPLES, *shape, dtype=torch.float64)
