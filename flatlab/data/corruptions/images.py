"""Corrupt images, by a function for each corruption.

Each is (images, severity, generator) -> images, of images (samples, height, width, channels) with
values in [0, 1].
"""

import functools
import io
import zlib
from collections.abc import Callable

import numpy as np
from PIL import Image
from scipy import ndimage

from flatlab.data._dataset import DataError


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


Corruption = Callable[[np.ndarray, int, np.random.Generator], np.ndarray]

MADE: dict[str, Corruption] = {
    "gaussian-noise": gaussian_noise,
    "shot-noise": shot_noise,
    "impulse-noise": impulse_noise,
    "defocus-blur": defocus_blur,
    "glass-blur": glass_blur,
    "motion-blur": motion_blur,
    "zoom-blur": zoom_blur,
    "snow": snow,
    "fog": fog,
    "brightness": brightness,
    "contrast": contrast,
    "elastic-transform": elastic_transform,
    "pixelate": pixelate,
    "jpeg-compression": jpeg_compression,
}


def corrupted(images: np.ndarray, corruption: str, severity: int, seed: int = 0) -> np.ndarray:
    """Images (samples, channels, height, width), or without channels, with values in [0, 1].

    The random numbers depend on seed, corruption, severity and the shape of the images.
    """
    if images.ndim not in (3, 4):
        raise DataError(f"{corruption} is for images, but these data are none; leave it out")
    generator = np.random.default_rng([seed, zlib.crc32(corruption.encode()), severity])
    channels_last = images[..., None] if images.ndim == 3 else images.transpose(0, 2, 3, 1)
    result = np.clip(MADE[corruption](channels_last.astype(np.float64), severity, generator), 0, 1)
    return result[..., 0] if images.ndim == 3 else result.transpose(0, 3, 1, 2)
