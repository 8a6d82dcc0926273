"""The figures of andriushchenko2023, drawn from synthetic tables."""

import importlib
import io

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.text import Text
from scipy.stats import kendalltau

from flatlab.lab import plan
from flatlab.lab.figures import render, style
from flatlab.papers.andriushchenko2023 import fig7
from flatlab.papers.andriushchenko2023._names import BERT, CLIP, VIT, VIT21K
from flatlab.papers.andriushchenko2023.claims_recipes import RESNETS, VITS
from flatlab.papers.andriushchenko2023.figures import RELEASED
from papers.andriushchenko2023.tests.tables import diagonal, linear, recipes, zoo

SETTINGS = {f.key: f.settings for f in plan.figures() if f.paper == "andriushchenko2023"}
QUICK = ("fig3", "fig8", "table2")
"""One of each declaration; the others show other networks or definitions in the same way."""


def drawn(figure, table):
    """What a figure of one experiment shows, and its panels."""
    settings = render.completed(SETTINGS[figure], {table.attrs["experiment"]: table})
    frame = render.frame_of(settings, {table.attrs["experiment"]: table})
    fig = Figure(figsize=(11, 7), layout="constrained")
    importlib.import_module(settings["drawn_by"]).draw(fig, frame, settings)
    return frame, fig


def released(key):
    """Few networks, of which one failed, one has no known rate and one has a negative sharpness."""
    table = zoo(key, runs=14, slope=-0.5)
    for name in table:
        table[name][3] = np.nan
    table["lr"][5] = np.nan
    table["sharpness_at_radius"][7] *= -1
    about = {"scale": "demo", "extent": "so many", "stands_in_for": "theirs", "data": "digits"}
    table = table.assign_coords(augmentation=("run", np.arange(14.0) % 4)).assign_attrs(about)
    return table.assign_attrs(name=f"small-{key}", evidence="stand-in")


TABLES = {key: released(key) for key in (VIT, VIT21K, CLIP, BERT)}


def test_the_panels_of_figure_7_show_the_networks_and_taus_of_the_csv():
    frame, fig = drawn("fig7", diagonal(stopped=60))
    for ax, panel in zip(fig.axes, fig7.PANELS, strict=False):
        runs = frame[(frame["panel"] == panel) & (frame["row"] == "run")]
        row = frame[(frame["panel"] == panel) & (frame["row"] == "tau")].iloc[0]
        np.testing.assert_array_equal(ax.collections[0].get_offsets(), runs[["x", "y"]])
        tau = kendalltau(runs["x"], runs["y"]).statistic
        assert row["tau"] == pytest.approx(tau)
        if panel != "norm":  # a correlation of 1 lies at the end of what it can be
            assert row["low"] < row["tau"] < row["high"]
        assert f"= {row['tau']:.2f}".replace("-", "−") in ax.get_title(loc="left")
    texts = " ".join(text.get_text() for text in fig.findobj(Text))
    assert "60 networks; 20 more did not reach the training loss" in " ".join(texts.split())


def test_the_lines_of_figure_1_are_means_of_the_runs_that_did_not_diverge():
    table = linear(noise=0.3)
    table["diverged"][2] = True
    frame, fig = drawn("fig1", table)
    assert (frame["networks"] == 4).all()
    kept = table.isel(run=[0, 1, 3, 4], samples=0)
    line = frame[(frame["panel"] == "adaptive-l2") & (frame["line"] == "0.25")]
    at = {"neighbourhood": "adaptive-l2", "logits": "plain", "radius": "0.25"}
    values = kept["scaled_worst_sharpness"].isel(checkpoint=-1).sel(at)
    np.testing.assert_allclose(line["mean"], values.mean("run"))
    np.testing.assert_array_equal(line["least"], values.min("run"))
    np.testing.assert_array_equal(line["largest"], values.max("run"))
    training = frame[(frame["panel"] == "training") & (frame["line"] == "loss")]
    np.testing.assert_allclose(training["mean"], kept["train_loss"].mean("run"))
    for ax, (_, panel) in zip(fig.axes, frame.groupby("panel", sort=False), strict=True):
        lines = [line.get_xydata() for line in ax.lines if len(line.get_xdata()) > 2]
        shown = panel[panel["x"] > 0]  # a logarithmic axis has no zero
        rows = [part[["x", "mean"]] for _, part in shown.groupby("line")]
        assert len(lines) == len(rows)
        for expected in rows:
            assert any(np.array_equal(expected, line) for line in lines)


@pytest.mark.more
@pytest.mark.parametrize(("figure", "make"), [("fig1", linear), ("fig7", diagonal)])
def test_each_figure_is_made_and_also_of_no_network_at_all(figure, make):
    table = make()
    files = render.make(SETTINGS[figure], {table.attrs["experiment"]: table})
    assert len(pd.read_csv(io.BytesIO(files["csv"]))) > 100
    none = table.assign_coords(diverged=table["diverged"] | True)
    if "ended" in none.coords:
        none["ended"] = none["ended"].copy(data=np.full(none.sizes["run"], "diverged"))
    _, fig = drawn(figure, none)
    fig.draw_without_rendering()


@pytest.mark.first(1)
@pytest.mark.parametrize("figure", ["fig5", "table3"])
def test_each_figure_is_drawn_with_the_networks_that_fit(figure):
    settings, table = SETTINGS[figure], recipes(augmented_error=18.0, each=26)
    both = {RESNETS: table, VITS: table.assign_attrs(name=VITS, experiment=VITS)}
    files = render.make(settings, {key: both[key] for key in settings["experiments"]})
    frame = pd.read_csv(io.BytesIO(files["csv"]), keep_default_na=False, na_values=[""])
    if "table" in figure:
        whole = frame[frame["group"].isna()]
        assert len(whole) == 48 * 2
        assert set(whole["networks"]) == {52}
        (printed,) = settings["printed"].values()
        by_radius = [np.transpose(by_test_set).ravel() for by_test_set in printed.values()]
        assert whole["paper"].tolist() == np.concatenate(by_radius).tolist()
    else:
        counts = frame[frame["row"] == "count"].groupby("experiment")
        assert [rows["networks"].tolist() for _, rows in counts] == [[52, 26, 26, 0, 0]] * 2
    assert 20 < len(settings["caption"].split()) <= 80


def expected_tau(row, table):
    """scipy's tau of a row of a CSV, and of how many networks it is."""
    quantity, _, test_set = row["ordinate"].partition(" ")
    error = table[f"test_set_{quantity}"].sel(test_set=test_set).values
    at = table["sharpness_at_radius"].sel(definition=row["definition"]).isel(radius_index=0)
    known = np.isfinite(error)
    return kendalltau(at.values[known], error[known]).statistic, int(known.sum())


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=[pytest.mark.long] * (key not in QUICK)) for key in RELEASED]
)
def test_every_tau_in_the_csv_is_that_of_scipy(key):
    tables = {name: TABLES[name] for name in SETTINGS[key]["experiments"]}
    files = render.make(SETTINGS[key], tables)
    assert "stand in for the" in files["txt"].decode()
    frame = pd.read_csv(io.BytesIO(files["csv"]))
    whole = frame[frame["group"].isna() & frame["tau"].notna()]
    assert len(whole) >= 8
    by_name = {f"small-{name} on images of digits": table for name, table in tables.items()}
    for _, row in whole.iterrows():
        tau, count = expected_tau(row, by_name[row["experiment"]])
        assert row["networks"] == count if key.startswith("table") else True
        assert row["tau"] == pytest.approx(tau, abs=0.02)


def test_a_network_without_a_rate_is_grey():
    _, fig = drawn("fig3", TABLES[CLIP])
    (scattered,) = fig.axes[0].collections
    scattered.update_scalarmappable()
    colors = scattered.get_facecolors()
    grey = np.isclose(colors, to_rgba(style.UNKNOWN)).all(axis=1)
    assert (grey.sum(), len(colors)) == (1, 13)
