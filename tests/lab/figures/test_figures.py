"""Figures: the CSV is exactly what is drawn, and every figure says what it is."""

from __future__ import annotations

import io
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from PIL import Image

from flatlab.lab import plan
from flatlab.lab.figures import matrix, render
from flatlab.lab.figures import render as plotting
from flatlab.lab.figures.render import frame_of
from tests.synthetic import tables
from tests.synthetic.curves import declared

mpl.use("Agg")
NAMES = ["mls", "nmls", "root_sharpness"]
SETTINGS = plan.Matrix(
    "mlp-grid", quantities=NAMES, title="a title", caption="A caption."
).resolved()
SETTINGS |= {"cited": "Chen et al. (2026), Figure H8", "publication": True}
ABOUT = {
    "extent": "29 mlp (width 64) networks on digits; 1 left out (diverged or did not fit)",
    "network": "mlp (width 64)",
    "data": "digits",
    "length": "12,000 iterations",
    "stands_in_for": "mlp on fashion-mnist",
    "evidence": "stand-in",
}


def table():
    """Three settings of ten networks, of which the fifth diverged."""
    generator, rates, sizes = np.random.default_rng(0), (0.05, 0.1, 0.1), (20, 20, 8)
    settings = [{"lr": lr, "batch_size": size} for lr, size in zip(rates, sizes, strict=True)]
    common = generator.normal(size=30)
    rules = dict.fromkeys(NAMES, lambda c: common + generator.normal(size=30))
    rules["train_loss"] = lambda c: generator.uniform(0.001, 0.009, size=30)
    made = tables.table("mlp-grid", settings, rules, seeds=10, **ABOUT)
    return made.assign_coords(diverged=("run", np.arange(30) == 4))


def framed(runs, **options):
    return frame_of({**SETTINGS, **options}, {"mlp-grid": runs})


@pytest.fixture(scope="module")
def frame():
    return framed(table())


def drawn(frame):
    fig = Figure(figsize=(4, 4), layout="constrained")
    matrix.draw(fig, frame, SETTINGS)
    return fig


def test_the_points_drawn_are_the_rows_of_the_csv(frame):
    runs = frame[frame["row"] == "run"]
    assert len(runs) == 29
    assert "mlp-grid-4" not in set(frame["name"])  # which diverged
    axes = np.reshape(drawn(frame).axes[:9], (3, 3))
    for i, y in enumerate(NAMES):
        for j, x in enumerate(NAMES):
            if i > j:
                points = np.concatenate([line.get_xydata() for line in axes[i, j].lines])
                assert sorted(map(tuple, points)) == sorted(zip(runs[x], runs[y], strict=True))
            elif i == j:
                heights = [bar.get_height() for bar in axes[i, j].patches]
                assert sum(heights) == len(runs)


def test_each_panel_shows_the_correlation_and_interval_of_the_csv(frame):
    axes = np.reshape(drawn(frame).axes[:9], (3, 3))
    kinds = ("rho", "low", "high", "within")
    rows = {kind: frame[frame["row"] == kind].set_index("name") for kind in kinds}
    for i, y in enumerate(NAMES):
        for j, x in enumerate(NAMES):
            text = " ".join(t.get_text() for t in axes[i, j].texts).replace("−", "-")
            if i < j:
                rho, low, high, within = (f"{rows[kind].loc[y, x]:.2f}" for kind in kinds)
                assert text == f"{rho} {low}, {high} {within}"
                slants = [t.get_style() for t in axes[i, j].texts]
                other = rows["rho"].loc[y, x] * rows["within"].loc[y, x] < 0
                assert slants == ["normal", "normal", "italic" if other else "normal"]
            else:
                assert text == ""


def test_settings_are_told_apart_in_words_by_colour_and_by_marker(frame):
    legend = drawn(frame).legends[0]
    assert [t.get_text() for t in legend.get_texts()] == [
        "learning rate 0.05, batch size 20",
        "learning rate 0.1, batch size 20",
        "learning rate 0.1, batch size 8",
    ]
    assert [handle.get_marker() for handle in legend.legend_handles] == ["o", "o", "^"]


def test_a_selection_of_seeds_has_correlations_of_its_own():
    runs = table()
    few = framed(runs, seeds=[0, 1, 2, 3])
    points = few[few["row"] == "run"]
    assert len(points) == 12  # seed 4 of the first setting is the one that diverged
    rho = few[few["row"] == "rho"].set_index("name")
    assert rho.loc["mls", "nmls"] == pytest.approx(np.corrcoef(points["mls"], points["nmls"])[0, 1])


@pytest.mark.parametrize("width", [3, 6, 10, 13])
def test_the_legend_stays_inside_the_figure(width):
    fig = Figure(figsize=(width, 8), layout="constrained")
    runs = table()
    matrix.draw(fig, framed(runs), SETTINGS)
    fig.draw_without_rendering()
    assert fig.legends[0].get_window_extent().x1 <= fig.bbox.x1


def test_an_undefined_correlation_and_a_value_that_is_not_finite_do_not_stop_the_drawing():
    runs = table()
    runs["nmls"][0] = np.inf
    runs["root_sharpness"] = runs["root_sharpness"] * 0 + 3
    fig = drawn(framed(runs))
    fig.draw_without_rendering()
    assert any("undefined" in t.get_text() for ax in fig.axes for t in ax.texts)


def test_a_figure_is_made_in_every_format_and_repeats_bit_for_bit():
    runs = table()
    given = SETTINGS, {"mlp-grid": runs}
    first, second = (plotting.make(*given) for _ in range(2))
    assert first == second
    assert set(first) == {"csv", "pdf", "svg", "png", "txt"}
    back = pd.read_csv(io.BytesIO(first["csv"]))
    pd.testing.assert_frame_equal(back, frame_of(*given), check_dtype=False)


def test_a_caption_counts_the_networks_that_are_shown():
    """Six of two architectures each; three of each are followed, and two diverged."""
    rules = {"mls": lambda c: np.where((c["seed"] < 3)[:, None] | (c["time"] == 1), 1.0, np.nan)}
    about = {
        **ABOUT,
        "network": "mlp (width 64) and vgg",
        "stands_in_for": "mlp and vgg on cifar10",
    }
    both = [{"architecture": name} for name in ("mlp", "vgg")]
    runs = tables.table("mlp-grid", both, rules, seeds=6, steps=(0, 9), not_converged=2, **about)
    diverged, slow = (np.isin(np.arange(12), places) for places in ([4, 5, 7], [4, 5]))
    ended = np.where(slow, "finished", "stopped").astype(object)
    runs = runs.assign_coords(diverged=("run", diverged), ended=("run", ended))

    def words(declared, publication=True):
        figure = {**declared.resolved(), "paper": "a2030", "key": "fig1", "cited": "A"}
        figure["publication"] = publication
        return plotting.caption(figure, {"mlp-grid": runs}).removeprefix("A caption. ")

    titled: dict[str, Any] = {"title": "a title", "caption": "A caption."}
    data = "networks on images of digits, 12,000 iterations each"
    left_out = "1 left out (diverged or did not fit)"
    of_both, of_mlps = (
        f"they stand in for the paper's {a} on CIFAR-10."
        for a in ("perceptron and VGG", "perceptron")
    )
    whole = (
        f"9 narrow perceptron and VGG {data}; {left_out}; 2 left out (did not converge); {of_both}"
    )
    assert words(plan.Matrix("mlp-grid", quantities=NAMES, **titled)) == whole
    of_two_seeds = plan.Matrix("mlp-grid", quantities=NAMES, seeds=(0, 4), **titled)
    three = f"3 narrow perceptron and VGG {data}; 1 left out (did not converge); {of_both}"
    assert words(of_two_seeds) == three
    curves = plan.Curves("mlp-grid", quantities=("mls",), **titled)
    assert words(curves) == f"5 narrow perceptron and VGG {data}; {left_out}; {of_both}"
    where = {"architecture": "mlp"}
    sweep = {"quantities": ("mls",), "along": {"lr": "rate"}, "line": "seed"}
    mlps = f"4 narrow perceptron {data}; 2 left out (did not converge); {of_mlps}"
    lines = plan.Sweep("mlp-grid", where=where, **sweep, **titled)
    assert words(lines) == mlps
    of_a_study = words(lines, publication=False)
    assert of_a_study.endswith("they stand in for perceptron on CIFAR-10.")
    runs = runs.assign_attrs(evidence="reduced", stands_in_for="")
    assert words(lines).endswith("; reduced from the paper's experiment.")
    assert words(lines, publication=False).endswith("; reduced from the full experiment.")
    runs = runs.assign_attrs(evidence="own")
    assert words(lines).endswith("; 2 left out (did not converge).")


def test_title_and_caption_name_every_table_scale_and_data_set_once(monkeypatch):
    monkeypatch.setattr(render, "FORMATS", ("svg",))
    data = {"mlp-grid": "digits", "vgg-grid": "photographs", "lenet-grid": "digits"}
    runs = table()
    shown = {
        key: runs.assign_attrs(experiment=key, name=key, data=data[key], length=f"so long {key}")
        for key in data
    }
    settings = declared("chen2026_fig4") | {"pairs": [["mls", "nmls"]]}
    files = plotting.make(settings, shown)
    text = files["txt"].decode()
    assert b"Figure 4" not in files["svg"]
    assert b">demo<" in files["svg"]
    assert "Chen et al. (2026), Figure 4: " in text
    assert f"{settings['title']} (demo, images of digits and photographs)" in text
    for key in data:
        assert text.count(f"so long {key}") == 1


def test_a_palette_changes_no_colour_that_one_could_see():
    fig = Figure(figsize=(3, 2), dpi=160)
    ax = fig.subplots()
    for number, colour in enumerate(mpl.color_sequences["tab10"]):
        ax.plot([0, 1], [number, number + 2], color=colour)
        ax.fill_between([0, 1], number, number + 1, color=colour, alpha=0.2)
    full, small = io.BytesIO(), render.picture("png", fig)
    fig.savefig(full, format="png")
    expected, found = (
        np.asarray(Image.open(picture).convert("RGB")).astype(int)
        for picture in (full, io.BytesIO(small))
    )
    off = np.abs(found - expected).max(2)
    colours, of_pixel, pixels = np.unique(
        expected.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True
    )
    areas = pixels[of_pixel].reshape(off.shape) > 200  # the others are edges between them
    assert areas.mean() > 0.9
    assert len(colours) > 1000
    assert off[areas].max() <= 16
    assert np.quantile(off, 0.998) <= 24
    assert len(small) < 0.6 * len(full.getvalue())
    assert Image.open(io.BytesIO(small)).info["dpi"] == pytest.approx((160, 160), abs=0.1)
