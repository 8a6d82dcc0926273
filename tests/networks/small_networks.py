"""Small networks of many kinds, their inputs, and Hessians of losses in one weight."""

from itertools import cycle

import numpy as np
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from flatlab.losses import loss_of
from flatlab.networks import build

IMAGE = (1, 8, 8)
CLASSES, SAMPLES = 3, 9
VIT = {"patch": 4, "width": 8, "depth": 1, "heads": 2, "head_width": 4, "mlp_width": 8}
VGG = {"activation": "relu", "widths": (2, "pool", 3), "normalization": "batch"}
TIMM = {"patch_size": 4, "embed_dim": 12, "depth": 1, "num_heads": 3}

SHAPES = {"mlp-relu": (5,), "mlp-tanh": (5,), "linear": (5,)}
"""Of the inputs; images for all other networks."""
LINEAR = {  # the layers that see one vector of each sample
    "mlp-relu": ["fc1", "fc2", "fc3"],
    "mlp-tanh": ["fc1", "fc2", "fc3"],
    "linear": ["fc"],
    "lenet": ["6", "8"],
    "vgg": ["fc1", "fc2"],
    "resnet": ["fc"],
    "preact-resnet": ["fc"],
    "simple-vit": ["fc"],
    "timm": ["head"],
}
PIECEWISE_LINEAR = [*LINEAR.keys() - {"mlp-tanh", "simple-vit", "timm"}]
LOSSES = {
    "half-mse": {"loss": "half-mse"},
    "mean-mse": {"loss": "mean-mse"},
    "sum-of-squares": {"loss": "sum-of-squares"},
    "cross-entropy": {"loss": "cross-entropy"},
    "smoothed": {"loss": "cross-entropy", "label_smoothing": 0.3},
    "logistic": {"loss": "logistic"},
}
DIAGONAL = [*zip(LINEAR, cycle(LOSSES))]
DIAGONAL += [("mlp-tanh", loss) for loss in LOSSES if loss != "mean-mse"]
"""Each network with one loss, and one network with each."""


def _built(name):
    if name == "lenet":
        convolutions = nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 3)
        head = nn.ReLU(), nn.Flatten(), nn.Linear(16, 6), nn.ReLU(), nn.Linear(6, CLASSES)
        return nn.Sequential(*convolutions, *head)
    relu = {"activation": "relu"}
    key, options = {
        "mlp-relu": ("mlp", {**relu, "width": 6, "depth": 3}),
        "mlp-tanh": ("mlp", {"activation": "tanh", "width": 6, "depth": 3}),
        "linear": ("linear", {}),
        "vgg": ("vgg", {**VGG, "hidden": (4,)}),
        "resnet": ("resnet", {**relu, "widths": (2, 3)}),
        "preact-resnet": ("resnet", {**relu, "widths": (2, 3), "order": "pre"}),
        "simple-vit": ("simple-vit", VIT),
        "timm": ("timm", {"model": "vit_tiny_patch16_224", "arguments": TIMM}),
    }[name]
    return build({"name": key, "options": options}, SHAPES.get(name, IMAGE), CLASSES)


def small(name, seed=0):
    """A network in float64 and evaluation mode, inputs, and classes of which every one occurs."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = _built(name).double().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(generator=generator)
            module.running_var.uniform_(0.5, 2, generator=generator)
        for key, parameter in module.named_parameters(recurse=False):
            spread = 1.5 / parameter[0].numel() ** 0.5 if parameter.ndim > 1 else 0.4
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            norm = isinstance(module, nn.BatchNorm2d | nn.LayerNorm) and key == "weight"
            parameter.data = (1.0 if norm else 0.0) + spread * noise
    shape = SHAPES.get(name, IMAGE)
    inputs = torch.randn(SAMPLES, *shape, generator=generator, dtype=torch.float64)
    return model, inputs, torch.arange(SAMPLES) % CLASSES


def targets_for(loss, labels):
    """One-hot vectors in float64; +1 and -1 for the logistic loss."""
    one_hot = nn.functional.one_hot(labels, CLASSES).double()
    return 2 * one_hot - 1 if loss == "logistic" else one_hot


def total_loss(model, inputs, targets, loss):
    """The loss as a function of some of the parameters, by name."""
    chosen = loss_of(LOSSES[loss])

    def function(parameters):
        outputs = torch.func.functional_call(model, parameters, (inputs,))
        return chosen.of_batch(chosen.values(outputs, targets))

    return function


def hessian(model, name, function):
    """Second derivatives with respect to one weight (d, ...), matrices (d, m, d, m)."""
    value = dict(model.named_parameters())[name].detach()
    with sdpa_kernel(SDPBackend.MATH):
        of_one = torch.autograd.functional.hessian
        found = of_one(lambda tensor: function({name: tensor}), value, vectorize=True)
    return found.reshape(len(value), -1, len(value), value[0].numel()).numpy()


def flatness(weight, blocks):
    """kappa_Tr, kappa and the trace, of a weight (d, m) and its Hessian (d, m, d, m)."""
    rows = range(len(weight))
    kappa_trace = np.einsum("sm,tm,sata", weight, weight, blocks)
    kappa = sum((weight[s] @ weight[s]) * np.linalg.eigvalsh(blocks[s, :, s])[-1] for s in rows)
    return kappa_trace, kappa, sum(np.trace(blocks[s, :, s]) for s in rows)


OUTPUTS = 40
NETWORKS = {
    "perceptron": ((5,), "mlp", {"activation": "tanh", "width": 12, "depth": 3}),
    "vgg": (IMAGE, "vgg", {**VGG, "hidden": (8,)}),
    "resnet": (IMAGE, "resnet", {"activation": "relu", "widths": (2, 3)}),
    "simple-vit": (IMAGE, "simple-vit", VIT),
    "timm": (IMAGE, "timm", {"model": "vit_tiny_patch16_224", "arguments": TIMM}),
}


def many_outputs(name):
    """A network in float64, in evaluation mode, and samples."""
    torch.manual_seed(0)
    shape = (5,)
    if name == "tied":  # a weight that two layers share, which no rule covers alone
        model = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5), nn.Linear(5, OUTPUTS))
        model[2].weight = model[0].weight
    else:
        shape, key, options = NETWORKS[name]
        model = build({"name": key, "options": options}, shape, OUTPUTS)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, *shape, generator=generator, dtype=torch.float64)
    return model.double().eval(), x


TOKENS, WIDTH, LENGTH = 11, 8, 5


class Transformer(nn.Module):
    """(samples, LENGTH) tokens -> (samples, LENGTH, TOKENS).  tied: the head is the embedding."""

    def __init__(self, tied=False):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.queries = nn.Linear(WIDTH, 3 * WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, TOKENS, bias=False)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.behind(self.embedding(tokens))

    def behind(self, embedded):
        h = embedded + self.positions(torch.arange(embedded.shape[1]))
        q, k, v = self.queries(self.norm(h)).chunk(3, -1)
        h = h + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(h + self.down(nn.functional.gelu(self.up(h))))


def transformer(tied=False, samples=3):
    """One in float64, and sequences of tokens, in which some repeat."""
    torch.manual_seed(0)
    model = Transformer(tied).double().eval()
    generator = torch.Generator().manual_seed(1)
    return model, torch.randint(TOKENS - 4, (samples, LENGTH), generator=generator)
