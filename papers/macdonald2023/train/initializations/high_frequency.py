"""A start from which a network fits points with a rough function: macdonald2023, App. C.3.

The paper starts a ReLU network from a fit of sin(6 pi x). Adam and its rate are the paper's; the
other numbers are assumptions, and so is the number of steps, `network.initialization_steps`.
"""

import math

import torch
from torch import Tensor, nn

from flatlab.lab.train.initializations._draw import reset
from flatlab.lab.train.optimizers import adam
from flatlab.lab.train.optimizers._update import tensors_of

POINTS, RATE = 256, 1e-4


def draw(model: nn.Module) -> None:
    """Draw as `framework` does; the fit starts from there."""
    reset(model)


class Fit:
    """Fits a network with one input and one output to sin(6 pi x), which has high frequencies.

    Steps of Adam with rate 1e-4 on the mean squared error at 256 equally spaced points of [-1, 1].
    Nothing is drawn: the result depends on the weights at the start alone.
    """

    def __init__(self, model: nn.Module, steps: int) -> None:
        self.model = model
        first = next(module for module in model.modules() if isinstance(module, nn.Linear))
        if first.in_features != 1:
            raise ValueError(
                f"high-frequency needs a network with one input, this one has {first.in_features}"
            )
        self.x = torch.linspace(-1, 1, POINTS, dtype=first.weight.dtype)[:, None]
        self.y = torch.sin(6 * math.pi * self.x)
        self.update = torch.optim.Adam(model.parameters(), lr=RATE, fused=True)
        self.left = torch.tensor(steps)

    def step(self) -> None:
        self.update.zero_grad()
        nn.functional.mse_loss(self.model(self.x), self.y).backward()
        self.update.step()
        self.update.zero_grad()
        self.left -= 1

    def tensors(self) -> dict[str, Tensor]:
        return {**tensors_of(self.model, self.update, adam), "left": self.left}
