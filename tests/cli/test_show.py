"""In which order `flatlab show` lists quantities."""

import pytest
import xarray as xr

from flatlab.cli import show
from flatlab.core import store
from flatlab.core.registry import imported
from flatlab.lab.plan import keys_of


@pytest.mark.parametrize("family", keys_of("families"))
def test_show_lists_quantities_as_their_family_defines_them(family, tmp_path, capsys, printed):
    """Of a report in memory and of its file, which lists them in no order."""
    names = [*imported("families", family).QUANTITIES]
    values = {name: ((), 1.0) for name in reversed(names)}
    report = xr.Dataset({"unknown": ((), 0.0), **values}, attrs={"families": [family]})
    show.print_dataset(report)
    fresh = capsys.readouterr().out
    store.save_dataset(tmp_path / "a.zarr.zip", report)
    _path, of_file = printed("show", tmp_path / "a.zarr.zip").split("\n", 1)
    assert of_file == fresh
    shown = [line.split()[0] for line in fresh.splitlines() if "  1" in line]
    assert shown == names
    assert fresh.splitlines()[-1].split()[0] == "unknown"
