"""A table as a tidy frame: a row per network, checkpoint and sample set, a column per number.

Columns of quantities with further dimensions are called as figures and claims call them:
`weight_norm[fc1]`, `sharpness_at_radius[worst-adaptive-linf, 0]`.
"""

from itertools import product

import pandas as pd
import xarray as xr

ROWS = ("run", "checkpoint", "samples", "transformation")


def tidy(table: xr.Dataset) -> pd.DataFrame:
    """The frame of a table, or of a report of one network, which has one row.

    Rows begin with what identifies them: run, setting, seed, hyper-parameters, checkpoint, sample
    set; what is measured on no sample set has the same value for all.
    """
    down = [dim for dim in ROWS if dim in table.dims]
    columns = {}
    for name, array in table.data_vars.items():
        across = [dim for dim in array.dims if dim not in down]
        if "sample" in across:
            continue
        for place in product(*(range(array.sizes[dim]) for dim in across)):
            chosen = array.isel(dict(zip(across, place, strict=True)))
            labels = [str(array[dim].values[i]) for dim, i in zip(across, place, strict=True)]
            key = f"{name}[{', '.join(labels)}]" if labels else str(name)
            columns[key] = chosen.drop_vars([c for c in chosen.coords if c not in down])
    per_row = [name for name, each in table.coords.items() if set(each.dims) <= set(down)]
    frame = xr.Dataset(columns).assign_coords({name: table[name] for name in per_row})
    if not down:
        return pd.DataFrame({name: [array.item()] for name, array in frame.data_vars.items()})
    result = frame.to_dataframe(dim_order=down).reset_index()
    leading = ["setting", "seed", *table.attrs.get("hyperparameters", [])]
    others = sorted(map(str, {*per_row} - {*down, *leading}))
    first = [*down[:1], *(n for n in leading if n in per_row), *others, *down[1:]]
    return result[[*map(str, first), *columns]]
