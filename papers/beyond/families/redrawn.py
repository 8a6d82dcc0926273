"""Sensitivity and the sharpness of the first layer after that layer is drawn anew: a null.

MLS is the mean of |Gamma W|_2 and S(W) that of |Gamma|_F^2 |x|^2, with W the weights of the first
layer and Gamma the derivatives of the outputs in what it returns. They share Gamma: some of their
correlation between networks is there whatever W has learned. Here W is normal, with the Frobenius
norm that it has, and all else stays.
"""

import copy
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.core.progress import ticked
from flatlab.core.schema import Strict, means
from flatlab.derivatives.per_sample.engine import derivatives
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, Settings

CHECKS = ("gradient",)
DIMS = ("redraw",)
QUANTITIES = {
    "redrawn_mls": Quantity(
        "MLS after the first layer's weights are drawn anew", "output/input", "", DIMS
    ),
    "redrawn_first_sharpness": Quantity("S(W_1) after the same", "(output/parameter)^2", "", DIMS),
}


class Options(Strict, frozen=True):
    redraws: Annotated[int, means("how often the first layer's weights are drawn", ge=1)] = 5


def measure(model: nn.Module, samples: SampleSet, settings: Settings) -> Measured:
    """Both quantities for each draw.

    Raises `MeasureError` for a network without a linear or convolution layer.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(2, 1, bias=False).double()
    >>> network.load_state_dict({"weight": torch.tensor([[3.0, 4.0]])})
    <All keys matched successfully>
    >>> report = flatlab.measure(network, torch.tensor([[0.0, 2.0]]), families="redrawn", redraws=2)
    >>> report["redrawn_mls"].values.round(6).tolist()  # |W|, whatever its direction
    [5.0, 5.0]
    >>> report["redrawn_first_sharpness"].values.tolist()
    [4.0, 4.0]
    """
    options: Options = settings.options
    findings = settings.findings(model, samples.inputs)
    if not findings.layers:
        raise MeasureError(
            "redrawn needs a first linear or convolution layer, and this network calls none as a "
            "module"
        )
    first = findings.layers[0]
    pairs = []
    for draw in ticked(range(options.redraws), "redrawn first layers", settings.progress):
        again = copy.deepcopy(model)
        weight: Any = again.get_submodule(first).weight
        weight.data = _redrawn(weight.data, 1000 * settings.seed + draw)
        exact = derivatives(
            again,
            samples.inputs,
            adaptive=False,
            loss=settings.loss,
            batch_size=settings.batch_size,
            budget=settings.budget,
        )
        layer = exact.layers[0]
        pairs.append([exact.singular[:, 0].mean(), layer.weight2.double().mean()])
    values = torch.tensor(pairs, dtype=torch.float64)
    if not findings.finite:
        values = torch.full_like(values, torch.nan)
    draws = [str(draw) for draw in range(options.redraws)]
    return Measured(dict(zip(QUANTITIES, values.T, strict=True)), {"redraw": draws})


def _redrawn(weight: Tensor, seed: int) -> Tensor:
    """Normal weights with the same Frobenius norm."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
    drawn *= torch.linalg.vector_norm(weight.double()).cpu() / torch.linalg.vector_norm(drawn)
    return drawn.to(weight)
