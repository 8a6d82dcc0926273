"""Tables: all quantities of all runs of an experiment, selections of them, correlations."""

from collections.abc import Mapping

import xarray as xr

Tables = Mapping[str, xr.Dataset]
"""Tables, or their correlations, by the keys of their experiments."""
