"""Snow, fog and brightness."""

import numpy as np

from flatlab.data.corruptions.blur import moved, zoomed

LUMINANCE = (0.299, 0.587, 0.114)
"""The weights of red, green and blue in grey."""


def snow(x: np.ndarray, severity: int, generator: np.random.Generator) -> np.ndarray:
    """Moving flakes over an image that is whitened: normal noise, enlarged, above a threshold."""
    mean, spread, zoom, threshold, radius, deviation, share = (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    )[severity - 1]
    angles = generator.uniform(-135, -45, len(x))
    flakes = zoomed(generator.normal(mean, spread, (*x.shape[:3], 1)), zoom)
    flakes = moved(np.where(flakes < threshold, 0, flakes).clip(0, 1), radius, deviation, angles)
    grey = (x @ np.array(LUMINANCE) if x.shape[-1] == 3 else x.mean(-1))[..., None]
    white = share * x + (1 - share) * np.maximum(x, 1.5 * grey + 0.5)
    return white + flakes + flakes[:, ::-1, ::-1]


def fog(x: np.ndarray, severity: int, generator: np.random.Generator) -> np.ndarray:
    """A cloud of this strength is added; the largest value remains what it could at most be."""
    settings = ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))
    strength, decay = settings[severity - 1]
    height, width = x.shape[1:3]
    clouds = plasma(len(x), max(height, width), decay, generator)[:, :height, :width, None]
    largest = x.max((1, 2, 3), keepdims=True)
    return (x + strength * clouds) * largest / (largest + strength)


def plasma(count: int, size: int, decay: float, generator: np.random.Generator) -> np.ndarray:
    """Random clouds with values from 0 to 1, (count, n, n), n the power of 2 from `size` on.

    The diamond-square algorithm on a torus: the centres of squares, then those of their edges,
    become the mean of four neighbours plus uniform noise. From one scale to the next, its amplitude
    is divided by the square of `decay`, because the published code multiplies by it twice.
    """
    side = 2 ** int(np.ceil(np.log2(max(size, 2))))
    clouds = np.zeros((count, side, side))
    step, amplitude = side, 100.0
    while step > 1:
        half = step // 2
        cells = side // step
        noise = amplitude**2 * generator.uniform(-1, 1, (count, 3, cells, cells))
        corners = clouds[:, ::step, ::step]
        pairs = corners + np.roll(corners, -1, 1)
        clouds[:, half::step, half::step] = (pairs + np.roll(pairs, -1, 2)) / 4 + noise[:, 0]
        centres = clouds[:, half::step, half::step]
        beside = centres + np.roll(centres, 1, 1) + corners + np.roll(corners, -1, 2)
        clouds[:, ::step, half::step] = beside / 4 + noise[:, 1]
        above = centres + np.roll(centres, 1, 2) + corners + np.roll(corners, -1, 1)
        clouds[:, half::step, ::step] = above / 4 + noise[:, 2]
        step, amplitude = half, amplitude / decay
    clouds -= clouds.min((1, 2), keepdims=True)
    return clouds / clouds.max((1, 2), keepdims=True)


def brightness(x: np.ndarray, severity: int, generator: np.random.Generator) -> np.ndarray:
    """This is added to the value of hue, saturation and value: colours keep their proportions."""
    added = (0.05, 0.1, 0.15, 0.2, 0.3)[severity - 1]
    value = x.max(-1, keepdims=True)
    brighter = np.minimum(value + added, 1)
    return np.where(value > 0, x * brighter / np.where(value > 0, value, 1), brighter)
