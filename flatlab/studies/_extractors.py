"""Random feature extractors, and inputs that have given features: petzka2021, App. C.1.

A perceptron of widths 784-512-128-16-m with tanh after each layer. Inputs with given features are
found layer by layer, from the last to the first. The first layer has more inputs than outputs, so
that every value before its tanh is reached exactly: these values stand for the inputs here, and
the first layer is never formed.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from flatlab.features import Array

WIDTHS = (512, 128, 16)
RANGE = 0.95
"""Of activations that are inverted: tanh is steep enough there."""


class Extractor:
    """layers: weight (outputs, inputs), its pseudo-inverse and bias, without the first layer."""

    def __init__(self, generator: Generator, features: int) -> None:
        self.layers = []
        widths = [*WIDTHS, features]
        for inputs, outputs in zip(widths, widths[1:], strict=False):
            reach = np.sqrt(6 / (inputs + outputs))  # Glorot's uniform initialization
            weight = generator.uniform(-reach, reach, (outputs, inputs)).astype(np.float32)
            bias = generator.uniform(-1, 1, outputs).astype(np.float32) / np.float32(inputs**0.5)
            self.layers.append((weight, np.linalg.pinv(weight), bias))

    def __call__(self, values: Array) -> Array:
        """Features (n, m) of values before the first layer's tanh (n, 512)."""
        for weight, _, bias in self.layers:
            values = np.tanh(values) @ weight.T + bias
        return np.tanh(values)

    def inverse(self, features: Array) -> Array | None:
        """Values before the first tanh that have these features; None where one leaves RANGE."""
        activations = features
        for _, inverse, bias in self.layers[::-1]:
            if np.abs(activations).max() > RANGE:
                return None
            activations = (np.arctanh(activations) - bias) @ inverse.T
        return np.arctanh(activations) if np.abs(activations).max() <= RANGE else None

    def linear_inverse(self, features: Array) -> Array:
        """The authors' code: as if there were no tanh, so that the features are not these."""
        for _, inverse, bias in self.layers[::-1]:
            features = (features - bias) @ inverse.T
        return features


def rescaled(extractor: Extractor, features: Array, step: float = 0.85) -> tuple[Array, float]:
    """Features times the largest factor of a ladder for which inputs have them, and the factor.

    What is returned are the features of these inputs, up to the rounding of float32.
    """
    factor = RANGE / float(np.abs(features).max())
    while (values := extractor.inverse((factor * features).astype(np.float32))) is None:
        factor *= step
    return extractor(values).astype(np.float64), factor
