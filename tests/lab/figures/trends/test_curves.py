"""Training curves: their frame, lines, legends and marks."""

from __future__ import annotations

import re

import numpy as np
import pytest

from flatlab.core.registry import imported, keys_of
from flatlab.lab import plan
from flatlab.lab.figures import labels, style
from flatlab.lab.figures.axes import log_spaced
from flatlab.lab.figures.frames.training import spread
from flatlab.lab.figures.quantities import FigureError
from flatlab.lab.plan.declarations import labels_of
from flatlab.lab.tables.selection import through_training
from tests.synthetic.curves import (
    CHEN2024,
    CHEN2026,
    EVEN,
    LOG_SPACED,
    ON_TEST,
    curves_of,
    drawn,
    runs_of,
    table,
    titles,
)


@pytest.mark.parametrize(
    ("checkpoints", "logarithmic"),
    [
        (LOG_SPACED, True),
        ([0, 1, 10, 100], True),
        (EVEN, False),
        (range(200, 20_000, 200), False),
        ([0, 12_000], False),
        ([12_000], False),
        ([], False),
    ],
)
def test_the_axis_of_iterations_follows_the_spacing_of_the_checkpoints(
    checkpoints, logarithmic
) -> None:
    assert log_spaced(list(checkpoints)) is logarithmic


@pytest.mark.parametrize("checkpoints", [LOG_SPACED, EVEN])
def test_a_frame_has_each_run_and_their_median_and_mean_at_every_checkpoint(checkpoints) -> None:
    runs = table(checkpoints=checkpoints)
    frame = spread(runs, ["mls", "train_loss"], {"batch_size": 20})
    lines = frame[frame["row"] == "curve"]
    first = 1 if checkpoints is LOG_SPACED else 0  # a logarithmic axis has no place for zero
    for (setting, quantity), rows in lines.groupby(["setting", "quantity"]):
        lr = float(setting.split(",")[0].split()[-1])
        one = runs.sel(run=((runs["lr"] == lr) & (runs["batch_size"] == 20)).values)
        values = one.sel(run=(one["seed"] < 5).values)[quantity]
        values = values.sel(samples="train") if quantity == "mls" else values
        assert list(rows["iteration"]) == list(checkpoints[first:])
        np.testing.assert_allclose(rows["mean"], values.mean("run")[first:])
        np.testing.assert_allclose(rows["sd"], values.std("run", ddof=1)[first:])
        np.testing.assert_allclose(rows["median"], np.median(values, axis=0)[first:])
        for place, seed in enumerate(one["seed"].values[one["seed"].values < 5]):
            np.testing.assert_array_equal(rows[f"seed {seed}"], values[place][first:])
        assert (rows["runs"] == 5).all()
        assert (rows["samples"] == "train").all()
    assert len(lines.groupby(["setting", "quantity"])) == 6


def test_every_panel_draws_the_rows_of_the_frame_and_nothing_else(tables) -> None:
    names = CHEN2026
    frame = spread(tables["vgg-grid"], names, {"lr": 0.1})
    axes = drawn(frame, titles(names)).axes
    assert len(axes) == len(names)
    for name, ax in zip(names, axes, strict=True):
        rows = frame[(frame["row"] == "curve") & (frame["quantity"] == name)]
        assert ax.get_xscale() == "log"
        lines = curves_of(ax)
        for (setting, own), line in zip(rows.groupby("setting", sort=False), lines, strict=True):
            np.testing.assert_array_equal(line.get_xydata(), own[["iteration", "median"]])
            look = style.SETTINGS[setting]
            assert (line.get_color(), line.get_marker()) == (look.color, look.marker)
        thin = [line.get_ydata() for line in runs_of(ax)]
        expected = [
            own[seed]
            for _, own in rows.groupby("setting", sort=False)
            for seed in own.filter(like="seed ")
            if own[seed].notna().any()
        ]
        assert len(thin) == len(expected) >= 14
        for drawn_run, expected_run in zip(thin, expected, strict=True):
            np.testing.assert_array_equal(drawn_run, expected_run)


def test_the_legend_says_of_how_few_runs_a_mean_is(tables) -> None:
    frame = spread(tables["vgg-grid"], ["mls"], {"lr": 0.1, "batch_size": 20})
    curve = frame["row"] == "curve"
    frame.loc[curve, "runs"] = [0.0, 2.0] + [5.0] * (int(curve.sum()) - 2)
    [texts] = [legend.get_texts() for legend in drawn(frame, {"mls": "MLS"}).legends]
    assert texts[0].get_text().endswith("(2 to 5 runs)")


def test_vertical_marks_stand_where_interpolation_begins(tables) -> None:
    frame = spread(tables["mlp-grid"], ["mls"])
    windows = frame[frame["row"] == "window"]
    assert len(windows) >= 4
    (ax,) = drawn(frame, {"mls": "MLS"}, columns=1).axes
    upright = (ln for ln in ax.lines if len(ln.get_xdata()) == 2)
    marks = {(line.get_xdata()[0], line.get_color()) for line in upright}
    expected = zip(windows["iteration"], windows["setting"], strict=True)
    assert marks == {(begins, style.SETTINGS[setting].color) for begins, setting in expected}
    for begins, setting in zip(windows["iteration"], windows["setting"], strict=True):
        lr, batch = (float(part.split()[-1]) for part in setting.split(", "))
        chosen = through_training(tables["mlp-grid"], {"lr": lr, "batch_size": batch})
        loss = chosen["train_loss"].mean("run")
        assert begins == chosen["checkpoint"].values[(loss < 1e-2).values][0]


def test_the_legend_says_how_many_runs_a_line_is_of(tables) -> None:
    frame = spread(tables["vgg-grid"], ["mls"], {"batch_size": 20})
    legend = drawn(frame, {"mls": "MLS"}).legends[0]
    assert [text.get_text() for text in legend.get_texts()] == [
        "learning rate",
        "0.05 (4 runs)",
        "0.1 (5 runs)",
        "0.2 (5 runs)",
        "training loss falls below 0.01",
    ]
    alike = spread(table(), ["mls"], {"batch_size": 20})
    legend = drawn(alike, {"mls": "MLS"}).legends[0]
    first, *_ = (text.get_text() for text in legend.get_texts())
    assert first == "learning rate (5 runs each)"


def test_lines_are_in_the_order_of_their_hyperparameters() -> None:
    settings = dict.fromkeys(spread(table(), ["mls"])["setting"])
    values = [tuple(float(part.split()[-1]) for part in words.split(", ")) for words in settings]
    assert values == [(0.05, 20), (0.1, 8), (0.1, 20), (0.1, 32), (0.2, 20)]


def test_a_gap_is_a_gap_and_a_value_between_two_gaps_has_a_marker() -> None:
    runs = table(checkpoints=EVEN, samples=("test", "misclassified"))
    runs["mls"].loc[{"samples": "misclassified"}] = runs["mls"].sel(samples="test").values
    empty = [5, 9, 11, 12]
    runs["mls"][:, empty, 1] = np.nan
    runs["mls"][:3, 20, 1] = np.nan
    sets = ("test", "misclassified")
    frame = spread(runs, ["mls"], {"lr": 0.1, "batch_size": 20}, sets)
    rows = frame[frame["samples"] == "misclassified"].reset_index()
    assert list(np.flatnonzero(rows["mean"].isna())) == empty
    assert (rows["runs"][empty] == 0).all()
    line = curves_of(drawn(frame, {"mls": "MLS"}, line="samples").axes[0])[1]
    assert list(np.flatnonzero(np.isnan(line.get_ydata()))) == empty
    assert 10 in line.get_markevery()


def test_a_mean_is_over_the_runs_that_have_a_value() -> None:
    runs = table(checkpoints=EVEN)
    chosen = (runs["lr"] == 0.2) & (runs["seed"] == 2)
    runs["mls"] = runs["mls"].where(~chosen | (runs["checkpoint"] < 50_000))
    frame = spread(runs, ["mls"], {"lr": 0.2})
    rows = frame[frame["row"] == "curve"]
    late = rows[rows["iteration"] >= 50_000]
    assert set(late["runs"]) == {4}
    values = runs["mls"].sel(run=((runs["lr"] == 0.2) & (runs["seed"] < 5)).values, samples="train")
    expected = values.sel(checkpoint=slice(50_000, None)).mean("run")
    np.testing.assert_allclose(late["mean"], expected)


def test_losses_and_accuracies_say_of_which_samples_they_are(tables) -> None:
    where = {"lr": 0.1, "batch_size": 20}
    names = ON_TEST
    frame = spread(tables["vgg-grid"], names, where, ("test", "misclassified"))
    found = frame.groupby("quantity")["samples"].unique()
    assert list(found["train_loss"]) == ["train"]
    assert list(found["test_loss"]) == ["test"]
    assert list(found["g"]) == ["test", "misclassified"]


def test_another_settings_checkpoints_are_no_gaps() -> None:
    runs = table(checkpoints=EVEN)
    sparse = runs["lr"] == 0.05
    runs = runs.where(~sparse | (runs["checkpoint"] % 10_000 == 0)).assign_coords(
        diverged=runs["diverged"]
    )
    frame = spread(runs, ["mls"], {"batch_size": 20})
    counts = frame[frame["row"] == "curve"].groupby("setting").size()
    assert sorted(counts) == [16, 31, 31]
    assert frame[frame["row"] == "curve"]["mean"].notna().all()


@pytest.mark.parametrize("case", ["one seed", "one checkpoint", "two", "infinite", "NaN", "zero"])
def test_odd_tables_are_drawn(case: str) -> None:
    steps = {"one checkpoint": (12_000,), "two": (0, 12_000)}.get(case, LOG_SPACED)
    runs = table(seeds=1 if case == "one seed" else 6, checkpoints=steps)
    names = CHEN2024
    if case in ("infinite", "NaN", "zero"):
        value = {"infinite": np.inf, "NaN": np.nan, "zero": 0.0}[case]
        for name in names:
            runs[name][...] = value
            runs["mls"][3] = value
    frame = spread(runs, names)
    axes = drawn(frame, titles(names)).axes
    if case == "NaN":
        assert not any(runs_of(ax) for ax in axes)
    if case in ("NaN", "infinite"):
        assert all(any(t.get_text() == "no values" for t in ax.texts) for ax in axes)


def test_a_selection_without_runs_is_drawn_as_such() -> None:
    frame = spread(table(seeds=1), ["mls"], {"lr": 7.0})
    assert frame.empty
    fig = drawn(frame, {"mls": "MLS"})
    assert not fig.legends
    assert any(text.get_text() == "no values" for text in fig.axes[0].texts)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"quantities": ["msl"]}, "no quantity 'msl'; did you mean 'mls'?"),
        ({"samples": ["tset"]}, "no samples 'tset'; did you mean 'test'?"),
        (
            {"where": {"batchsize": 20}},
            "no hyper-parameter 'batchsize'; did you mean 'batch_size'?",
        ),
    ],
)
def test_what_a_table_does_not_have_is_one_sentence(asked, sentence) -> None:
    with pytest.raises(FigureError) as error:
        spread(table(seeds=1), **{"quantities": ["mls"], **asked})
    assert str(error.value).startswith(f"vgg-grid has {sentence}")


def test_a_label_is_that_of_the_definition_unless_a_figure_has_its_own() -> None:
    """Planning reads it from the syntax of the file that measuring imports."""
    families = (imported("metrics", key) for key in keys_of("metrics"))
    defined = {n: q.label for family in families for n, q in family.QUANTITIES.items() if q.label}
    assert labels_of([*defined, "none"]) == defined
    assert labels_of(["weight_norm[fc1]", "mls[conv1]"]) == {"mls[conv1]": "MLS"}
    own = plan.Lines("a-grid", quantities=("mls", "g"), labels={"g": "g²"}, title="", caption="")
    assert own.resolved()["labels"] == {"mls": "MLS", "g": "g²"}


@pytest.mark.parametrize(
    ("label", "lines"),
    [
        ("MLS", "MLS"),
        ("local dimension", "local\ndimension"),
        ("generalization gap", "generalization\ngap"),  # no word is broken
        (r"relative flatness $\kappa x$", "relative\n" + r"flatness $\kappa x$"),
    ],
)
def test_a_long_label_has_several_lines(label: str, lines: str) -> None:
    assert labels.in_lines(label) == lines


def test_labels_of_matrices_fit_their_panels() -> None:
    """A word that is wider than a panel would run into the next one."""
    shown = [f.settings for f in plan.figures() if f.settings["drawn_by"].endswith(".matrix")]
    assert shown
    for settings in shown:
        for name in settings["quantities"]:
            text = re.sub(r"\$.*?\$", "x", labels.label_of(settings, name))
            assert max(map(len, text.split())) <= 11, name
