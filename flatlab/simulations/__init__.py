"""Studies: computations whose outcome is a table without networks of a grid; one file each.

A file `studies/<key>.py` has a literal `TITLE`, a literal `SCALES` (the settings of scale paper,
and what the other scales change) and `table(settings)`, whose dataset has an attribute `extent`:
what was computed, in words.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import xarray as xr

from flatlab.plan import module_of


def make(key: str, scale: str, settings: Mapping[str, Any]) -> xr.Dataset:
    """The table of a study, with the attributes that figures and verdicts name it by."""
    module = importlib.import_module(module_of("simulations", key))
    names = {"scale": scale, "study": key, "title": module.TITLE, "data": "synthetic data"}
    return module.table(settings).assign_attrs(names)
