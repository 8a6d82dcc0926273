"""Random networks for the laws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st


@dataclass(frozen=True)
class Network:
    """A network, its 6 inputs x, and its numbers of inputs and outputs."""

    model: Any
    x: Any
    inputs: int
    outputs: int
    bias: bool


@pytest.fixture(scope="session")
def draw_network(mlp, normal):
    """Draw a network of random depth and widths: draw_network(data), data from hypothesis."""

    def draw(data, activations=("relu", "tanh"), hidden=(0, 3)):
        lengths = {"min_size": hidden[0], "max_size": hidden[1]}
        inputs, outputs = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
        inner = data.draw(st.lists(st.integers(2, 8), **lengths))
        bias, seed = data.draw(st.booleans()), data.draw(st.integers(0, 10**6))
        activation = data.draw(st.sampled_from(activations))
        model = mlp((inputs, *inner, outputs), seed=seed, activation=activation, bias=bias)
        return Network(model, normal(6, inputs, seed=seed), inputs, outputs, bias)

    return draw
