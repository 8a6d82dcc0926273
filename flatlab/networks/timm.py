"""Networks of timm, small ones of their families, by `network.options`.

{architecture: resnet10t, channels: [8, 16, 24, 32], stem_width: 8}: an architecture as timm has it,
and what it is built with there. timm takes seconds to import: it is imported where it is used.
"""

from __future__ import annotations

import re
from typing import Any

from torch import nn

MODE = "loop"
LAYERS: list[str] = []
PARAMETERS = 60_000
OPTIONS = "any"


def build(
    inputs: tuple[int, ...], outputs: int, architecture: str = "", **options: Any
) -> nn.Module:
    """For images of as many channels as there are; one cut into patches is told their size.

    The weights are timm's own, from the global generator: initialization `as-built` keeps them.
    """
    import timm

    if not architecture:
        raise ValueError("options.architecture is missing; it names an architecture of timm")
    size: dict[str, Any] = {"img_size": inputs[-1]} if "patch_size" in options else {}
    try:
        model = timm.create_model(
            architecture, num_classes=outputs, in_chans=inputs[0], **size, **options
        )
    except (RuntimeError, TypeError, ValueError, AssertionError, OSError) as error:
        reason = re.sub(r"\s+", " ", str(error)).strip()[:200]
        raise ValueError(f"{architecture} cannot be built: {reason}") from None
    return model.eval()
