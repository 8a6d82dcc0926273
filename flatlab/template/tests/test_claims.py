"""Each claim on made-up networks: it holds, it fails, and it is undecided."""

import numpy as np
import pytest
import xarray as xr

from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.KEY.claims import CLAIMS


def table(slope):
    """Forty networks whose sensitivity follows their sharpness with this slope."""
    sharpness, noise = np.random.default_rng(0).normal(size=(2, 40))
    columns = {"root_sharpness": sharpness, "mls": slope * sharpness + noise}
    setting, seed = np.divmod(np.arange(40), 10)
    runs = {"setting": setting, "lr": setting, "seed": seed, "diverged": seed < 0}
    return xr.Dataset(
        {name: (("run", "checkpoint"), values[:, None]) for name, values in columns.items()},
        {"run": np.arange(40), **{name: ("run", values) for name, values in runs.items()}},
        {"experiment": "KEY-grid", "evidence": "own", "differs": [], "hyperparameters": ["lr"]},
    ).assign(train_loss=(("run", "checkpoint"), 0.01 + 0.001 * noise[:, None]))


@pytest.mark.parametrize(("slope", "verdict"), [(2, "holds"), (-2, "fails"), (0, "undecided")])
def test_sharper_networks_are_more_sensitive(slope, verdict):
    tables = ResultTables({"KEY-grid": table(slope)})
    assert CLAIMS["fig1"]["c1"].judge(tables).outcome == verdict
