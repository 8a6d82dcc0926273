"""Corrupted images as those of CIFAR-10-C, at five severities (Hendrycks & Dietterich 2019).

The parameters are the published ones for CIFAR-10, in pixels of images of 32 x 32; they hold for
images of other sizes too, where the elastic transform alone is relative to the size. Differences
from the published images: there are no roundings to 8 bits in between except for JPEG; random
numbers are numpy's; the motion blur of ImageMagick is written out. `frost` mixes in photographs
and cannot be made here.
"""

from flatlab.data.corruptions.images import MADE, corrupted
from flatlab.data.corruptions.test_sets import test_set

__all__ = ["MADE", "corrupted", "test_set"]
