"""A start from which a network fits points roughly: macdonald2023, App. C.3.

The paper starts a ReLU network from a fit of sin(6 pi x). Adam and its rate are the paper's; the
other numbers are assumptions, and so is the number of steps, `network.initialization_steps`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from flatlab.train.initializations import reset

POINTS, RATE = 256, 1e-4


def draw(model: nn.Module) -> None:
    """As in `framework`; the fit starts from there."""
    reset(model)


class SineFit:
    """Fits a network from the line to the line to sin(6 pi x): high frequencies.

    Steps of Adam with rate 1e-4 on the mean squared error at 256 equally spaced points of [-1, 1].
    Nothing is drawn: what comes out depends on the weights that go in. It takes so long that it can
    be left after any step, and gone on with from its `state`.
    """

    def __init__(self, model: nn.Module, steps: int) -> None:
        self.model = model
        first = next(module for module in model.modules() if isinstance(module, nn.Linear))
        if first.in_features != 1:
            raise ValueError(
                f"high-frequency is for networks of one input, this has {first.in_features}"
            )
        self.x = torch.linspace(-1, 1, POINTS, dtype=first.weight.dtype)[:, None]
        self.y = torch.sin(6 * math.pi * self.x)
        self.update = torch.optim.Adam(model.parameters(), lr=RATE, fused=True)
        self.left = steps

    def step(self) -> None:
        self.update.zero_grad()
        nn.functional.mse_loss(self.model(self.x), self.y).backward()
        self.update.step()
        self.update.zero_grad()
        self.left -= 1

    def state(self) -> dict[str, Tensor]:
        """All that the steps to come depend on, by name; copies."""
        tensors = {f"model.{name}": t for name, t in self.model.state_dict().items()}
        for number, moments in self.update.state_dict()["state"].items():
            tensors |= {f"update.{number}.{name}": t for name, t in moments.items()}
        return {name: t.clone() for name, t in tensors.items()} | {"left": torch.tensor(self.left)}

    def go_on(self, state: Mapping[str, Tensor]) -> None:
        """Be where `state` was taken."""
        self.left = int(state["left"])
        model = {n.removeprefix("model."): t for n, t in state.items() if n.startswith("model.")}
        self.model.load_state_dict(model)
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in state.items():
            if name.startswith("update."):
                _, number, moment = name.split(".")
                moments.setdefault(int(number), {})[moment] = tensor.clone()
        self.update.load_state_dict({**self.update.state_dict(), "state": moments})


def fit(model: nn.Module, steps: int) -> SineFit:
    return SineFit(model, steps)
