"""Images in a folder, by class or not, with the transform that each network of timm expects."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatlab.data._dataset import DataError
from flatlab.data._folders import as_folder, folders, images
from flatlab.data._pictures import picture, warn_of


class Images:
    """A fixed random choice of images, read from their files for each network.

    place: a folder or an archive, with one folder per class or with images alone.
    size: the number of images, or all if there are fewer; None for all, in order.
    seed: of the choice, which does not depend on the network.
    """

    def __init__(self, place: Path, size: int | None = None, seed: int = 0) -> None:
        top = as_folder(place)
        classes = folders(top)
        self.place = place
        self.classes = [folder.name for folder in classes]
        files = [file for folder in classes or [top] for file in images(folder)]
        if len(files) < 2:
            raise DataError(f"{place} has {len(files)} images in folders by class; add more")
        order = np.random.default_rng(seed).permutation(len(files))[:size]
        self.chosen = files if size is None else [files[number] for number in order]

    def labels(self, outputs: int) -> Tensor:
        """The class (samples) of each image among the outputs of a network.

        Classes are numbered in the order of their names, as in timm's training. Some of ImageNet's
        classes may be missing if the folders are named by WordNet IDs.
        """
        first = torch.tensor([group[0] for group in self.outputs_of(outputs)])
        return first[self.of_folders()]

    def of_folders(self) -> Tensor:
        """The number (samples) of each image's folder."""
        return torch.tensor([self.classes.index(file.parent.name) for file in self.chosen])

    def outputs_of(self, outputs: int, known: Sequence[str] = ()) -> list[list[int]]:
        """Of each folder, the outputs of a network that mean it: several names are joined by +.

        known: the names of all outputs, if they are neither these folders nor ImageNet's classes.
        """
        from timm.data import ImageNetInfo

        if not self.classes:
            raise DataError("images have no labels; put them into a folder for each class")
        imagenet = ImageNetInfo("imagenet-1k").label_names()
        names = next((n for n in (self.classes, known, imagenet) if len(n) == outputs), [])
        parts = [[folder] if folder in names else folder.split("+") for folder in self.classes]
        if missing := {name for group in parts for name in group} - set(names):
            raise DataError(
                f"{len(self.classes)} classes do not fit {outputs} outputs: {min(missing)!r} is "
                "not one of ImageNet's; provide a folder for each class"
            )
        return [[names.index(name) for name in group] for group in parts]

    def inputs(self, configuration: Mapping[str, Any], part: slice = slice(None)) -> Tensor:
        """(samples, 3, height, width) by the transform in a network's configuration of timm."""
        import timm.data

        wanted = ("input_size", "interpolation", "mean", "std", "crop_pct", "crop_mode")
        options = {key: configuration[key] for key in wanted if key in configuration}
        transform: Any = timm.data.create_transform(**options, is_training=False)
        left_out = Counter[str]()
        pixels = (picture(file, left_out).convert("RGB") for file in self.chosen[part])
        inputs = torch.stack([transform(image) for image in pixels])
        warn_of(left_out, self.place)
        return inputs
