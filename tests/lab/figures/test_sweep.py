"""The template `Sweep`: what is drawn along a hyper-parameter is what the table says."""

from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure

from flatlab.core.schema import PlanError
from flatlab.lab.figures import curves, sweep
from flatlab.lab.figures.render import frame_of
from flatlab.lab.plan import Curves, Sweep
from flatlab.stats import over_seeds

mpl.use("Agg")
RATES, SIZES, SEEDS = (0.01, 0.1), (32, 64, 128), 4


def table(**factors):
    """Networks of all combinations, whose quantities tell which of them they are of."""
    factors = factors or {"lr": RATES, "batch_size": SIZES}
    index = pd.MultiIndex.from_product([*factors.values(), range(SEEDS)])
    columns = {n: index.get_level_values(k).to_numpy() for k, n in enumerate([*factors, "seed"])}
    runs = len(index)
    values = 1.0 + np.arange(runs)
    dims, names = ("run", "checkpoint", "samples"), [f"r{n}" for n in range(runs)]
    return xr.Dataset(
        {
            "loss": (dims[:2], np.stack([values * 9, values], 1)),
            "sharpness": (dims, (values**2)[:, None, None] + np.zeros((1, 2, 1))),
        },
        {
            **{"run": names, "checkpoint": [0, 90], "samples": ["train"]},
            **{name: ("run", column) for name, column in columns.items()},
            "diverged": ("run", np.zeros(runs, bool)),
        },
        {"experiment": "some-grid", "hyperparameters": [*factors]},
    )


def settings(**changes):
    declared: dict[str, Any] = {
        "quantities": ("loss", "sharpness"),
        "labels": {"loss": "the loss", "sharpness": "the sharpness"},
        "along": {"batch_size": ("batch size", "logarithmic")},
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
    for rate in RATES:
        for size in SIZES:
            there = ((made["lr"] == rate) & (made["batch_size"] == size)).values
            values = made["loss"].isel(checkpoint=-1).values[there]
            mean = frame.loc["mean"].set_index(["quantity", "line", "x"]).loc["loss", rate, size]
            interval = over_seeds("", lambda m: m, values).interval()
            assert (mean["y"], mean["networks"]) == (values.mean(), SEEDS)
            assert (mean["low"], mean["high"]) == pytest.approx(interval)


def test_points_are_the_networks_and_lines_join_the_means():
    made = table()
    fig, frame = drawn(made)
    assert len(fig.axes) == 2
    for quantity, ax in zip(("loss", "sharpness"), fig.axes, strict=True):
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
    made["loss"][1] = np.nan
    frame = drawn(made)[1]
    first = frame[(frame["row"] == "mean") & (frame["x"] == 32) & (frame["line"] == 0.01)]
    assert first.set_index("quantity")["networks"].to_dict() == {"loss": 2, "sharpness": 3}
    fig, _ = drawn(made)
    texts = [text.get_text() for legend in fig.legends for text in legend.get_texts()]
    assert texts == ["learning rate 0.01 (2 to 4 networks)", "learning rate 0.1 (4 networks)"]


def test_a_column_of_several_has_the_networks_for_which_the_others_are_zero():
    made = table(lr=(0.1,), mixup=(0.0, 0.5), sam=(0.0, 0.1))
    along = {"mixup": ("mixup", "linear"), "sam": ("SAM", "symmetric")}
    fig, frame = drawn(made, along=along)
    for name, other in (("mixup", "sam"), ("sam", "mixup")):
        rows = frame[(frame["row"] == "run") & (frame["along"] == name)]
        assert len(rows) == 2 * 2 * SEEDS
        values = made["loss"].isel(checkpoint=-1).values[made[other].values == 0]
        assert sorted(rows[rows["quantity"] == "loss"]["y"]) == sorted(values)
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


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"quantities": {"los": "x"}}, "some-grid has no los; did you mean 'loss'"),
        ({"line": "lrr"}, "some-grid has no lrr; did you mean 'lr'"),
        ({"along": {"size": ("x", "linear")}}, "some-grid has no size"),
    ],
)
def test_what_a_table_does_not_have_is_refused_by_name(changes, sentence):
    with pytest.raises(PlanError, match=sentence):
        drawn(table(), **changes)


def test_a_logarithmic_axis_spans_the_networks():
    fig, _ = drawn(table(), logarithmic=("sharpness",))
    assert [ax.get_yscale() for ax in fig.axes] == ["linear", "log"]
    low, high = fig.axes[1].get_ylim()
    assert 0 < low < 1
    assert high > 24**2


def test_curves_of_settings_that_were_not_trained_are_empty_panels():
    figure = Curves(
        "some-grid", quantities=("loss",), where={"lr": 0.5}, title="", caption="", marks=False
    ).resolved()
    made = table().assign(train_loss=table()["loss"])
    frame = frame_of(figure, {"some-grid": made})
    assert frame.empty
    fig = Figure(figsize=(7, 3))
    curves.draw(fig, frame, figure)
    assert [text.get_text() for text in fig.axes[0].texts] == ["no values"]


def test_curves_are_named_and_titled_as_declared():
    made = table(lr=(0.1,), smoothing=(0.0, 0.5)).drop_vars("sharpness")
    made = made.rename(loss="train_loss")
    figure = Curves(
        "some-grid",
        quantities=("train_loss",),
        labels={"train_loss": "loss so far"},
        named=("smoothing",),
        title="",
        caption="",
    ).resolved()
    frame = frame_of(figure, {"some-grid": made})
    assert {*frame["setting"]} == {"smoothing 0", "smoothing 0.5"}
    fig = Figure(figsize=(7, 3))
    curves.draw(fig, frame, figure)
    assert fig.axes[0].get_title(loc="left") == "loss so far"
