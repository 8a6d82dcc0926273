"""Data sets: one file each with `load(folder) -> xarray.Dataset`, as published; without torch.

A data set has `train_inputs`, `test_inputs` (samples, ...; unsigned bytes as published) and
`train_labels`, `test_labels` (samples), and the attributes `maximum` (the input value that means
1), `classes` (names), `title`, `source` and `licence`.

A data set for regression has real inputs, and `train_targets`, `test_targets` (samples, outputs)
instead of labels; it has neither `maximum` nor `classes`.

The literals SHAPE (of one input: features, or channels, height and width) and OUTPUTS (the number
of classes, or of numbers in a target) let planning predict the sizes of networks and files. Where
the images are those of another data set, but encoded with losses, REENCODED has its key and the
encoding: such a data set reduces the evidence on a paper, and does not stand in for the paper's.
"""

from flatlab.data._dataset import Arrays, DataError, dataset, folder_of, load, regression

__all__ = ["Arrays", "DataError", "dataset", "folder_of", "load", "regression"]
