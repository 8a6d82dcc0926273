"""Corruptions that are computed here, by name."""

import zlib
from collections.abc import Callable

import numpy as np

from flatlab.data._dataset import DataError
from flatlab.data.corruptions import blur, digital, noise, weather

Corruption = Callable[[np.ndarray, int, np.random.Generator], np.ndarray]

MADE: dict[str, Corruption] = {
    "gaussian-noise": noise.gaussian_noise,
    "shot-noise": noise.shot_noise,
    "impulse-noise": noise.impulse_noise,
    "defocus-blur": blur.defocus_blur,
    "glass-blur": blur.glass_blur,
    "motion-blur": blur.motion_blur,
    "zoom-blur": blur.zoom_blur,
    "snow": weather.snow,
    "fog": weather.fog,
    "brightness": weather.brightness,
    "contrast": digital.contrast,
    "elastic-transform": digital.elastic_transform,
    "pixelate": digital.pixelate,
    "jpeg-compression": digital.jpeg_compression,
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
