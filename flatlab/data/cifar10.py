"""CIFAR-10: 50,000 training and 10,000 test photographs of ten classes, 32 x 32 colour pixels.

The official archive is found in the data folder, packed or unpacked, or downloaded into it; the
checksums are torchvision's, and so is the code that reads the files once they are verified.
"""

from pathlib import Path

import numpy as np
import xarray as xr

from flatlab.data import dataset
from flatlab.data._folders import unpacked
from flatlab.data._sources import Published, check, obtain

SHAPE = (3, 32, 32)
OUTPUTS = 10


def load(folder: Path) -> xr.Dataset:
    """The official split, values 0-255. Raises `DataError` for a missing or damaged file."""
    from torchvision.datasets import CIFAR10

    about = (CIFAR10.meta["filename"], CIFAR10.meta["md5"])
    checksums = dict([*CIFAR10.train_list, *CIFAR10.test_list, about])
    places = [folder / "cifar10", folder]
    for root in (*places, folder.parent):
        if all((root / CIFAR10.base_folder / name).is_file() for name in checksums):
            break
    else:
        archive = Published(CIFAR10.filename, CIFAR10.tgz_md5, (CIFAR10.url.rpartition("/")[0],))
        root = unpacked(*obtain("CIFAR-10", [archive], places))
    for name, md5 in checksums.items():
        check(root / CIFAR10.base_folder / name, md5)
    train, test = (CIFAR10(root, split) for split in (True, False))

    def arrays(split: CIFAR10) -> tuple[np.ndarray, np.ndarray]:
        return np.ascontiguousarray(split.data.transpose(0, 3, 1, 2)), np.array(split.targets)

    return dataset(
        train=arrays(train),
        test=arrays(test),
        maximum=255,
        classes=train.classes,
        title="CIFAR-10",
        source="Krizhevsky (2009), Learning Multiple Layers of Features from Tiny Images, "
        "the official files for Python",
        licence="none stated; the authors ask for a citation of Krizhevsky (2009)",
    )
