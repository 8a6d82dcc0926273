"""Sharpness by definition against errors: scatter panels, and tables of rank correlations."""

import importlib
import io
import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure
from PIL import Image
from scipy.stats import kendalltau

from flatlab.core.schema import PlanError
from flatlab.lab.figures import render as plotting
from flatlab.lab.figures import style
from flatlab.lab.figures.points import groups_of
from flatlab.lab.figures.render import frame_of
from flatlab.papers.andriushchenko2023 import rank_table
from flatlab.papers.andriushchenko2023.sharpness_grid import tau_of
from flatlab.papers.andriushchenko2023.templates import RankTable, SharpnessGrid
from papers.andriushchenko2023.tests.tables import recipes

DEFINITIONS = ["worst-adaptive-linf", "average-standard-l2"]
KEY, RUNS = "recipes-grid", 40
OF_A_PAPER = {"paper": "a2030", "key": "fig1", "cited": "A", "publication": True}
ABOUT: dict[str, Any] = {"title": "a title", "caption": "A caption."}
SHARED: dict[str, Any] = {
    "aliases": {"corrupted_error": "test_set_error[corrupted]"},
    "columns": ("test_error", "corrupted_error"),
    "labels": {"test_error": "test", "corrupted_error": "corrupted"},
    "at_most": {"train_error": 1.0},
    "groups": ("augmentation", "mixup_alpha"),
    "values": {"augmentation": {"none": "plain", "crop-flip": "crops"}},
}
PANELS = SharpnessGrid(
    KEY, rows=(("worst-adaptive-linf", 1),), size="sam_radius", **SHARED, **ABOUT
)
PRINTED = {name: ((0.5, -0.5), (-0.5, 0.5)) for name in DEFINITIONS}
RANKS = RankTable(KEY, printed={KEY: PRINTED}, **SHARED, **ABOUT)


def table():
    """Errors rise with both definitions; the average one has negative values and one radius less.

    Every tenth network has a training error of 5 %; network 3 diverged.
    """
    made = recipes(each=RUNS // 4).sel(definition=DEFINITIONS, radius_index=["0", "1"])
    radii = xr.DataArray([[0.001, 0.002], [0.05, np.nan]], dims=("definition", "radius_index"))
    shift = xr.DataArray([0, 1], dims="definition")
    number = xr.DataArray(np.arange(RUNS), dims="run")
    made = made.assign(
        sharpness_at_radius=made["sharpness_at_radius"] - shift,
        sharpness_radius=0 * made["sharpness_radius"] + radii,
        train_error=made["train_error"].where(number % 10, 5.0),
    )
    about = {"name": KEY, "network": "resnet (narrow)", "data": "digits"}
    of_runs = {"diverged": number == 3, "sam_radius": ("run", np.tile([0, 0.05, 0.1, 0.1], 10))}
    return made.assign_coords(of_runs).assign_attrs(about)


def settings(declared, **changes):
    module = f"flatlab.papers.andriushchenko2023.{declared.module}"
    modules = dict.fromkeys(("selected_by", "drawn_by"), module)
    return {**declared.resolved(), **modules, **changes, **OF_A_PAPER}


def drawn(declared, *tables, **changes):
    """What a figure shows, and its picture."""
    figure = settings(declared, **changes)
    frame = frame_of(figure, {made.attrs["experiment"]: made for made in tables or [table()]})
    fig = Figure(figsize=figure["size_inches"], layout="constrained")
    importlib.import_module(figure["drawn_by"]).draw(fig.subfigures(), frame, figure)
    return frame, fig


def legend_of(fig):
    """The texts and the looks of a legend."""
    legend = fig.subfigs[0].subfigs[0].legends[0]
    return [text.get_text() for text in legend.get_texts()], legend.legend_handles


def of_scipy(x, y):
    """Kendall's tau, without ties."""
    return kendalltau(x, y).statistic


@pytest.mark.first(1)
@pytest.mark.parametrize("declared", [PANELS, RANKS])
def test_data_that_stand_in_for_others_are_labelled_so(declared):
    name = next(iter(declared.columns))
    figure = settings(declared, of_stand_ins={name: "in place of photographs"})

    def labels(evidence):
        made = table().assign_attrs(evidence=evidence)
        return plotting.make(figure, {KEY: made})["svg"].decode()

    assert "in place of photographs" in labels("stand-in")
    assert "in place of photographs" not in labels("own")


def test_the_networks_shown_are_those_within_the_limit_that_did_not_diverge():
    runs = table()
    frame = frame_of(settings(PANELS), {KEY: runs})
    shown = frame[(frame["row"] == "run") & (frame["ordinate"] == "test_error")]
    expected = [n for n in range(RUNS) if n % 10 and n != 3]
    assert shown["name"].tolist() == [f"{KEY}-{n}" for n in expected]
    end = runs.isel(run=expected, checkpoint=0, samples=0)
    place = {"definition": "worst-adaptive-linf", "radius_index": "1"}
    np.testing.assert_array_equal(shown["x"], end["sharpness_at_radius"].sel(place))
    np.testing.assert_array_equal(shown["y"], end["test_error"])
    assert set(shown["radius"]) == {0.002}


def test_the_taus_of_panels_and_of_their_groups_are_those_of_scipy():
    frame = frame_of(settings(PANELS), {KEY: table()})
    taus = frame[frame["row"] == "tau"].set_index(["ordinate", "group"])
    runs = frame[frame["row"] == "run"]
    for ordinate in ("test_error", "corrupted_error"):
        here = runs[runs["ordinate"] == ordinate]
        parts = {"": here, "plain, mixup alpha 0.5": here[:0]}
        chosen = (here["augmentation"] == "none") & (here["mixup_alpha"] == 0.5)
        parts["plain, mixup alpha 0.5"] = here[chosen]
        for group, points in parts.items():
            found = taus.loc[ordinate, group]
            assert found["tau"] == pytest.approx(of_scipy(points["x"], points["y"]))
            assert found["networks"] == len(points)
            assert found["low"] < found["tau"] < found["high"]


def test_the_legend_says_how_many_networks_of_each_group_are_within_the_limit():
    _, fig = drawn(PANELS)
    texts, handles = legend_of(fig)
    assert texts[:2] == ["plain, mixup alpha 0: 8 of 9", "plain, mixup alpha 0.5: 9 of 10"]
    assert texts[-3:] == ["sam radius 0", "sam radius 0.05", "sam radius 0.1"]
    looks = {(line.get_color(), line.get_marker()) for line in handles[:4]}
    assert len(looks) == 4


def test_a_group_without_networks_within_the_limit_is_not_in_the_legend():
    runs = table()
    runs["train_error"] = runs["train_error"].where(runs["augmentation"] == "none", 9.0)
    _, fig = drawn(PANELS, runs)
    texts, looks = legend_of(fig)
    assert texts[:2] == ["plain, mixup alpha 0: 8 of 9", "plain, mixup alpha 0.5: 9 of 10"]
    assert looks[0].get_color() != looks[1].get_color()
    assert fig.axes[0].get_title(loc="left").splitlines()[0].endswith(": 17 of 39")


def test_the_taus_of_groups_stand_beside_the_panels():
    frame, fig = drawn(PANELS)
    *_, beside = fig.axes
    points = [float(line.get_xdata()[0]) for line in beside.lines if line.get_marker() != "None"]
    expected = frame[frame["row"] == "tau"]["tau"]
    assert sorted(points) == pytest.approx(sorted(expected))


def test_points_drawn_are_those_of_the_csv_on_an_axis_that_has_them_all():
    """An average case may be negative, which a logarithmic axis would hide."""
    frame, fig = drawn(PANELS, rows=[(name, 0) for name in DEFINITIONS])
    axes = fig.axes[:4]
    assert [ax.get_xscale() for ax in axes] == ["log", "log", "symlog", "symlog"]
    places = itertools.product(DEFINITIONS, PANELS.columns)
    for ax, (name, y) in zip(axes, places, strict=True):
        rows = frame[(frame["definition"] == name) & (frame["ordinate"] == y)]
        points = np.concatenate([drawn.get_offsets() for drawn in ax.collections])
        expected = rows[rows["row"] == "run"][["x", "y"]].to_numpy(float)
        assert sorted(map(tuple, points)) == sorted(map(tuple, expected))
        (tau,) = rows[(rows["row"] == "tau") & (rows["group"] == "")]["tau"]
        assert f"= {tau:.2f}".replace("-", "−") in ax.get_title(loc="left")


def test_a_shade_is_a_bar_of_colours_and_the_groups_have_the_markers():
    _, fig = drawn(PANELS, groups=["mixup_alpha"], shade="lr")
    assert "learning rate" in [ax.get_ylabel() for ax in fig.axes]
    assert {line.get_color() for line in legend_of(fig)[1][:2]} == {"0.4"}


def test_ranks_have_a_row_per_definition_radius_test_set_and_group():
    runs = table()
    frame = frame_of(settings(RANKS), {KEY: runs})
    whole = frame[frame["group"] == ""]
    radii = [("worst-adaptive-linf", 0.001), ("worst-adaptive-linf", 0.002)]
    radii.append(("average-standard-l2", 0.05))  # it has one radius
    assert list(zip(whole["definition"], whole["radius"], strict=True)) == [
        place for place in radii for _ in RANKS.columns
    ]
    assert whole["paper"].tolist() == [0.5, -0.5, -0.5, 0.5, 0.5, -0.5]
    first = runs.sel(run=[n for n in runs["run"].values if n != f"{KEY}-3"])
    first = first.isel(run=(first["train_error"] <= 1).values.ravel(), checkpoint=0, samples=0)
    x = first["sharpness_at_radius"][:, 0, 0]
    assert whole["tau"].iloc[0] == pytest.approx(of_scipy(x, first["test_error"]))
    rest = whole.dropna(subset=["paper"])
    assert (rest["same_sign"] == (rest["tau"] * rest["paper"] > 0)).all()
    assert frame[frame["group"] != ""]["paper"].isna().all()
    assert len(frame) == 5 * len(whole)


def test_the_picture_of_ranks_shows_the_numbers_and_marks_the_signs():
    frame, fig = drawn(RANKS)
    [ax] = fig.axes
    shown = {(text.get_text(), text.get_color()) for text in ax.texts}
    for _, row in frame[frame["group"] == ""].iterrows():
        color = rank_table.SAME if row["tau"] * row["paper"] > 0 else rank_table.OTHER
        numbers = (f"{row[name]:.2f}" for name in ("tau", "low", "high", "paper"))
        cell = "{} [{}, {}] ({})".format(*numbers).replace("-", "−")
        assert (cell, color) in shown


def test_several_experiments_have_their_names_above_their_rows():
    other = table().assign_attrs(experiment="recipes-vit-grid")
    declared = RankTable((KEY, "recipes-vit-grid"), **SHARED, **ABOUT)
    frame, fig = drawn(declared, table(), other)
    headings = [ax.get_title(loc="left") for ax in fig.axes]
    assert headings == [
        f"ResNet on images of digits ({n}), 35 networks" for n in (KEY, "recipes-vit-grid")
    ]
    assert frame["same_sign"].isna().all()  # nothing is printed


@pytest.mark.first(1)
@pytest.mark.parametrize("declared", [PANELS, RANKS])
def test_without_a_network_within_the_limit_there_is_still_a_figure(declared, monkeypatch):
    monkeypatch.setattr(plotting, "FORMATS", ("png",))
    figure = settings(declared, at_most={"train_error": -1.0})
    files = plotting.make(figure, {KEY: table()})
    with Image.open(io.BytesIO(files["png"])) as picture:
        assert picture.width == 7.1 * 160


@pytest.mark.parametrize(
    ("changes", "culprit"),
    [
        ({"columns": ("tset_error",)}, "tset_error; did you mean 'test_error'?"),
        ({"rows": [("worst-adaptiv-linf", 0)]}, "definition worst-adaptiv-linf; did you mean"),
        ({"rows": [("worst-adaptive-linf", 4)]}, "radius_index 4; "),
        ({"groups": ["mixup"]}, "mixup; did you mean 'mixup_alpha'?"),
    ],
)
def test_what_a_table_lacks_is_one_sentence(changes, culprit):
    with pytest.raises(PlanError) as error:
        frame_of(settings(PANELS, **changes), {KEY: table()})
    assert str(error.value).startswith(f"{KEY} has no ")
    assert culprit in str(error.value)


def test_too_few_networks_have_no_tau():
    two = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, np.nan]})
    assert tau_of(two).reason == "tau(x, y): 2 networks have both"
    assert groups_of(two, []) == {}


def test_large_numbers_on_a_logarithmic_axis_are_powers_of_ten():
    ax = Figure().subplots()
    ax.set(xscale="log", xlim=(0.001, 1e8))
    style.plain_numbers(ax)
    labels = [ax.xaxis.get_major_formatter()(x) for x in (0.001, 10000.0, 1e5, 1e7)]
    assert labels == ["0.001", "10000", "$10^{5}$", "$10^{7}$"]
    ax.set_xlim(4e5, 2.5e6)
    ax.xaxis.get_minor_formatter().set_locs([5e5, 6e5, 1.1e6, 2e6])
    assert ax.xaxis.get_minor_formatter()(2e6) == r"$2\cdot 10^{6}$"
