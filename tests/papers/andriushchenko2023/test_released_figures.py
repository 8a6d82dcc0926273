"""The figures about released networks, drawn from synthetic tables."""

import io
import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from scipy.stats import kendalltau

from flatlab import plan, plotting
from flatlab.papers.andriushchenko2023._released import BERT, CLIP, VIT, VIT21K
from flatlab.papers.andriushchenko2023._released_figures import FIGURES
from flatlab.plotting import make, panels
from tests.papers.andriushchenko2023.test_released_claims import zoo

SETTINGS = {f.key: f.settings for f in plan.figures() if f.paper == "andriushchenko2023"}
ABOUT = {"scale": "demo", "extent": "so many", "stands_in_for": "theirs", "data": "digits"}


def table(key):
    """Few networks, of which one failed, one has no known rate and one has a negative sharpness."""
    found = zoo(key, runs=14, slope=-0.5)
    for name in found:
        found[name][3] = np.nan
    found["lr"][5] = np.nan
    found["sharpness_at_radius"][7] *= -1
    found = found.assign_coords(augmentation=("run", np.arange(14.0) % 4))
    found["test_set_error_gap"] = found["test_set_error"] / 100 - found["train_error"] / 100
    return found.assign_attrs({**ABOUT, "name": f"small-{key}", "evidence": "stand-in"})


TABLES = {key: table(key) for key in (VIT, VIT21K, CLIP, BERT)}


QUICK = ("fig3", "fig8", "table1", "table2")
"""One of each declaration; the others show other networks or definitions in the same way."""


@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=[pytest.mark.long] * (key not in QUICK)) for key in FIGURES]
)
def test_every_tau_in_the_csv_is_that_of_scipy(key, monkeypatch):
    monkeypatch.setattr(plotting, "FORMATS", ("svg",))
    settings = SETTINGS[key]
    shown = {name: TABLES[name] for name in settings["experiments"]}
    files = make(settings, shown, {})
    text = files["svg"].decode()
    assert "stand in for the" in " ".join(re.sub(r"<[^>]*>", " ", text).split())
    frame = pd.read_csv(io.BytesIO(files["csv"]))
    whole = frame[frame["group"].isna() & frame["tau"].notna()]
    assert len(whole) >= 8
    by_name = {f"small-{name} on images of digits": found for name, found in shown.items()}
    for _, row in whole.iterrows():
        found = by_name[row["experiment"]]
        quantity, _, test_set = row["ordinate"].partition(" ")
        error = found[f"test_set_{quantity}"].sel(test_set=test_set).values
        place = {"definition": row["definition"]}
        sharpness = found["sharpness_at_radius"].sel(place).isel(radius_index=0).values
        good = np.isfinite(error)
        assert row["networks"] == good.sum() if key.startswith("table") else True
        assert row["tau"] == pytest.approx(kendalltau(sharpness[good], error[good])[0], abs=0.02)


def test_a_network_without_a_rate_is_grey():
    settings = SETTINGS["fig3"]
    frame = panels.frame(settings, {CLIP: TABLES[CLIP]}, {})
    fig = Figure()
    panels.draw(fig, frame, settings)
    (points,) = fig.axes[0].collections
    points.update_scalarmappable()
    colors = points.get_facecolors()
    grey = np.isclose(colors, to_rgba(panels.UNKNOWN)).all(axis=1)
    assert grey.sum() == 1
    assert len(colors) == 13
