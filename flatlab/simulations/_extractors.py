"""Random feature extractors, and inputs that have given features: petzka2021, App. C.1.

A perceptron of widths 784-512-128-16-m with tanh after each layer. Inputs with given features are
found layer by layer, from the last to the first. The first layer has more inputs than outputs, so
that whatever it gives is reached exactly, and it is never formed here.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from flatlab.simulations._ridge import Array

Single = NDArray[np.float32]

WIDTHS = (512, 128, 16)
RANGE = 0.95
"""Of activations that are inverted: tanh is steep enough there."""


class Extractor:
    """layers: weight (outputs, inputs), its pseudo-inverse and bias, without the first layer."""

    def __init__(self, generator: Generator, features: int) -> None:
        self.layers: list[list[Single]] = []
        for inputs, outputs in pairwise([*WIDTHS, features]):
            reach = np.sqrt(6 / (inputs + outputs))  # Glorot's uniform initialization
            weight = generator.uniform(-reach, reach, (outputs, inputs))
            inverse = np.linalg.solve(weight @ weight.T, weight).T  # of least norm
            bias = generator.uniform(-1, 1, outputs) / np.sqrt(inputs)
            self.layers.append([part.astype(np.float32) for part in (weight, inverse, bias)])

    def __call__(self, first: Single) -> Single:
        """Features (n, m) of what the first layer gives (n, 512)."""
        for weight, _, bias in self.layers:
            first = np.tanh(first @ weight.T + bias)
        return first

    def inverse(self, features: Single) -> Single | None:
        """What the first layer gives where these are the features; None where RANGE is left."""
        activations = features
        for _, inverse, bias in self.layers[::-1]:
            if np.abs(activations).max() > RANGE:
                return None
            activations = (np.arctanh(activations) - bias) @ inverse.T
        return activations if np.abs(activations).max() <= RANGE else None

    def linear_inverse(self, features: Single) -> Single:
        """The authors' code: values before the first tanh, as if no layer had one."""
        size = features.shape[1]
        matrix, shift = np.eye(size, dtype=np.float32), np.zeros(size, dtype=np.float32)
        for _, inverse, bias in self.layers[::-1]:
            matrix, shift = inverse @ matrix, inverse @ (shift - bias)
        return features @ matrix.T + shift


def invertible(generator: Generator, features: int) -> tuple[Extractor, int]:
    """An extractor of which inputs have features near 0, and how many without were drawn before it.

    Of some, one in thousands, the biases alone lead out of `RANGE`: no factor makes features small
    enough for them.
    """
    nothing = np.zeros((1, features), dtype=np.float32)
    before = 0
    while (extractor := Extractor(generator, features)).inverse(nothing) is None:
        before += 1
    return extractor, before


def rescaled(extractor: Extractor, features: Array, step: float = 0.85) -> tuple[Array, float]:
    """Features times the largest factor of a ladder for which inputs have them, and the factor.

    What is returned are the features of these inputs, up to the rounding of float32. The extractor
    is `invertible`: with another there is no end.
    """
    factor = RANGE / float(np.abs(features).max())
    while (first := extractor.inverse((factor * features).astype(np.float32))) is None:
        factor *= step
    return extractor(first).astype(np.float64), factor
