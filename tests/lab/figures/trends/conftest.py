"""A table of each grid, and its correlations."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from flatlab.lab.tables.correlations import correlate
from tests.synthetic.curves import NETWORKS, table


@pytest.fixture(scope="module")
def tables() -> dict[str, xr.Dataset]:
    made = {grid: table(grid) for grid in NETWORKS}
    made["vgg-grid"]["diverged"][1] = True
    made["vgg-grid"]["bound_by_norm"].loc[{"norm": "operator"}] = np.nan  # costly: nobody asked
    return made


@pytest.fixture(scope="module")
def correlations(tables: dict[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    return {grid: correlate(table) for grid, table in tables.items()}
