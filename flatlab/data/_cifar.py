"""CIFAR-10 and CIFAR-100: photographs in classes, 32 x 32 colour pixels, 10,000 for testing.

The official archive is found in the data folder, packed or unpacked, or downloaded into it; the
checksums are torchvision's, and so is the code that reads the files once they are verified.
"""

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from flatlab.data._dataset import dataset
from flatlab.data._folders import unpacked
from flatlab.data._sources import Published, check, obtain


def official(kind: Any, title: str, folder: Path) -> xr.Dataset:
    """The official split, values 0-255. Raises `DataError` for a missing or damaged file.

    kind: torchvision's class of the data set.
    """
    about = (kind.meta["filename"], kind.meta["md5"])
    checksums = dict([*kind.train_list, *kind.test_list, about])
    places = [folder / kind.__name__.lower(), folder]
    for root in (*places, folder.parent):
        if all((root / kind.base_folder / name).is_file() for name in checksums):
            break
    else:
        archive = Published(kind.filename, kind.tgz_md5, (kind.url.rpartition("/")[0],))
        root = unpacked(*obtain(title, [archive], places))
    for name, md5 in checksums.items():
        check(root / kind.base_folder / name, md5)
    train, test = (kind(root, split) for split in (True, False))

    def arrays(split: Any) -> tuple[np.ndarray, np.ndarray]:
        return np.ascontiguousarray(split.data.transpose(0, 3, 1, 2)), np.array(split.targets)

    return dataset(
        train=arrays(train),
        test=arrays(test),
        maximum=255,
        classes=train.classes,
        title=title,
        source="Krizhevsky (2009), Learning Multiple Layers of Features from Tiny Images, "
        "the official files for Python",
        licence="none stated; the authors ask for a citation of Krizhevsky (2009)",
    )
