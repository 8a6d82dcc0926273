"""Figures: the CSV is exactly what is drawn, and every figure says what it is."""

from __future__ import annotations

import ast
import io
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure
from PIL import Image

from flatlab import plan, plotting
from flatlab.plotting import pairs as pairplot
from flatlab.plotting import style
from flatlab.tables.correlations import correlate

mpl.use("Agg")
NAMES = ("mls", "nmls", "root_sharpness")
ABOUT = {
    "scale": "demo",
    "grid": "mlp-grid",
    "network": "mlp4-small",
    "data": "digits",
    "length": "12,000 iterations",
    "stands_in_for": "mlp4 on fashion-mnist",
    "left_out": 0,
    "hyperparameters": ["lr", "batch_size"],
}


def table(names: tuple[str, ...]) -> xr.Dataset:
    generator = np.random.default_rng(0)
    shape = ("run", "checkpoint", "samples")
    coordinates = {
        "run": [f"r{n}" for n in range(30)],
        "setting": ("run", np.repeat(["a", "b", "c"], 10)),
        "lr": ("run", np.repeat([0.05, 0.1, 0.1], 10)),
        "batch_size": ("run", np.repeat([20, 20, 8], 10)),
        "seed": ("run", np.tile(np.arange(10), 3)),
        "diverged": ("run", np.arange(30) == 4),
        "samples": ["train"],
    }
    common = generator.normal(size=(30, 1, 1))
    variables = {n: (shape, common + generator.normal(size=(30, 1, 1))) for n in names}
    return xr.Dataset(variables, coords=coordinates, attrs=ABOUT)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    runs = table(NAMES)
    return pairplot.frame(runs, correlate(runs), NAMES)


def drawn(frame: pd.DataFrame) -> Figure:
    fig = Figure(figsize=(4, 4), layout="constrained")
    pairplot.draw(fig, frame, NAMES)
    return fig


def test_the_points_drawn_are_the_rows_of_the_csv(frame: pd.DataFrame) -> None:
    runs = frame[frame["row"] == "run"]
    axes = np.reshape(drawn(frame).axes[:9], (3, 3))
    for i, y in enumerate(NAMES):
        for j, x in enumerate(NAMES):
            if i != j:
                points = np.concatenate([line.get_xydata() for line in axes[i, j].lines])
                points = points[np.isfinite(points).all(axis=1)]
                assert sorted(map(tuple, points)) == sorted(zip(runs[x], runs[y], strict=True))


def test_each_panel_shows_the_correlation_and_interval_of_the_csv(frame: pd.DataFrame) -> None:
    axes = np.reshape(drawn(frame).axes[:9], (3, 3))
    rows = {kind: frame[frame["row"] == kind].set_index("name") for kind in ("rho", "low", "high")}
    for i, y in enumerate(NAMES):
        for j, x in enumerate(NAMES):
            text = " ".join(t.get_text() for t in axes[i, j].texts).replace("−", "-")
            if i == j:
                assert text == ""
            else:
                numbers = [f"{rows[kind].loc[y, x]:.2f}" for kind in ("rho", "low", "high")]
                assert text == rf"$\rho$ = {numbers[0]}" + f"\n[{numbers[1]}, {numbers[2]}]"


def test_diverged_runs_are_not_drawn(frame: pd.DataFrame) -> None:
    assert "r4" not in set(frame["name"])
    assert (frame["row"] == "run").sum() == 29


def test_settings_are_told_apart_in_words_by_colour_and_by_marker(frame: pd.DataFrame) -> None:
    legend = drawn(frame).legends[0]
    assert [t.get_text() for t in legend.get_texts()] == [
        "learning rate 0.05, batch size 20",
        "learning rate 0.1, batch size 20",
        "learning rate 0.1, batch size 8",
    ]
    looks = [(h.get_color(), h.get_marker()) for h in legend.legend_handles]
    assert len({color for color, _ in looks}) == len({marker for _, marker in looks}) == 3


def test_a_selection_of_seeds_has_correlations_of_its_own() -> None:
    runs = table(NAMES)
    few = pairplot.frame(runs, correlate(runs), NAMES, seeds=range(4))
    points = few[few["row"] == "run"]
    assert len(points) == 12  # seed 4 of the first setting is the one that diverged
    rho = few[few["row"] == "rho"].set_index("name")
    assert rho.loc["mls", "nmls"] == pytest.approx(np.corrcoef(points["mls"], points["nmls"])[0, 1])


def test_a_setting_looks_the_same_whatever_else_is_shown() -> None:
    all_of_them = style.look_of_settings(style.SETTINGS)
    for setting in style.SETTINGS:
        assert style.look_of_settings([setting])[setting] == all_of_them[setting]
    of_one_grid = [setting for setting in style.SETTINGS if setting.startswith("learning rate")]
    looks = style.look_of_settings([*of_one_grid, "another", "one more"])
    assert len({look.color for look in looks.values()}) == len(looks)
    assert len({look.marker for look in looks.values()}) == len(looks)


@pytest.mark.parametrize("width", [3, 6, 10, 13])
def test_the_legend_stays_inside_the_figure(width: int) -> None:
    fig = Figure(figsize=(width, 8), layout="constrained")
    runs = table(NAMES)
    pairplot.draw(fig, pairplot.frame(runs, correlate(runs), NAMES), NAMES)
    fig.draw_without_rendering()
    assert fig.legends[0].get_window_extent().x1 <= fig.bbox.x1


def test_an_undefined_correlation_and_a_value_that_is_not_finite_do_not_stop_the_drawing() -> None:
    runs = table(NAMES)
    runs["nmls"][0] = np.inf
    runs["root_sharpness"] = runs["root_sharpness"] * 0 + 3
    fig = drawn(pairplot.frame(runs, correlate(runs), NAMES))
    fig.draw_without_rendering()
    assert any("undefined" in t.get_text() for ax in fig.axes for t in ax.texts)


def test_a_figure_is_made_in_every_format_and_repeats_bit_for_bit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from flatlab.papers.chen2026 import figH8

    monkeypatch.setattr(pairplot, "CHEN2026", NAMES)
    runs = table(NAMES)
    tables, correlations = {"mlp-grid": runs}, {"mlp-grid": correlate(runs)}
    first, second = (plotting.make("chen2026_figH8", tables, correlations) for _ in range(2))
    assert first == second
    assert set(first) == {"csv", "pdf", "svg", "png"}
    back = pd.read_csv(io.BytesIO(first["csv"]))
    pd.testing.assert_frame_equal(back, figH8.frame(tables, correlations), check_dtype=False)


def test_a_figure_says_on_what_it_was_computed_and_what_it_stands_in_for() -> None:
    text = plotting.about(correlate(table(NAMES)))
    for part in ("29 mlp4-small networks", "digits", "1 diverged", "mlp4 on fashion-mnist"):
        assert part in text


def test_the_title_names_every_scale_and_data_set_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from flatlab.papers.chen2026 import figH8

    monkeypatch.setattr(pairplot, "CHEN2026", NAMES)
    monkeypatch.setattr(plotting, "FORMATS", ("svg",))
    monkeypatch.setitem(plotting.STYLE, "svg.fonttype", "none")
    runs = table(NAMES)
    grids = {"mlp-grid": "digits", "vgg-grid": "photographs", "lenet-grid": "digits"}
    correlations = {grid: correlate(runs).assign_attrs(data=data) for grid, data in grids.items()}
    files = plotting.make("chen2026_figH8", {"mlp-grid": runs}, correlations)
    assert f"figH8 (demo on digits and photographs): {figH8.FIGURE['title']}" in str(files["svg"])


def test_every_figure_of_the_package_declares_itself_and_its_quantities_have_labels() -> None:
    for figure in plan.figures():
        path = Path(plotting.__file__).parents[1] / "papers" / figure.paper / f"{figure.key}.py"
        functions = {n.name for n in ast.parse(path.read_text()).body if hasattr(n, "name")}
        assert {"frame", "draw"} <= functions
        assert figure.tables
        assert figure.caption.endswith(".")


def test_a_palette_changes_no_colour_that_one_could_see():
    fig = Figure(figsize=(3, 2), dpi=200)
    ax = fig.subplots()
    for number, colour in enumerate(mpl.color_sequences["tab10"]):
        ax.plot([0, 1], [number, number + 2], color=colour)
        ax.fill_between([0, 1], number, number + 1, color=colour, alpha=0.2)
    full, small = io.BytesIO(), plotting._render(fig, "png")
    fig.savefig(full, format="png")
    expected, found = (
        np.asarray(Image.open(picture).convert("RGB")).astype(int)
        for picture in (full, io.BytesIO(small))
    )
    assert np.abs(found - expected).max() <= 24
    assert np.abs(found - expected).mean() < 2
    assert len(small) < 0.6 * len(full.getvalue())
    assert Image.open(io.BytesIO(small)).info["dpi"] == pytest.approx((200, 200), abs=0.1)
