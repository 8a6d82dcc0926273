"""LeNet-5: convolutions of 6 and 16 channels with 2 x 2 max pooling, then 120-84-N.

The default is for images of 32 x 32 pixels; a kernel of 3 with padding 1 suits 8 x 8 pixels.
"""

from typing import Annotated, ClassVar

from flatlab.core.options import Activation, Convolutional
from flatlab.core.schema import means
from flatlab.networks._convolutional import convolutional

MODE = "batched"


class Options(Convolutional, frozen=True):
    activation: Activation
    kernel: Annotated[int, means("size of the convolutions' kernels", ge=1)] = 5
    padding: Annotated[int, means("zero padding of the convolutions", ge=0)] = 0
    widths: ClassVar[tuple[int | str, ...]] = (6, "pool", 16, "pool")
    hidden: ClassVar[tuple[int, ...]] = (120, 84)
    normalization: ClassVar[str] = "none"


build = convolutional
