"""The template `Sweep`: what is drawn along a hyper-parameter is what the table says."""

from itertools import product
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from flatlab.lab.figures import curves, sweep
from flatlab.lab.figures.render import frame_of
from flatlab.lab.plan import Curves, Sweep
from flatlab.stats import over_seeds
from tests.synthetic import tables

mpl.use("Agg")
RATES, SIZES, SEEDS = (0.01, 0.1), (32, 64, 128), 4


def table(**factors):
    """Networks of all combinations, whose quantities tell which of them they are of."""
    factors = factors or {"lr": RATES, "batch_size": SIZES}
    combined = [dict(zip(factors, each, strict=True)) for each in product(*factors.values())]
    rules = {
        "train_loss": lambda c: number_of(c)[:, None] * (9 - 8 * c["time"]),
        "sharpness": lambda c: number_of(c) ** 2,
    }
    return tables.table("some-grid", combined, rules, seeds=SEEDS, steps=(0, 90))


def number_of(columns):
    """1 for the first network."""
    return 1.0 + np.arange(len(columns["seed"]))


def settings(**changes):
    declared: dict[str, Any] = {
        "quantities": ("train_loss", "sharpness"),
        "labels": {"train_loss": "the loss", "sharpness": "the sharpness"},
        "along": {"batch_size": "batch size"},
        "line": "lr",
    }
    return Sweep("some-grid", title="", caption="", **(declared | changes)).resolved()


def drawn(made, **changes):
    figure = settings(**changes)
    frame = frame_of(figure, {"some-grid": made})
    fig = Figure(figsize=(7, 3))
    sweep.draw(fig, frame, figure)
    return fig, frame


def test_a_frame_has_every_network_at_its_end_and_the_means_with_their_intervals():
    made = table()
    frame = drawn(made)[1].set_index("row")
    assert len(frame.loc["run"]) == 2 * made.sizes["run"]
    means = frame.loc["mean"].set_index(["quantity", "line", "x"])
    for rate in RATES:
        for size in SIZES:
            there = ((made["lr"] == rate) & (made["batch_size"] == size)).values
            values = made["train_loss"].isel(checkpoint=-1).values[there]
            mean = means.loc["train_loss", rate, size]
            interval = over_seeds("", lambda m: m, values).interval()
            assert (mean["y"], mean["networks"]) == (values.mean(), SEEDS)
            assert (mean["low"], mean["high"]) == pytest.approx(interval)


def test_points_are_the_networks_and_lines_join_the_means():
    made = table()
    fig, frame = drawn(made)
    assert len(fig.axes) == 2
    for quantity, ax in zip(("train_loss", "sharpness"), fig.axes, strict=True):
        runs = [line for line in ax.lines if line.get_alpha()]
        joined = [line for line in ax.lines if not line.get_alpha()]
        assert [len(line.get_xdata()) for line in runs] == [3 * SEEDS] * len(RATES)
        for rate, line in zip(RATES, joined, strict=True):
            means = frame[(frame["row"] == "mean") & (frame["quantity"] == quantity)]
            means = means[means["line"] == rate].sort_values("x")
            assert np.array_equal(line.get_ydata(), means["y"].to_numpy(dtype=float))
            assert np.abs(line.get_xdata() - [0, 1, 2]).max() < 0.3  # at equal distances
        assert len({line.get_color() for line in joined}) == len(RATES)
        assert [tick.get_text() for tick in ax.get_xticklabels()] == ["32", "64", "128"]


def test_networks_that_diverged_and_values_that_are_missing_do_not_count():
    made = table().assign_coords(diverged=("run", np.arange(24) == 0))
    made["train_loss"][1] = np.nan
    frame = drawn(made)[1]
    first = frame[(frame["row"] == "mean") & (frame["x"] == 32) & (frame["line"] == 0.01)]
    assert first.set_index("quantity")["networks"].to_dict() == {"train_loss": 2, "sharpness": 3}
    fig, _ = drawn(made)
    texts = [text.get_text() for legend in fig.legends for text in legend.get_texts()]
    assert texts == ["learning rate 0.01 (2 to 4 networks)", "learning rate 0.1 (4 networks)"]


def test_a_column_of_several_has_the_networks_for_which_the_others_are_zero():
    made = table(lr=(0.1,), mixup=(0.0, 0.5), sam=(0.0, 0.1))
    along = {"mixup": "mixup", "sam": "SAM"}
    fig, frame = drawn(made, along=along)
    for name, other in (("mixup", "sam"), ("sam", "mixup")):
        rows = frame[(frame["row"] == "run") & (frame["along"] == name)]
        assert len(rows) == 2 * 2 * SEEDS
        values = made["train_loss"].isel(checkpoint=-1).values[made[other].values == 0]
        assert sorted(rows[rows["quantity"] == "train_loss"]["y"]) == sorted(values)
    assert len(fig.axes) == 4
    assert [ax.get_ylabel() for ax in fig.axes] == ["the loss", "", "the sharpness", ""]
    heads = ["mixup", "SAM"] * 2
    assert [ax.get_title(loc="left") for ax in fig.axes] == [
        rf"$\bf{{{letter}}}$  {head}" for letter, head in zip("abcd", heads, strict=True)
    ]
    assert fig.axes[0].get_ylim() == fig.axes[1].get_ylim()


def test_settings_that_were_not_trained_are_an_empty_figure():
    fig, frame = drawn(table(), where={"lr": 0.5})
    assert frame.empty
    assert [ax.texts[0].get_text() for ax in fig.axes] == ["no networks"] * 2


def test_a_logarithmic_axis_spans_the_networks():
    fig, _ = drawn(table(), logarithmic=("sharpness",))
    assert [ax.get_yscale() for ax in fig.axes] == ["linear", "log"]
    low, high = fig.axes[1].get_ylim()
    assert 0 < low < 1
    assert high > 24**2


def curves_of(made, **changes):
    """The axes of curves of the training loss, and their frame."""
    declared: dict[str, Any] = {"quantities": ("train_loss",), "title": "", "caption": ""}
    figure = Curves("some-grid", **(declared | changes)).resolved()
    frame = frame_of(figure, {"some-grid": made})
    fig = Figure(figsize=(7, 3))
    curves.draw(fig, frame, figure)
    return fig.axes[0], frame


def test_curves_of_settings_that_were_not_trained_are_empty_panels():
    ax, frame = curves_of(table(), where={"lr": 0.5}, marks=False)
    assert frame.empty
    assert [text.get_text() for text in ax.texts] == ["no values"]


def test_curves_are_named_and_titled_as_declared():
    made, labels = table(lr=(0.1,), smoothing=(0.0, 0.5)), {"train_loss": "loss so far"}
    ax, frame = curves_of(made, labels=labels, named=("smoothing",))
    assert {*frame["setting"]} == {"smoothing 0", "smoothing 0.5"}
    assert ax.get_title(loc="left") == "loss so far"
