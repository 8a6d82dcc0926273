"""The figure and the tables that are drawn of networks fitted to eight points."""

import io

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from flatlab.lab import plan
from flatlab.lab.figures import render as figures
from flatlab.lab.tables.eligibility import NotEligible
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.macdonald2023 import fig32, norms
from flatlab.papers.macdonald2023.norms import GAUSSIAN, INITIALIZATIONS, JACOBIAN, RELU, SHARPNESS
from papers.macdonald2023.tests.tables import points

TABLES = {GAUSSIAN: "table1", RELU: "table2"}


def made_up(grid, diverged=None):
    """Networks fitted to three points, with the curve of each."""
    made = points(grid)
    line, three, ones = np.linspace(-1, 1, 5), np.linspace(-1, 1, 3), np.ones((20, 1, 1))
    curves = {"curve_input": line, "curve_output": line**2}
    fitted = {"fitted_input": three, "fitted_target": three**2}
    for dim, values in (("place", curves), ("point", fitted)):
        made = made.assign({n: (("run", "checkpoint", dim), ones * x) for n, x in values.items()})
    made.attrs |= dict.fromkeys(("extent", "network", "data"), grid)
    made.attrs |= {"stands_in_for": "", "length": "10,000 epochs"}
    return made.assign_coords(diverged=("run", np.arange(20) == diverged))


def tables():
    return {grid: made_up(grid) for grid in TABLES}


@pytest.mark.parametrize("grid", [GAUSSIAN, RELU])
def test_the_rows_of_a_table_are_means_and_deviations_of_the_networks_that_did_not_diverge(grid):
    made = made_up(grid, diverged=3)
    settings = settings_of(TABLES[grid])
    frame = norms.frame(settings, ResultTables({grid: made})).set_index(
        ["quantity", "initialization"]
    )
    for name in (JACOBIAN, SHARPNESS):
        runs = made.sel(run=~made["diverged"].values)
        for frequency, start in INITIALIZATIONS[grid].items():
            values = runs[name].values[runs["initialization"].values == start].ravel()
            row = frame.loc[name, start]
            assert row["networks"] == len(values) == (9 if frequency == "high" else 10)
            assert row["mean"] == pytest.approx(values.mean(), rel=1e-12)
            assert row["sd"] == pytest.approx(values.std(ddof=1), rel=1e-12)
            assert values.min() < row["low"] < row["mean"] < row["high"] < values.max()


def settings_of(figure):
    return next(f.settings for f in plan.figures() if f.target == f"macdonald2023_{figure}")


def texts(figure, made):
    """What a table shows of networks of one grid."""
    fig, settings = Figure(figsize=(9, 3)), settings_of(figure)
    norms.draw(fig, norms.frame(settings, ResultTables({made.attrs["experiment"]: made})), settings)
    return [cell.get_text().get_text() for cell in fig.axes[0].tables[0].get_celld().values()]


def test_the_table_shows_the_numbers_of_the_csv_beside_those_of_the_paper():
    shown = texts("table1", made_up(GAUSSIAN))
    for text in ("327.0 ± 11.", "326.8 ± 182.5", "13,518 ± 3,872", "0.56 ± 0.02", "10 networks"):
        assert any(text in other for other in shown), text


def test_what_is_not_there_is_not_shown_as_a_number():
    made = made_up(RELU)
    shown = texts("table2", made.assign({SHARPNESS: made[SHARPNESS] * np.nan}))
    assert sum("not measured" in text for text in shown) == 2
    assert not any("nan" in text for text in shown)


def test_a_row_of_a_quantity_that_no_table_has_is_refused_in_one_sentence():
    made = {RELU: tables()[RELU].drop_vars(SHARPNESS)}
    with pytest.raises(NotEligible, match=f"^{RELU} has no {SHARPNESS}$"):
        norms.frame(settings_of("table2"), ResultTables(made))
    made = {RELU: tables()[RELU].assign_coords(layer=["fc0", "fc2"])}
    with pytest.raises(NotEligible, match=f"^{RELU} has no layer fc1$"):
        norms.frame(settings_of("table2"), ResultTables(made))


def test_the_curves_are_of_the_first_networks_that_did_not_diverge():
    made = {GAUSSIAN: made_up(GAUSSIAN, diverged=0), RELU: made_up(RELU)}
    frame = fig32.frame({}, ResultTables(made))
    runs = list(dict.fromkeys(frame["run"]))
    assert runs == [f"{GAUSSIAN}-1", f"{GAUSSIAN}-10", f"{RELU}-0", f"{RELU}-10"]
    assert frame.groupby("row").size().to_dict() == {"curve": 20, "norm": 4, "point": 12}
    curves = frame[frame["row"] != "norm"]
    assert np.array_equal(curves["y"], curves["x"] ** 2)


def test_the_panels_show_the_rows_of_the_csv():
    fig, frame = Figure(figsize=(9, 6)), fig32.frame({}, ResultTables(tables()))
    fig32.draw(fig, frame, {})
    for number, ax in enumerate(fig.axes):
        curve, points = ax.lines
        head = frame["activation"] == ("Gaussian", "ReLU")[number // 2]
        head &= frame["frequency"] == ("high", "low")[number % 2]
        for line, row in ((curve, "curve"), (points, "point")):
            expected = frame[head & (frame["row"] == row)][["x", "y"]].to_numpy()
            assert np.array_equal(line.get_xydata(), expected)


def test_a_figure_without_any_network_says_so():
    none = {g: t.assign_coords(diverged=t["diverged"] | True) for g, t in tables().items()}
    fig, frame = Figure(figsize=(9, 6)), fig32.frame({}, ResultTables(none))
    fig32.draw(fig, frame, {})
    assert frame.empty
    assert [ax.get_title(loc="right") for ax in fig.axes] == ["no network"] * 4


@pytest.mark.first(1)
@pytest.mark.parametrize("figure", ["fig32", *TABLES.values()])
def test_each_is_made_from_its_grids(figure):
    settings = settings_of(figure)
    files = figures.make(settings, {key: tables()[key] for key in settings["experiments"]})
    assert set(files) == {"csv", "svg", "txt"}
    assert len(pd.read_csv(io.BytesIO(files["csv"]))) > 5
