"""A reproducible laboratory for flat minima: loss sharpness and compressed representations.

`flatlab.measure(model, inputs)` measures a network, `flatlab.Tracker` one that is being trained,
`flatlab.landscape` and `flatlab.barriers` the loss between and around networks. They are imported
on first use, so that `import flatlab` does not wait for torch.
"""

import importlib
import os
from typing import Any

from flatlab.version import __version__

__all__ = ["MeasureError", "Tracker", "__version__", "barriers", "landscape", "measure"]
_LAZY = {
    "MeasureError": "flatlab.core.errors",
    "Tracker": "flatlab.api.tracker",
    "barriers": "flatlab.api.landscape",
    "landscape": "flatlab.api.landscape",
    "measure": "flatlab.api.measure",
}

# cuBLAS repeats bit for bit with it alone; torch reads it at the first product of a process on a
# GPU, which may belong to a measurement, and refuses to train without it.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'flatlab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
