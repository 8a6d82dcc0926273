"""The images of this study: FILE_images.npz, beside this file."""

from pathlib import Path

import numpy as np
import xarray as xr

from flatlab.data._dataset import dataset

SHAPE = (1, 8, 8)  # channels, height, width
OUTPUTS = 10  # classes
READS = "FILE_images.npz"  # its content counts as part of this file: another one trains again


def load(folder: Path) -> xr.Dataset:
    """Images (samples, 8, 8) of unsigned bytes and their labels; `folder` is for downloads.

    For a folder of images by class: `from flatlab.data import image_folder`, and
    `return image_folder.load(Path(__file__).parent / "my-images")`.
    """
    with np.load(Path(__file__).with_name(READS)) as file:
        train, test = ((file[f"x_{part}"], file[f"y_{part}"]) for part in ("train", "test"))
    return dataset(
        train,
        test,
        maximum=16,
        classes=[str(digit) for digit in range(OUTPUTS)],
        title="KEY-images",
        source="scikit-learn's handwritten digits",
        licence="CC BY 4.0",
    )
