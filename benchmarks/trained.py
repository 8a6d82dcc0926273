"""Two networks after a few steps of training, of which second derivatives are timed."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from flatlab.derivatives.second_order.hessian_products import trainable
from flatlab.losses import loss_of
from flatlab.networks import lenet5, resnet

SAMPLES, CLASSES, STEPS = 256, 10, 20
LOSS = loss_of({"loss": "cross-entropy"})


@dataclass(frozen=True)
class Trained:
    """A network in evaluation mode, with the samples that it was trained on.

    model: the network, in float32.
    x: inputs (samples, channels, height, width).
    y: classes (samples).
    """

    model: nn.Module
    x: Tensor
    y: Tensor

    @property
    def batches(self) -> list[tuple[Tensor, Tensor]]:
        """All samples at once, with targets (samples, classes)."""
        return [(self.x, nn.functional.one_hot(self.y, CLASSES).to(self.x))]

    def start(self) -> Tensor:
        """A random vector of all parameters."""
        return torch.randn(sum(parameter.numel() for parameter in trainable(self.model)))


def untrained() -> dict[str, tuple[nn.Module, Tensor]]:
    """LeNet5 and a narrow ResNet, with random inputs."""
    torch.manual_seed(0)
    lenet = lenet5.Options(activation="relu")
    narrow = resnet.Options(activation="relu", widths=(8, 16, 32))
    return {
        "LeNet5": (lenet5.build((3, 32, 32), CLASSES, lenet), torch.randn(SAMPLES, 3, 32, 32)),
        "ResNet 8-16-32": (
            resnet.build((3, 16, 16), CLASSES, narrow),
            torch.randn(SAMPLES, 3, 16, 16),
        ),
    }


def trained() -> dict[str, Trained]:
    """The same, trained."""
    y = torch.arange(SAMPLES) % CLASSES
    networks = {}
    for name, (model, x) in untrained().items():
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for _ in range(STEPS):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        networks[name] = Trained(model.eval(), x, y)
    return networks
