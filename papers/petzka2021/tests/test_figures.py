"""Figures of simulations: what is drawn is what the tables say, and the figure says so."""

import importlib
import io

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from flatlab.lab import plan
from flatlab.lab.figures import lines
from flatlab.lab.figures import render as figures
from flatlab.lab.kinds.simulation import tabulate

mpl.use("Agg")
SMALL = {
    "locally-constant-labels": {"datasets": 6, "training_size": 40, "test_size": 40},
    "representativeness": {"separations": [0.5, 4.0], "repeats": 3, "size": 120},
}
TARGETS = [figure for figure in plan.figures() if {*figure.experiments} <= {*SMALL}]


@pytest.fixture(scope="module")
def tables():
    made = {}
    for key, changes in SMALL.items():
        simulation = plan.read_experiment(plan.experiment_files()[key], "demo", find=None)
        (settings,) = simulation.packs.values()
        module = importlib.import_module(plan.module_of("simulations", key))
        about = simulation.tabulating(simulation).settings
        made[key] = tabulate([module.table(module.Options(**settings | changes))], about)
    return made


@pytest.mark.parametrize("figure", TARGETS, ids=lambda figure: figure.target)
def test_a_figure_of_simulations_is_made_and_its_csv_holds_its_frame(figure, tables):
    shown = {key: tables[key] for key in figure.experiments}
    files = figures.make(figure.settings, shown)
    frame = figures.frame_of(figure.settings, shown)
    pd.testing.assert_frame_equal(pd.read_csv(io.BytesIO(files["csv"])), frame, check_dtype=False)
    text = files["txt"].decode()
    assert f"{figure.cited}: {figure.declared.title.split(',')[0]}" in text
    assert "(demo, synthetic data)" in text


def figure(key):
    return next(each.settings for each in plan.figures() if each.target == f"petzka2021_{key}")


def framed(key, tables):
    return figures.frame_of(figure(key), tables)


def test_a_point_of_figure_3_is_the_mean_of_its_batches(tables):
    table = tables["locally-constant-labels"]
    frame, named = framed("fig3", tables), figure("fig3")["lines"]
    panel = frame[(frame["panel"] == "variants") & (frame["line"] == named["exact"][0])]
    for _, point in panel.iterrows():
        here = table.sel(variant="exact", separation=point["separation"], loss="squared")
        kappa = here["relative_flatness"].sel(normalization="none").values
        rhos = [np.corrcoef(a, b)[0, 1] for a, b in zip(kappa, here["gap"].values, strict=True)]
        assert point["mean"] == pytest.approx(np.mean(rhos))
        assert point["deviation"] == pytest.approx(np.std(rhos, ddof=1))
    backwards = frame[frame["line"] == named["code"][0]]
    assert backwards["drawn_at"].tolist() == backwards["separation"].tolist()[::-1]
    assert (backwards["batches"] == 1).all()
    assert backwards["deviation"].isna().all()


def test_a_point_of_figure_4_is_the_mean_of_its_samples(tables):
    table = tables["representativeness"]
    frame = framed("fig4", tables)
    for _, point in frame.iterrows():
        here = table[point["quantity"]].sel(
            variant=point["variant"], separation=point["separation"]
        )
        assert point["mean"] == pytest.approx(float(here.mean()))
        assert point["deviation"] == pytest.approx(here.mean("fold").values.std(ddof=1))


@pytest.mark.parametrize(("key", "groups"), [("fig3", "line"), ("fig4", "quantity")])
def test_the_points_drawn_are_the_rows_of_the_csv(key, groups, tables):
    frame = framed(key, tables)
    fig = Figure(figsize=(9, 4), layout="constrained")
    lines.draw(fig, frame, figure(key))
    panels = [frame[frame[frame.columns[0]] == name] for name in figure(key)["panels"]]
    for ax, panel in zip(fig.axes, panels, strict=True):
        drawn = [line.get_ydata() for line in ax.lines]
        drawn = [y for y in drawn if len(y) and not np.array_equal(y, [0, 0])]
        rows = [part["mean"].values for _, part in panel.groupby(groups, sort=False)]
        assert len(drawn) == len(rows)
        for y, mean in zip(drawn, rows, strict=True):
            np.testing.assert_array_equal(y, mean)


def test_what_is_not_finite_leaves_a_gap_and_stops_nothing(tables):
    broken = {key: table.copy(deep=True) for key, table in tables.items()}
    broken["locally-constant-labels"]["gap"][:, 0] = np.nan
    broken["representativeness"]["bound"][:, :, 0] = np.nan
    for key in ("fig3", "fig4"):
        fig = Figure(figsize=(9, 4), layout="constrained")
        lines.draw(fig, framed(key, broken), figure(key))
        fig.draw_without_rendering()
    counts = framed("fig4", broken).groupby("quantity")["samples"].max()
    assert counts.to_dict() == {"bound": 2, "gap": 3, "representativeness": 3}
