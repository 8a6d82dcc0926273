"""Images in a folder, by class or not, as each network of timm wants them."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatlab.data import DataError
from flatlab.data._trees import Folder, Tree, is_archive, open_archive


class Images:
    """A fixed random choice of images, kept as they are in their files.

    place: a folder with a folder for each class, or of images alone, or an archive of one.
    size: how many; fewer where there are fewer.  seed: of the choice, which does not depend on the
    network.
    """

    def __init__(self, place: Path, size: int, seed: int) -> None:
        if not (place.is_dir() or is_archive(place)):
            raise DataError(f"{place} is no folder of images; put them there, by class")
        tree: Tree = open_archive(place) if is_archive(place) else Folder(place)
        self.classes = tree.folders()
        trees = {name: tree.below(name) for name in self.classes} or {"": tree}
        there = [(name, image) for name in trees for image in trees[name].images()]
        if len(there) < 2:
            raise DataError(f"{place} has {len(there)} images in folders by class; put more there")
        order = np.random.default_rng(seed).permutation(len(there))[:size]
        self.chosen = [there[number] for number in order]
        self.where = [trees[name].where(image) for name, image in self.chosen]
        self.bytes = [trees[name].read(image) for name, image in self.chosen]

    def labels(self, outputs: int) -> Tensor:
        """The class of each image among the outputs of a network.

        In the order of the names of all classes, as timm trains them; of ImageNet's classes some
        may be missing, where folders have the names of WordNet.
        """
        names = self.classes if len(self.classes) == outputs else _imagenet(outputs)
        if missing := set(self.classes) - set(names):
            raise DataError(
                f"{len(self.classes)} classes do not fit {outputs} outputs: {min(missing)!r} is "
                "none of ImageNet's; have a folder for each class, or own_targets: true"
            )
        if not self.classes:
            raise DataError(
                "images without folders by class have no labels; choose own_targets: true"
            )
        return torch.tensor([names.index(name) for name, _ in self.chosen])

    def inputs(self, configuration: Mapping[str, Any]) -> Tensor:
        """(samples, 3, height, width) by the transform that timm says belongs to a network."""
        import timm.data
        from PIL import Image

        wanted = ("input_size", "interpolation", "mean", "std", "crop_pct", "crop_mode")
        options = {key: configuration[key] for key in wanted if key in configuration}
        transform: Any = timm.data.create_transform(**options, is_training=False)
        inputs = []
        for content, where in zip(self.bytes, self.where, strict=True):
            try:
                with Image.open(io.BytesIO(content)) as image:
                    inputs.append(transform(image.convert("RGB")))
            except (OSError, SyntaxError, ValueError, EOFError):
                raise DataError(f"{where} cannot be read as an image; replace it") from None
        return torch.stack(inputs)


def _imagenet(outputs: int) -> list[str]:
    """WordNet's names of ImageNet's classes in the order of a network's outputs."""
    from timm.data import ImageNetInfo

    names = ImageNetInfo("imagenet-1k").label_names()
    return names if len(names) == outputs else []
