"""Worst-case sharpness of linear classifiers in closed form, per sample, at many weight scales.

f = W x + b, and the loss is cross-entropy; a single output f stands for the two outputs (0, f),
whose cross-entropy is log(1 + exp(-y f)) with y = +-1. The sharpness of a sample is the largest
increase of its loss over changes d of (W, b) in a neighbourhood of size rho, that of a data set the
mean over its samples ("m = 1" in andriushchenko2023). The loss increases with the outputs of the
wrong classes and decreases with that of the right class. Output k changes by <d_k, (x, 1)>, at most
rho times its reach, the dual norm of (x, 1).
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, one_hot, pad

from flatlab.core.errors import MeasureError
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, Settings, only_layer

SOURCE = "andriushchenko2023 Eq. 1, Fig. 1"
NEIGHBOURHOODS = ("ball", "adaptive-l2", "adaptive-linf")
"""ball: |d|_2 <= rho |(W, b)|_2.  adaptive: |d / (W, b)|_p <= rho, elementwise, p 2 or infinity."""

LOGITS = ("plain", "normalized")
RADII = (0.1, 0.25, 0.5)
FACTORS = torch.logspace(-10, 10, 30, base=2, dtype=torch.float64)
"""Factors on the weights; like the radii, from the authors' public notebook."""

DIMS = ("neighbourhood", "logits", "radius")
QUANTITIES = {
    "worst_sharpness": Quantity("worst-case sharpness of single samples", "loss", SOURCE, DIMS),
    "scaled_worst_sharpness": Quantity(
        "worst-case sharpness of the classifier times a factor", "loss", SOURCE, (*DIMS, "factor")
    ),
    "weight_factor": Quantity("factor on weights and biases", "1", SOURCE, ("factor",)),
    "margin": Quantity("right output minus the largest other", "output", "", ("sample",)),
    "margin_min": Quantity("smallest margin of a sample", "output", ""),
    "classification_error": Quantity("samples without a positive margin", "%", ""),
}


CHECKS = ()


@torch.no_grad()
def measure(model: nn.Module, samples: SampleSet, settings: Settings) -> Measured:
    """Sharpness in every neighbourhood, of the classifier and of its scaled versions.

    Normalized logits (Eq. 5) are f minus its mean over the outputs, divided by its standard
    deviation. With two outputs they are +-1, the sign of the margin. With more than two outputs
    there is no closed form with normalized logits, or in a neighbourhood other than adaptive-linf:
    those values are NaN.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(2, 2, bias=False).double()
    >>> network.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 2.0]])})
    <All keys matched successfully>
    >>> x, classes = torch.tensor([[3.0, 4.0], [4.0, 0.0]]), torch.tensor([1, 0])
    >>> report = flatlab.measure(network, x, classes, families="linear")
    >>> report["margin"].values.tolist(), report["classification_error"].item()
    ([5.0, 4.0], 0.0)
    """
    if settings.loss.weighted:
        raise MeasureError("linear has no closed form with class weights; leave class_weights out")
    layer = only_layer(model)
    if not isinstance(layer, nn.Linear) or type(layer).forward is not nn.Linear.forward:
        raise MeasureError(
            "linear is for classifiers that are one linear layer: others have no closed form; "
            "leave it out, or measure `adaptive`"
        )
    weight, x = layer.weight.double(), samples.inputs.flatten(1).double()
    if layer.bias is not None:
        weight = torch.cat([weight, layer.bias.double()[:, None]], 1)
        x = pad(x, (0, 1), value=1.0)
    right = _right_outputs(samples, len(weight))
    outputs, reaches = x @ weight.T, _reaches(weight, x)
    if len(weight) == 1:
        outputs, reaches = pad(outputs, (1, 0)), pad(reaches, (1, 0))
    named = zip(NEIGHBOURHOODS, reaches, strict=True)
    grown = torch.stack([_grown(name, outputs, reach, right) for name, reach in named])
    margin = -_behind(outputs, right).amax(-1)
    sharpness = _sharpness(outputs, grown, right, torch.cat([torch.ones(1).to(FACTORS), FACTORS]))
    values = {
        "worst_sharpness": sharpness[..., 0],
        "scaled_worst_sharpness": sharpness[..., 1:],
        "weight_factor": FACTORS,
        "margin": margin,
        "margin_min": margin.min(),
        "classification_error": 100 * (margin <= 0).double().mean(),
    }
    labels = (NEIGHBOURHOODS, LOGITS, map(str, RADII))
    return Measured(values, {dim: list(names) for dim, names in zip(DIMS, labels, strict=True)})


def _right_outputs(samples: SampleSet, outputs: int) -> Tensor:
    """The index of the right output: (samples). For a single output it is 1 for +1, 0 for -1."""
    if samples.labels is not None:
        right = samples.labels
    elif samples.targets is None:
        raise MeasureError("the sharpness of a classifier needs targets: classes")
    elif outputs > 1:
        right = samples.targets.argmax(1)
    else:
        right = (samples.targets[:, 0] > 0).long()
        if not torch.equal(samples.targets[:, 0].abs(), torch.ones_like(samples.targets[:, 0])):
            raise MeasureError("the targets of a classifier with one output are +1 and -1")
    if right.max() >= max(2, outputs) or right.min() < 0:
        raise MeasureError(
            f"there is a class {int(right.max())}, the classifier has {outputs} outputs"
        )
    return right


def _reaches(weight: Tensor, x: Tensor) -> Tensor:
    """The largest change of each output, divided by rho: (neighbourhood, samples, outputs)."""
    products = (weight * x[:, None]).abs()
    ball = (weight.norm() * x.norm(dim=1))[:, None].expand(-1, len(weight))
    return torch.stack([ball, products.norm(dim=2), products.sum(2)])


def _grown(name: str, outputs: Tensor, reach: Tensor, right: Tensor) -> Tensor:
    """The outputs at the worst d, for each radius: (radii, samples, outputs).

    An output of reach s changes by rho s if the outputs change independently, and by
    rho s^2 / |s|_2 if d has one norm for all outputs, which decreases the difference of two most.
    """
    if name != "adaptive-linf":
        whole = reach.norm(dim=1, keepdim=True)
        reach = reach.square() / whole.where(whole > 0, 1.0)
        reach = reach if outputs.shape[1] == 2 else torch.full_like(reach, torch.nan)
    direction = 1 - 2 * one_hot(right, outputs.shape[1])
    return outputs + torch.tensor(RADII).to(outputs)[:, None, None] * direction * reach


def _sharpness(outputs: Tensor, grown: Tensor, right: Tensor, factors: Tensor) -> Tensor:
    """Mean increase of the loss by (neighbourhood, logits, radius, factor)."""
    before, after = _behind(outputs, right), _behind(grown, right)
    parts = []
    for factor in factors.tolist():
        plain = _losses(factor * after) - _losses(factor * before)
        signs = _losses(2 * after.sign()) - _losses(2 * before.sign())
        normalized = signs if outputs.shape[1] == 2 else torch.full_like(plain, torch.nan)
        parts.append(torch.stack([plain, normalized], 1).mean(-1))
    return torch.stack(parts, -1)


def _behind(outputs: Tensor, right: Tensor) -> Tensor:
    """The other outputs minus the right one: (..., samples, outputs - 1)."""
    others = one_hot(right, outputs.shape[-1]) == 0
    index = right.expand(outputs.shape[:-1])[..., None]
    differences = outputs - outputs.gather(-1, index)
    kept = differences[..., others]
    return kept.unflatten(-1, (len(right), -1))


def _losses(behind: Tensor) -> Tensor:
    """Cross-entropy of each sample from `_behind`: (..., samples)."""
    return -logsigmoid(-behind.logsumexp(-1))
