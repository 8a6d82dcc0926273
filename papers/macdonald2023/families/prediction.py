"""The function that a network with one input and one output computes, and the points it fits.

For regressions whose test inputs are a fine grid.
"""

import torch
from torch import nn

from flatlab.core.errors import MeasureError
from flatlab.data._tensors import Splits
from flatlab.measuring.quantity import Measured, Quantity, Settings

SOURCE = "macdonald2023 Fig. 32"
QUANTITIES = {
    "curve_input": Quantity("x of a test sample", "input", SOURCE, ("place",)),
    "curve_output": Quantity("f(x)", "output", SOURCE, ("place",)),
    "fitted_input": Quantity("x of a training sample", "input", SOURCE, ("point",)),
    "fitted_target": Quantity("y of a training sample", "output", SOURCE, ("point",)),
}


CHECKS = ()


@torch.no_grad()
def measure_splits(model: nn.Module, splits: Splits, settings: Settings) -> Measured:
    """The curve at the test inputs, and the training points."""
    if splits.train.inputs[0].numel() != 1 or splits.outputs != 1:
        raise MeasureError("prediction is for networks with one input and one output; leave it out")
    values = {
        "curve_input": splits.test.inputs,
        "curve_output": model(splits.test.inputs),
        "fitted_input": splits.train.inputs,
        "fitted_target": splits.train.targets,
    }
    return Measured({name: tensor.flatten() for name, tensor in values.items()})
