"""Noise of each number of an image by itself."""

import numpy as np


def gaussian_noise(x: np.ndarray, severity: int, generator: np.random.Generator) -> np.ndarray:
    """Normal noise."""
    return x + generator.normal(scale=(0.04, 0.06, 0.08, 0.09, 0.10)[severity - 1], size=x.shape)


def shot_noise(x: np.ndarray, severity: int, generator: np.random.Generator) -> np.ndarray:
    """Counts of a Poisson process: so many photons at value 1."""
    photons = (500, 250, 100, 75, 50)[severity - 1]
    return generator.poisson(x * photons) / photons


def impulse_noise(x: np.ndarray, severity: int, generator: np.random.Generator) -> np.ndarray:
    """This fraction of the numbers become 0 or 1, with equal probabilities."""
    fraction = (0.01, 0.02, 0.03, 0.05, 0.07)[severity - 1]
    draw = generator.random(x.shape)
    return np.where(draw < fraction / 2, 0.0, np.where(draw < fraction, 1.0, x))
