"""Weighted means over the neighbours of a pixel, or random ones of them."""

import functools

import numpy as np
from scipy import ndimage


def blurred(x: np.ndarray, deviation: float) -> np.ndarray:
    """A Gaussian filter over height and width, the axes behind the first."""
    deviations = (0, deviation, deviation, 0)[: x.ndim]
    return ndimage.gaussian_filter(x, deviations, mode="nearest", truncate=4)


def defocus_blur(x: np.ndarray, severity: int, generator: np.random.Generator) -> np.ndarray:
    """The mean over a disk of this radius, whose edge a Gaussian filter of 3 x 3 softens."""
    settings = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))
    radius, deviation = settings[severity - 1]
    place = np.arange(-3, 4)
    disk = (place[:, None] ** 2 + place**2 <= radius**2).astype(float)
    soft = np.exp(-(np.arange(-1, 2) ** 2) / (2 * deviation**2))
    for axis in (0, 1):
        disk = ndimage.correlate1d(disk, soft / soft.sum(), axis, mode="mirror")
    kernel = disk / disk.sum()
    return ndimage.correlate(x, kernel[None, :, :, None], mode="mirror")


def glass_blur(x: np.ndarray, severity: int, generator: np.random.Generator) -> np.ndarray:
    """From the last pixel to the first, each becomes one of the four at (-1, 0) x (-1, 0) from it.

    Before and after, a Gaussian filter. The published code is meant to swap the two pixels, but
    copies one, because the other is a view of the array.
    """
    settings = ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))
    deviation, iterations = settings[severity - 1]
    x = blurred(x, deviation)
    height, width = x.shape[1:3]
    moves = generator.integers(-1, 1, size=(len(x), iterations, height, width, 2))
    sample = np.arange(len(x))
    for number in range(iterations):
        for row in range(height - 1, 1, -1):
            for column in range(width - 1, 1, -1):
                move = moves[:, number, row, column]
                x[:, row, column] = x[sample, row + move[:, 0], column + move[:, 1]]
    return blurred(x, deviation)


def motion_blur(x: np.ndarray, severity: int, generator: np.random.Generator) -> np.ndarray:
    """Motion along an angle that each image draws between -45 and 45 degrees."""
    radius, deviation = ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5))[severity - 1]
    angles = generator.uniform(-45, 45, len(x))
    return moved(x, radius, deviation, angles)


def moved(x: np.ndarray, radius: int, deviation: float, angles: np.ndarray) -> np.ndarray:
    """Each image's weighted mean over the pixels behind each other on one side, as ImageMagick's.

    The weights are half a normal density of this deviation, over 2 radius + 1 pixels.  angles: in
    degrees, from the direction of the rows downwards. Beyond the edge, pixels repeat.
    """
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2 * deviation**2))
    weights /= weights.sum()
    radians = np.radians(angles)[:, None]
    right, down = (np.ceil(steps * f(radians) - 0.5).astype(int) for f in (np.cos, np.sin))
    height, width = x.shape[1:3]
    total = np.zeros_like(x)
    sample = np.arange(len(x))[:, None, None]
    for step, weight in zip(steps, weights, strict=True):
        rows = np.clip(np.arange(height) + down[:, step, None], 0, height - 1)
        columns = np.clip(np.arange(width) + right[:, step, None], 0, width - 1)
        total += weight * x[sample, rows[:, :, None], columns[:, None, :]]
    return total


def zoom_blur(x: np.ndarray, severity: int, generator: np.random.Generator) -> np.ndarray:
    """The mean of the image and of so many enlargements of its centre, 1 % apart, from 1 on."""
    count = (7, 12, 16, 21, 26)[severity - 1]  # rounding adds one to the first two
    zooms = (zoomed(x, 1 + number / 100) for number in range(count))
    return (x + sum(zooms)) / (count + 1)


def zoomed(x: np.ndarray, factor: float) -> np.ndarray:
    """The centre of images, enlarged to their size by linear interpolation."""
    return resampled(x, *(_enlarging(size, factor) for size in x.shape[1:3]))


def resampled(x: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Linear maps along height and along width, each a matrix (new, old)."""
    channels_first = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    return (rows @ (channels_first @ columns.T)).transpose(0, 2, 3, 1)


@functools.cache
def _enlarging(size: int, factor: float) -> np.ndarray:
    """The enlargement along one axis, as a matrix (size, size)."""
    visible = int(np.ceil(size / factor))
    first = (size - visible) // 2
    centre = np.eye(size)[first : first + visible]
    large = ndimage.zoom(centre, (factor, 1), order=1)
    trimmed = (len(large) - size) // 2
    return large[trimmed : trimmed + size]
