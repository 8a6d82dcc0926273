"""A start from which a network fits points with a smooth function: macdonald2023, App. C.3.

The paper starts a Gaussian network from "a wide Gaussian distribution". Here the first linear layer
is drawn from N(0, 0.035^2), so that it has low frequencies only, and the rest as in `framework`.
"""

from torch import nn

from flatlab.lab.train.initializations._draw import reset

NARROW = 0.035
"""Standard deviation of the first layer's weights: 256 of them have the norm 0.56 of table 1."""


def draw(model: nn.Module) -> None:
    reset(model)
    first = next(module for module in model.modules() if isinstance(module, nn.Linear))
    nn.init.normal_(first.weight, std=NARROW)
