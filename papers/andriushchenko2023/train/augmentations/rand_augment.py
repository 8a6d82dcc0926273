"""RandAugment as in torchvision, on 8-bit images: before crops and flips, rand-augment+crop-flip.

Source: Cubuk et al. (2020), "RandAugment: practical automated data augmentation with a reduced
search space". It treats one image after the other, on the CPU, and asks for their values: with
networks on a GPU in mode loop alone, since nothing of it can be recorded.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms import RandAugment

from flatlab.core.schema import Strict, means
from flatlab.data._dataset import DataError
from flatlab.data._tensors import Split

STRENGTH = "randaugment_operations"
WHITE = 255


class Options(Strict, frozen=True):
    randaugment_operations: Annotated[int, means("operations on each image; 0: none", ge=0)] = 2
    randaugment_magnitude: Annotated[int, means("their strength, of 0 to 30", ge=0, le=30)] = 14


class Transform:
    """Raises `DataError` if the data are no images of 8 bits, or if a step is being recorded."""

    def __init__(self, options: Mapping[str, Any], split: Split) -> None:
        if split.inputs.ndim != 4 or split.black is None or split.white is None:
            raise DataError("data.augmentation is rand-augment, but these data are not images")
        self.black, self.step = split.black, (split.white - split.black) / WHITE
        for images in split.inputs.split(1000):
            levels = (images - self.black) / self.step
            if not bool(((levels - levels.round()).abs() < 0.01).all()):
                raise DataError(
                    "data.augmentation is rand-augment, but these are no images of 8 bits; "
                    "data.pixels must not average them"
                )
        self.rule = RandAugment(options[STRENGTH], options["randaugment_magnitude"])
        self.last: tuple[Tensor, ...] | None = None

    def draw(self, generator: np.random.Generator, steps: int, batch: int) -> dict[str, np.ndarray]:
        """seed: of torch's generator, from which torchvision draws, (steps)."""
        return {"seed": generator.integers(2**62, size=steps)}

    def apply(self, inputs: Tensor, targets: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        if inputs.is_cuda and torch.cuda.is_current_stream_capturing():
            raise DataError(
                "data.augmentation is rand-augment, which no recorded step can have; on a GPU it "
                "needs training.mode: loop"
            )
        # Where a step takes its gradients uphill, it asks twice for the same images.
        if self.last and all(map(torch.equal, self.last, (seed, inputs))):
            return self.last[2], targets
        levels = ((inputs - self.black) / self.step).round().to("cpu", torch.uint8)
        with torch.random.fork_rng(devices=[]):
            for run, images in zip(seed.tolist(), levels, strict=True):
                torch.default_generator.manual_seed(run)  # those of GPUs stay as they are
                for image in images:
                    image.copy_(self.rule(image))
        self.last = seed, inputs, self.black + levels.to(inputs) * self.step
        return self.last[2], targets
