"""Contrast, shape, resolution and encoding."""

import functools
import io

import numpy as np
from PIL import Image
from scipy import ndimage

from flatlab.data.corruptions.blur import resampled


def contrast(x: np.ndarray, severity: int, generator: np.random.Generator) -> np.ndarray:
    """Differences from the mean of each channel of an image are reduced by this factor."""
    factor = (0.75, 0.5, 0.4, 0.3, 0.15)[severity - 1]
    means = x.mean((1, 2), keepdims=True)
    return (x - means) * factor + means


def elastic_transform(x: np.ndarray, severity: int, generator: np.random.Generator) -> np.ndarray:
    """A random affine map, then a smooth random displacement of each pixel.

    The affine map moves three points by uniform vectors; displacements are uniform noise behind a
    Gaussian filter. Both are in fractions of the image's size.
    """
    strength, deviation, shift = (
        (0, 0, 0.08),
        (0.05, 0.2, 0.07),
        (0.08, 0.06, 0.06),
        (0.1, 0.04, 0.05),
        (0.1, 0.03, 0.03),
    )[severity - 1]
    height, width = x.shape[1:3]
    size = min(height, width)
    moves = generator.uniform(-shift * size, shift * size, (len(x), 3, 2))
    noise = generator.uniform(-1, 1, (len(x), 2, height, width))
    smooth = (0, 0, deviation * size, deviation * size)
    noise = ndimage.gaussian_filter(noise, smooth, mode="reflect", truncate=3) * strength * size
    grid = np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij")).astype(float)
    result = np.empty_like(x)
    for image, moved, displacement, target in zip(x, moves, noise, result, strict=True):
        straight = _affine(moved, height, width)
        places = np.tensordot(straight[:, :2], grid, 1) + straight[:, 2, None, None]
        for channel in range(x.shape[-1]):
            mapped = ndimage.map_coordinates(image[..., channel], places, order=1, mode="mirror")
            target[..., channel] = ndimage.map_coordinates(
                mapped, grid + displacement, order=1, mode="reflect"
            )
    return result


def _affine(moved: np.ndarray, height: int, width: int) -> np.ndarray:
    """The map (2, 3) from places in the new image to places (row, column) in the old one.

    moved: by how much three points of the old image, three corners of a square in its middle, are
    moved, (3, 2).
    """
    row, column, reach = height // 2, width // 2, min(height, width) // 3
    old = np.array(
        [
            (row + reach, column + reach),
            (row - reach, column + reach),
            (row - reach, column - reach),
        ]
    )
    new = np.column_stack([old + moved, np.ones(3)])
    return np.linalg.solve(new, old).T


def pixelate(x: np.ndarray, severity: int, generator: np.random.Generator) -> np.ndarray:
    """Means over boxes, fewer by this factor along height and width, enlarged again."""
    factor = (0.95, 0.9, 0.85, 0.75, 0.65)[severity - 1]
    return resampled(x, *(_boxes(size, factor) for size in x.shape[1:3]))


@functools.cache
def _boxes(size: int, factor: float) -> np.ndarray:
    """Fewer pixels and back along one axis, by Pillow, as a matrix (size, size)."""
    image = Image.fromarray(np.eye(size, dtype=np.float32))
    few = image.resize((size, max(int(size * factor), 1)), Image.Resampling.BOX)
    return np.asarray(few.resize((size, size), Image.Resampling.BOX), np.float64)


def jpeg_compression(x: np.ndarray, severity: int, generator: np.random.Generator) -> np.ndarray:
    """An image that was encoded as JPEG, with this quality, and decoded."""
    quality = (80, 65, 58, 50, 40)[severity - 1]
    result = np.empty_like(x)
    for image, target in zip(np.rint(x * 255).astype(np.uint8), result, strict=True):
        file = io.BytesIO()
        Image.fromarray(image.squeeze()).save(file, "JPEG", quality=quality)
        target[:] = np.asarray(Image.open(file)).reshape(x.shape[1:]) / 255.0
    return result
