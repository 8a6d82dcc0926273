"""A reproducible laboratory for flat minima: loss sharpness and compressed representations.

`flatlab.measure(model, inputs)` measures a network; it is imported when it is first used, so that
`import flatlab` stays light.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"
__all__ = ["MeasureError", "measure"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("flatlab.metrics"), name)
    raise AttributeError(f"module 'flatlab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
