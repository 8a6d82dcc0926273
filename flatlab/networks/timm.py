"""Networks of timm: any of its models, built with arguments that make it small.

For example {model: resnet10t, arguments: {channels: [8, 16, 24, 32], stem_width: 8}}.
"""

from typing import Annotated, Any

from torch import nn

from flatlab.core.options import Architecture
from flatlab.core.schema import means
from flatlab.networks import _timm

MODE = "loop"


class Options(Architecture, frozen=True):
    model: Annotated[str, means("its name in timm")]
    arguments: Annotated[dict[str, Any], means("of timm.create_model")]

    def parameters(self, inputs: tuple[int, ...], outputs: int) -> int:
        return 60_000  # about: of the small ones in this project


def build(inputs: tuple[int, ...], outputs: int, options: Options) -> nn.Module:
    """A model for images of shape `inputs`; one that cuts them into patches is told their size.

    The weights are timm's own, from the global generator: initialization `as-built` keeps them.
    """
    size: dict[str, Any] = {"img_size": inputs[-1]} if "patch_size" in options.arguments else {}
    return _timm.build(
        options.model, num_classes=outputs, in_chans=inputs[0], **size, **options.arguments
    )
