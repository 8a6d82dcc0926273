"""Every figure that is drawn of training curves."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure

from flatlab.lab import figures as plotting
from flatlab.lab import plan
from flatlab.lab.figures import intervals, labels, render
from flatlab.lab.figures import points as template
from flatlab.lab.figures.frames import correlations as selected
from flatlab.lab.figures.frames import pairs
from flatlab.lab.tables.selection import end_of_training, through_training
from flatlab.papers.beyond import fig1
from tests.synthetic.curves import THOROUGH, declared


@pytest.mark.parametrize("figure", plan.figures(), ids=lambda figure: figure.target)
def test_every_figure_is_made_and_its_csv_holds_its_frame(
    figure, tables, correlations, monkeypatch
) -> None:
    """And again to the same bytes, where a figure's code is not another's.

    In one format: test_figures.py of plotting asks the others of one figure.
    """
    if any(key not in tables for key in figure.experiments):
        pytest.skip("of an experiment that these tests have no table of")
    settings = figure.settings
    if settings["drawn_by"].endswith("matrix"):
        settings["quantities"] = settings["quantities"][:3]  # nine by nine take long
    shown = {key: tables[key] for key in figure.experiments}
    given = [settings, shown, {key: correlations[key] for key in figure.correlated}]
    thorough = figure.target in THOROUGH
    with monkeypatch.context() as only:
        only.setattr(render, "FORMATS", ("svg",))
        files = plotting.make(*given)
        assert set(files) == {"csv", *render.FORMATS}
        if thorough:
            assert plotting.make(*given) == files
    back = pd.read_csv(io.BytesIO(files["csv"]), keep_default_na=False, na_values=[""])
    frame = plotting.frame_of(*given).replace("", np.nan)
    pd.testing.assert_frame_equal(back, frame, check_dtype=False)


def test_figures_of_all_grids_show_each_of_them(tables, correlations) -> None:
    """Sensitivity against its bounds: the points and correlations of the tables."""
    settings = declared("chen2026_fig4")
    frame = pairs.frame(settings, tables, correlations)
    fig = Figure(figsize=(11, 7), layout="constrained")
    template.draw(fig, frame, settings)
    axes = np.reshape(fig.axes, (2, 3))
    for column, (grid, runs) in enumerate(tables.items()):
        end = end_of_training(runs)
        for row, (x, y) in enumerate(settings["pairs"]):
            lines = axes[row, column].lines
            points = np.concatenate([line.get_xydata() for line in lines])
            expected = zip(end[x].values, end[y].values, strict=True)
            assert sorted(map(tuple, points)) == sorted(expected)
            rho = correlations[grid]["rho"].sel(kind="pooled", x=x, y=y).item()
            text = axes[row, column].texts[0].get_text()
            assert text.startswith(rf"$\rho$ = {rho:.2f}".replace("-", "−"))


def test_the_stability_of_a_layer_is_its_sensitivity_over_its_bound(tables) -> None:
    runs = tables["vgg-grid"]
    frame = fig1.frame({}, {"vgg-grid": runs}, {})
    one = through_training(runs, {"lr": 0.2}).sel(samples="train", layer="conv2")
    ratio = (one["mls_per_layer"] / one["layer_bound"]).median("run")[1:]
    rows = frame[(frame["layer"] == "conv2") & (frame["row"] == "curve")]
    rows = rows[rows["setting"] == "learning rate 0.2, batch size 20"]
    np.testing.assert_allclose(rows["median"], ratio)
    violated = frame[frame["row"] == "violated"].set_index("layer")["mean"]
    assert violated["conv1"] == pytest.approx(0.2)
    assert violated["fc1"] == 0
    fig = Figure(figsize=(11, 7), layout="constrained")
    fig1.draw(fig, frame, {})
    titles = [ax.get_title(loc="left") for ax in fig.axes]
    assert titles[0].endswith("  conv1, weights shared")
    assert titles[6].endswith("  fc2, the theory applies")
    assert "20 %" in fig.axes[0].texts[0].get_text()


def test_a_panel_is_titled_with_the_architecture_and_without_its_options() -> None:
    about = {"name": "sweep", "data": "digits"}
    networks = {
        "a": "mlp (width 16) and mlp (width 32) and lenet5",
        "b": "vgg (widths 8-pool, hidden 32-32)",
        "c": "vgg",
    }
    tables = {key: xr.Dataset(attrs={**about, "network": name}) for key, name in networks.items()}
    assert labels.headings({**tables, "d": xr.Dataset(attrs=about)}) == {
        "a": "perceptron and LeNet-5 on images of digits",
        "b": "VGG on images of digits (b)",
        "c": "VGG on images of digits (c)",
        "d": "sweep on images of digits",
    }


def test_conventions_are_correlations_of_the_end_of_training(tables, correlations) -> None:
    settings = declared("beyond_fig2")
    frame = selected.frame(settings, tables, {}).set_index(["experiment", "kind", "x", "y"])
    titles = labels.headings(tables)
    for grid, runs in tables.items():
        about = titles[grid]
        for kind in ("pooled", "within"):
            row = frame.loc[(about, kind, "root_sharpness", "mls")]
            known = correlations[grid].sel(kind=kind, x="root_sharpness", y="mls")
            assert row["rho"] == pytest.approx(known["rho"].item())
            assert row["runs"] == correlations[grid].attrs["runs"]
        end = end_of_training(runs)
        bound = end["bound_by_norm"].sel(norm="frobenius", bound="d")
        expected = np.corrcoef(end["mls"], bound)[0, 1]
        row = frame.loc[(about, "pooled", "mls", "bound_d frobenius")]
        assert row["rho"] == pytest.approx(expected)
    missing = frame.loc[(titles["vgg-grid"], "pooled", "mls", "bound_d operator")]
    assert np.isnan(missing["rho"])
    assert missing["runs"] == 0
    fig = Figure(figsize=(11, 7), layout="constrained")
    intervals.draw(fig, frame.reset_index(), settings)
    assert [text.get_text() for text in fig.axes[1].texts] == ["undefined"]
    dots = [
        x for line in fig.axes[0].lines if line.get_marker() != "None" for x in line.get_xdata()
    ]
    values = frame.loc[titles["mlp-grid"]]["rho"]
    assert sorted(dots) == pytest.approx(sorted(values))


def test_correlations_through_training_are_those_of_each_checkpoint(tables) -> None:
    grids = {grid: tables[grid] for grid in ("mlp-grid", "vgg-grid")}
    frame = plotting.frame_of(declared("beyond_fig3"), grids, {})
    for grid, runs in grids.items():
        chosen = through_training(runs).sel(samples="train")
        about = labels.headings(grids)[grid]
        here = frame[(frame["experiment"] == about) & (frame["kind"] == "pooled")]
        assert sorted(set(here["iteration"])) == [s for s in chosen["checkpoint"].values if s > 0]
        at = chosen.isel(checkpoint=1)
        row = here[(here["x"] == "mls") & (here["iteration"] == at["checkpoint"].item())]
        assert row["rho"].item() == pytest.approx(np.corrcoef(at["mls"], at["bound_d"])[0, 1])
        assert row["low"].item() < row["rho"].item() < row["high"].item()
        assert row["runs"].item() == at.sizes["run"]


def test_each_architecture_is_named_once_whatever_its_options() -> None:
    keys = (
        "vgg (widths 4) and resnet (widths 6) and resnet (widths 6, normalization none) on cifar10"
    )
    assert labels.networks_of(keys) == "VGG and ResNet on CIFAR-10"
