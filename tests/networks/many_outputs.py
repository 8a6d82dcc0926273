"""Networks of six kinds with more outputs than an estimate has directions."""

import torch
from torch import nn

from flatlab.networks import build

OUTPUTS, SAMPLES = 40, 4
VIT = {"patch": 4, "width": 8, "depth": 1, "heads": 2, "head_width": 4, "mlp_width": 8}
TIMM = {"patch_size": 4, "embed_dim": 12, "depth": 1, "num_heads": 3}
IMAGE = (1, 8, 8)
NETWORKS = {
    "perceptron": ((5,), "mlp", {"activation": "tanh", "width": 12, "depth": 3}),
    "vgg": (
        IMAGE,
        "vgg",
        {"activation": "relu", "widths": (2, "pool", 3), "hidden": (8,), "normalization": "batch"},
    ),
    "resnet": (IMAGE, "resnet", {"activation": "relu", "widths": (2, 3)}),
    "simple-vit": (IMAGE, "simple-vit", VIT),
    "timm": (IMAGE, "timm", {"model": "vit_tiny_patch16_224", "arguments": TIMM}),
}


def many_outputs(name):
    """A network in float64, in evaluation mode, and samples."""
    torch.manual_seed(0)
    if name == "tied":  # a weight that two layers share, which no rule covers alone
        model = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5), nn.Linear(5, OUTPUTS))
        model[2].weight = model[0].weight
        shape = (5,)
    else:
        shape, key, options = NETWORKS[name]
        model = build({"name": key, "options": options}, shape, OUTPUTS)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(SAMPLES, *shape, generator=generator, dtype=torch.float64)
    return model.double().eval(), x
