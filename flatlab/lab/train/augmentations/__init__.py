"""Augmentations: one file each, whose stem stands in `data.augmentation`; + joins several.

Each file has a class `Options`, keys of `data`; `STRENGTH`, the name of the option that switches
the augmentation off where it is 0; and a class `Transform` (see
`flatlab.lab.train.minibatch_transforms`). Only what a step sees is augmented: curves, accuracies
and quantities are those of the samples themselves.
"""
