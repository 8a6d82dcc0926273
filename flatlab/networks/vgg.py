"""VGG networks: 3 x 3 convolutions with max pooling, then linear layers; biases, no dropout.

By default VGG-11 for images of 32 x 32 pixels, eight convolutions and 512-512-512-N, as the papers
use it on CIFAR-10. What the chen papers' public code calls VGG-11 has five narrow convolutions:
widths [16, pool, 16, pool, 32, pool, 64, pool, 64, pool], hidden [128], padding 2.
"""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from flatlab.core.options import Activation, Convolutional
from flatlab.core.schema import means
from flatlab.networks._convolutional import convolutional

MODE = "graphs"


class Options(Convolutional, frozen=True):
    activation: Activation
    widths: Annotated[
        tuple[Annotated[int, Meta(ge=1)] | Literal["pool"], ...],
        means("channels of the convolutions, and pool for 2 x 2 max pooling"),
    ] = (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool")
    hidden: Annotated[
        tuple[Annotated[int, Meta(ge=1)], ...], means("units of the linear layers but the last")
    ] = (512, 512)
    padding: Annotated[int, means("zero padding of the convolutions", ge=0)] = 1
    normalization: Annotated[Literal["none", "batch"], means("after each convolution")] = "none"
    kernel: ClassVar[int] = 3


build = convolutional
