"""Random crops of images with a black margin, and horizontal flips.

As torchvision's RandomCrop(size, padding=...) and RandomHorizontalFlip() on the image before it is
scaled. Pixels are those of the network's inputs.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from flatlab.core.schema import Strict, means
from flatlab.data._dataset import DataError
from flatlab.data._tensors import Split

STRENGTH = "augmentation_probability"


class Options(Strict, frozen=True):
    augmentation_probability: Annotated[
        float,
        means("share of the images that are cropped, and flipped in half of all cases", ge=0, le=1),
    ] = 1.0
    crop_padding: Annotated[int, means("pixels of the margin around an image", ge=1)] = 4


class Transform:
    """Raises `DataError` if the data are no images, or if black depends on the pixel."""

    def __init__(self, options: Mapping[str, Any], split: Split) -> None:
        if split.inputs.ndim != 4 or split.black is None:
            raise DataError("data.augmentation is crop-flip, but these data are not images")
        self.black = split.black[:, :1, :1]
        if not torch.equal(self.black.expand_as(split.black), split.black):
            raise DataError("data.augmentation is crop-flip: data.scaling must not be components")
        self.probability, self.padding = options[STRENGTH], options["crop_padding"]

    def draw(self, generator: np.random.Generator, steps: int, batch: int) -> dict[str, np.ndarray]:
        """place: (steps, batch, 3), the top and the left of the crop, and whether it is flipped."""
        corners = generator.integers(2 * self.padding + 1, size=(steps, batch, 2))
        flips = generator.integers(2, size=(steps, batch, 1))
        augmented = generator.random((steps, batch, 1)) < self.probability
        unchanged = [self.padding, self.padding, 0]
        return {"place": np.where(augmented, np.concatenate([corners, flips], 2), unchanged)}

    def apply(self, inputs: Tensor, targets: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        images, margin = inputs.flatten(0, 1), self.padding
        channels, height, width = images.shape[1:]
        whole = self.black.expand(channels, height + 2 * margin, width + 2 * margin)
        padded = whole.repeat(len(images), 1, 1, 1)
        padded[:, :, margin:-margin, margin:-margin] = images
        top, left, flipped = place.flatten(0, 1)[:, :, None].unbind(1)
        across = torch.arange(width, device=images.device)
        rows = top + torch.arange(height, device=images.device)
        columns = left + torch.where(flipped > 0, across.flip(0), across)
        pixels = rows[:, :, None] * padded.shape[-1] + columns[:, None]
        index = pixels.flatten(1)[:, None].expand(-1, channels, -1)
        return padded.flatten(2).gather(2, index).view_as(inputs), targets
