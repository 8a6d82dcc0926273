"""One of the hundred perceptrons of chen2026, lr0.1-b8-s0.safetensors, for others to measure.

    cd results/published/paper/networks
    flatlab measure lr0.1-b8-s0.safetensors --model perceptron:build --data fashion-mnist

To six digits that is the last checkpoint of this network in ../tables/mlp-grid.zarr.zip, where
images are rounded otherwise.
"""

from torch import nn


def build() -> nn.Sequential:
    model = nn.Sequential(nn.Flatten())
    for number in (1, 2, 3):
        model.add_module(f"fc{number}", nn.Linear(784 if number == 1 else 500, 500))
        model.append(nn.ReLU())
    model.add_module("fc4", nn.Linear(500, 10))
    return model.double()
