"""The figures of inner layers: what is drawn is what the table says."""

from __future__ import annotations

import importlib
import io

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure
from PIL import Image
from scipy.stats import kendalltau

from flatlab.lab import figures as plotting
from flatlab.lab import plan
from flatlab.papers.beyond import fig7, fig8, fig9
from flatlab.papers.beyond._bottleneck import GRID, NARROW
from papers.beyond.tests.bottleneck_tables import Made, table

mpl.use("Agg")
KEYS = ["fig7", "fig8", "fig9"]


@pytest.fixture(scope="module")
def made() -> xr.Dataset:
    """One narrow network does not interpolate, and sharpness says little of compression."""
    every = table({"feature_sensitivity": Made((1, 2, 3, 4), seed=1, noise=1)})
    slow = (every["run"] == every["run"][0]) & (every["checkpoint"] == every["checkpoint"][-1])
    return every.assign(train_loss=every["train_loss"].where(~slow, 0.5))


def declared(key: str) -> plan.Figure:
    return next(figure for figure in plan.figures() if figure.target == f"beyond_{key}")


def at(table: xr.Dataset, **levels: object) -> xr.Dataset:
    """The networks of a width, loss and rate at the end."""
    units = table["setting"].str.extract(r"units(\d+)", dim=None).astype(int)
    chosen = units == levels.pop("units")
    for name, value in levels.items():
        chosen = chosen & (table[name] == value)
    return table.isel(run=np.flatnonzero(chosen), checkpoint=-1, samples=0)


def test_curves_are_of_the_layers_and_the_outputs(made: xr.Dataset) -> None:
    frame = fig7.frame({}, {GRID: made}, {})
    curves = frame[frame["row"] == "curve"]
    assert set(curves["networks"]) == {*fig7.COLUMNS}
    end = curves[curves["iteration"] == made["checkpoint"].values[-1]]
    rows = end.set_index(["networks", "quantity", "layer"])["median"].sort_index()
    for title, which in fig7.COLUMNS.items():
        chosen = at(made, lr=0.05, **which)
        for layer in ("fc2", "fc3", "fc4"):
            expected = chosen["collapse_within"].sel(layer=layer).median()
            assert rows[title, "collapse_within", layer] == pytest.approx(float(expected))
        expected = chosen["mls"].median()
        assert rows[title, "feature_mls", "output"] == pytest.approx(float(expected))
    assert "fc1" not in set(curves["layer"])  # x itself
    begins = frame[frame["row"] == "window"].groupby("networks")["iteration"].first()
    assert begins.tolist() == [1_000] * 3


def test_bounds_are_shown_where_they_are_finite(made: xr.Dataset) -> None:
    frame = fig8.frame({}, {GRID: made}, {}).set_index(["loss", "line", "units"])
    rows = frame["median"].sort_index()
    chosen = at(made, units=8, loss="half-mse")
    assert rows["half-MSE", "bound", 8] == pytest.approx(
        float(chosen["penultimate_bound"].median())
    )
    assert list(rows["cross-entropy", "bound"].index) == NARROW
    assert list(rows["cross-entropy", "head-bound"].index) == [4, 8, 10, 32, 128]
    square = np.sqrt(at(made, units=128, loss="cross-entropy")["feature_sensitivity"][:, -1])
    assert rows["cross-entropy", "features", 128] == pytest.approx(float(square.median()))
    share = at(made, units=32, loss="cross-entropy")["head_share"]
    assert rows["cross-entropy", "end", 32] == pytest.approx(float(share.median()))
    assert rows["cross-entropy", "start", 32] == pytest.approx(2 * float(share.median()))
    assert rows["cross-entropy", "fits", 4] == pytest.approx(14 / 15)
    assert rows["cross-entropy", "fits", 8] == 1


def test_correlations_are_over_pairs_of_one_width_and_loss_and_of_one_setting(
    made: xr.Dataset,
) -> None:
    frame = fig9.frame({}, {GRID: made}, {})
    taus = frame[frame["panel"] == "tau"]
    assert set(taus["networks"]) == {119}
    assert set(taus["kind"]) == {"pooled", "within"}
    chosen = taus[(taus["x"] == "root_sharpness") & (taus["y"] == "feature_sensitivity[-1]")]
    within = float(chosen.set_index("kind").loc["within", "value"])
    end = made.isel(checkpoint=-1, samples=0)
    signs = []
    for setting in np.unique(end["setting"].values):
        runs = end.isel(run=np.flatnonzero(end["setting"].values == setting))
        runs = runs.isel(run=np.flatnonzero(runs["train_loss"].values < 1e-2))
        x, y = runs["root_sharpness"].values, runs["feature_sensitivity"].values[:, -1]
        pairs = len(x) * (len(x) - 1) / 2
        signs += [(kendalltau(x, y).statistic * pairs, pairs)]
    agree, pairs = np.sum(signs, axis=0)
    assert within == pytest.approx(agree / (pairs + 1))  # shrunk by one pair that counts zero
    assert (taus["low"] <= taus["value"]).all()
    assert (taus["value"] <= taus["high"]).all()


def test_shares_are_medians_of_one_width_and_loss(made: xr.Dataset) -> None:
    frame = fig9.frame({}, {GRID: made}, {})
    shares = frame[frame["panel"] == "share"].set_index(["units", "loss", "layer"])["value"]
    chosen = at(made, units=32, loss="cross-entropy")["linear_share_within"]
    for layer, label in (("fc2", "input of layer 2"), ("fc4", "penultimate")):
        expected = float(chosen.sel(layer=layer).median())
        assert shares[32, "cross-entropy", label] == pytest.approx(expected)


@pytest.mark.parametrize("key", KEYS)
def test_the_picture_is_as_wide_as_a_page_and_nothing_is_too_small(
    made: xr.Dataset, key: str
) -> None:
    settings = declared(key).settings
    drawing = importlib.import_module(settings["drawn_by"])
    frame = plotting.frame_of(settings, {GRID: made}, {})
    frame = pd.read_csv(io.StringIO(frame.to_csv(index=False)))
    fig = Figure(figsize=settings["size_inches"], layout="constrained")
    drawing.draw(fig.subfigures(), frame, settings)
    assert settings["size_inches"][0] == 7.1
    texts = [text for text in fig.findobj(mpl.text.Text) if text.get_text().strip()]
    assert min(text.get_fontsize() for text in texts) >= 6
    assert sum(len(ax.lines) for ax in fig.axes) > 8


@pytest.mark.parametrize("key", KEYS)
def test_two_pictures_of_the_same_table_are_the_same(made: xr.Dataset, key: str) -> None:
    one, other = (plotting.make(declared(key).settings, {GRID: made}, {}) for _ in range(2))
    assert one == other
    with Image.open(io.BytesIO(one["png"])) as picture:
        assert picture.width == 2130


@pytest.mark.parametrize("key", KEYS)
def test_networks_that_do_not_interpolate_make_a_picture_too(key: str) -> None:
    slow = table(losses=[2.0, 1.0, 0.5, 0.2])
    assert plotting.make(declared(key).settings, {GRID: slow}, {})["png"]
