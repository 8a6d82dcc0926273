"""Networks that other libraries differentiate too."""

import pytest


@pytest.fixture(scope="session")
def randomized():
    """A network in float64 and evaluation mode, all its numbers drawn from a seed."""
    import torch
    from torch import nn

    def fill(model, seed=0):
        generator = torch.Generator().manual_seed(seed)
        model = model.double().eval()
        for parameter in model.parameters():
            spread = 1.0 / parameter[0].numel() ** 0.5 if parameter.ndim > 1 else 0.7
            parameter.data.normal_(std=spread, generator=generator)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_(generator=generator)
                module.running_var.uniform_(0.5, 2, generator=generator)
        return model

    return fill


@pytest.fixture(scope="session")
def lenet(randomized):
    """Build a small LeNet with max pooling, for images of 1 x 10 x 10, with 4 outputs."""
    from torch import nn

    def build():
        return randomized(
            nn.Sequential(
                nn.Conv2d(1, 3, 3, padding=1),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(3, 4, 3, stride=2),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(16, 6),
                nn.ReLU(),
                nn.Linear(6, 4),
            )
        )

    return build


@pytest.fixture(scope="session")
def measure():
    """`flatlab.measure` with all costly quantities but the corrected bound."""
    import flatlab

    def run(model, x, **settings):
        costly = ["elementwise-adaptive-trace", "operator-norm"]
        return flatlab.measure(model, x, costly=costly, **settings)

    return run
