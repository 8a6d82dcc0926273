"""Architectures: one file each, whose stem is the value of `network.name`.

Each file has

    MODE        a literal: how the training engine advances many such networks (`lab.train`);
                those whose options say that they are `narrow` are `batched`
    Options     a subclass of `flatlab.core.options.Architecture`: what a grid may set in `network`
    build       `build(inputs, outputs, options)`, which returns the torch module

Planning reads the first two from the syntax of the file, without importing it.
"""

from flatlab.networks._build import build, drawing_from, options_of, seeded
from flatlab.networks._modules import ACTIVATIONS, Gaussian, Residual, ZeroConv2d

__all__ = [
    "ACTIVATIONS",
    "Gaussian",
    "Residual",
    "ZeroConv2d",
    "build",
    "drawing_from",
    "options_of",
    "seeded",
]
