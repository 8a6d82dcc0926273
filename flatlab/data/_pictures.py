"""Images of any size in folders and archives, as bytes.

Pixels are those that are stored, as torchvision, timm and this project's data sets take them. What
that leaves out (transparency, a rotation by EXIF, further frames) is said once; numbers whose black
and white are not known are refused.
"""

import itertools
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from flatlab.data import image_folder
from flatlab.data._arrays import PARTS, Pair
from flatlab.data._dataset import DataError
from flatlab.data._folders import decode, folders, images

ORIENTATION = 0x0112
"""The tag of EXIF that says how an image is to be turned."""


def pictures(place: Path, size: int | None) -> dict[str, Pair]:
    """Images (samples, channels, height, width) of training and testing, and their classes.

    place: a folder or an archive, with images alone, a folder of them for each class, or `train`
        and `test` above. Otherwise every fifth image of a class is for testing.
    size: height and width to which the shorter side is resized, and the middle cut out; None: as
        they are, which must be the same for all.

    There is one channel if all images are grey, have classes and are not resized; otherwise three.
    """
    tops = image_folder._splits(place)
    by_class = [folders(top) for top in tops]
    names = sorted(folder.name for folder in by_class[0])
    if any(sorted(folder.name for folder in classes) != names for classes in by_class):
        raise DataError(f"{place}: train and test have different classes")
    files: list[list[tuple[int, Path]]] = []
    for top, classes in zip(tops, by_class, strict=True):
        beside = images(top)
        if classes and beside:
            raise DataError(
                f"{top} has {len(beside)} images beside folders of images; images with classes "
                "lie in the folders, images without classes in a folder of their own"
            )
        files.append([(0, file) for file in beside])
        for folder in classes:
            found = image_folder._files(folder)
            files[-1] += [(names.index(folder.name), file) for file in found]
    together = [*itertools.chain(*files)]
    if not together:
        raise DataError(f"{place} has no images")
    pixels = _pixels([file for _, file in together], size, not names or size is not None, place)
    labels = np.array([label for label, _ in together])
    test = np.arange(len(labels)) >= len(files[0])
    if len(files) == 1 and names:
        rank = np.concatenate([np.arange(count) for count in np.bincount(labels)])
        every = image_folder.TEST_EVERY
        test = rank % every == every - 1
    split = zip(PARTS, (~test, test), strict=True)
    return {p: (pixels[of], labels[of] if names else None) for p, of in split if of.any()}


def _pixels(files: list[Path], size: int | None, colours: bool, place: Path) -> np.ndarray:
    from PIL import Image, ImageOps

    left_out = Counter[str]()
    parts: list[np.ndarray] = []
    for file in tqdm(files, desc=place.name, unit=" images", disable=None):
        image: Any = picture(file, left_out)
        if size is not None:
            image = ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR)
        part = np.asarray(image.convert("RGB") if colours else image)
        parts.append(part[None] if part.ndim == 2 else part.transpose(2, 0, 1))
        if parts[-1].shape[1:] != parts[0].shape[1:]:
            raise DataError(
                f"{file} has {parts[-1].shape[1:]} pixels, others have {parts[0].shape[1:]}; "
                "resize them (--resize)"
            )
    warn_of(left_out, place)
    shape = max((part.shape for part in parts), key=lambda shape: shape[0])
    return np.stack([np.broadcast_to(part, shape) for part in parts])


def picture(file: Path, left_out: Counter[str]) -> Any:
    """An image with 8 bits per colour, grey or in colours, as Pillow's.

    left_out: to which is added what the image has besides.
    """
    from PIL import Image

    image = decode(file)
    with Image.open(file) as opened:
        left_out["several frames"] += getattr(opened, "n_frames", 1) > 1
    left_out["a rotation in EXIF"] += image.getexif().get(ORIENTATION, 1) != 1
    if image.has_transparency_data:
        alpha = image.convert("RGBA").getchannel("A")
        left_out["transparency"] += alpha.getextrema()[0] < 255
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode[:1] in "IF":
        raise DataError(
            f"{file} has numbers in place of colours ({image.mode}), of which black and white are "
            "not known; save it with 8 or 16 bits, or pass arrays"
        )
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def warn_of(left_out: Counter[str], place: Path) -> None:
    """Say what images have that was left out."""
    if some := [f"{count} have {what}" for what, count in left_out.items() if count]:
        warnings.warn(
            f"{place.name}: of the images {', '.join(some)}; pixels are taken as stored, as "
            "torchvision and timm take them",
            stacklevel=2,
        )
