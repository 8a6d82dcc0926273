"""Training curves: their frame, lines, legends and marks; and every figure that shows grids."""

from __future__ import annotations

import io
import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure

from flatlab.core.registry import imported, keys_of
from flatlab.core.schema import PlanError
from flatlab.lab import plan
from flatlab.lab.figures import curves as template
from flatlab.lab.figures import intervals, labels, pairs, render, style
from flatlab.lab.figures import render as plotting
from flatlab.lab.figures.render import frame_of
from flatlab.lab.figures.style import log_spaced
from flatlab.lab.plan.declarations import labels_of
from flatlab.lab.tables.networks import Networks
from flatlab.lab.tables.selection import end_of_training, through_training
from flatlab.papers.beyond import fig1
from tests.refusals import refusal
from tests.synthetic.curves import (
    CHEN2024,
    CHEN2026,
    EVEN,
    LOG_SPACED,
    NETWORKS,
    ON_TEST,
    THOROUGH,
    curves_of,
    declared,
    drawn,
    runs_of,
    table,
    titles,
)


@pytest.fixture(scope="module")
def tables():
    made = {grid: table(grid) for grid in NETWORKS}
    made["vgg-grid"]["diverged"][1] = True
    made["vgg-grid"]["bound_by_norm"].loc[{"norm": "operator"}] = np.nan  # costly: nobody asked
    return made


def spread(runs, names, where=None, **options):
    networks = Networks.of("vgg-grid", runs).where(**(where or {}))
    return template.spread(networks, names, **options)


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
def test_the_axis_of_iterations_follows_the_spacing_of_the_checkpoints(checkpoints, logarithmic):
    assert log_spaced(list(checkpoints)) is logarithmic


@pytest.mark.parametrize("checkpoints", [LOG_SPACED, EVEN])
def test_a_frame_has_each_run_and_their_median_and_mean_at_every_checkpoint(checkpoints):
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


def test_every_panel_draws_the_rows_of_the_frame_and_nothing_else(tables):
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


def test_vertical_marks_stand_where_interpolation_begins(tables):
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
        networks = Networks.of("mlp-grid", tables["mlp-grid"])
        chosen = networks.where(lr=lr, batch_size=batch).curves.runs
        loss = chosen["train_loss"].mean("run")
        assert begins == chosen["checkpoint"].values[(loss < 1e-2).values][0]


def test_the_legend_says_how_many_runs_a_line_is_of(tables):
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


def test_a_gap_is_a_gap_and_a_value_between_two_gaps_has_a_marker():
    runs = table(checkpoints=EVEN, samples=("test", "misclassified"))
    runs["mls"].loc[{"samples": "misclassified"}] = runs["mls"].sel(samples="test").values
    empty = [5, 9, 11, 12]
    runs["mls"][:, empty, 1] = np.nan
    runs["mls"][:3, 20, 1] = np.nan
    sets = ("test", "misclassified")
    frame = spread(runs, ["mls"], {"lr": 0.1, "batch_size": 20}, samples=sets)
    rows = frame[frame["samples"] == "misclassified"].reset_index()
    assert list(np.flatnonzero(rows["mean"].isna())) == empty
    assert (rows["runs"][empty] == 0).all()
    line = curves_of(drawn(frame, {"mls": "MLS"}, line="samples").axes[0])[1]
    assert list(np.flatnonzero(np.isnan(line.get_ydata()))) == empty
    assert 10 in line.get_markevery()


def test_losses_and_accuracies_say_of_which_samples_they_are(tables):
    where = {"lr": 0.1, "batch_size": 20}
    names = ON_TEST
    frame = spread(tables["vgg-grid"], names, where, samples=("test", "misclassified"))
    found = frame.groupby("quantity")["samples"].unique()
    assert list(found["train_loss"]) == ["train"]
    assert list(found["test_loss"]) == ["test"]
    assert list(found["g"]) == ["test", "misclassified"]


def test_another_settings_checkpoints_are_no_gaps():
    runs = table(checkpoints=EVEN)
    sparse = runs["lr"] == 0.05
    runs = runs.where(~sparse | (runs["checkpoint"] % 10_000 == 0)).assign_coords(
        diverged=runs["diverged"]
    )
    frame = spread(runs, ["mls"], {"batch_size": 20})
    counts = frame[frame["row"] == "curve"].groupby("setting").size()
    assert sorted(counts) == [16, 31, 31]
    assert frame[frame["row"] == "curve"]["mean"].notna().all()


CONSTANT = {"infinite": np.inf, "NaN": np.nan, "zero": 0.0}


@pytest.mark.first(1)
@pytest.mark.parametrize("case", ["one seed", "one checkpoint", "two", *CONSTANT])
def test_odd_tables_are_drawn(case):
    steps = {"one checkpoint": (12_000,), "two": (0, 12_000)}.get(case, LOG_SPACED)
    runs, names = table(seeds=1 if case == "one seed" else 6, checkpoints=steps), CHEN2024[::3]
    if case in CONSTANT:
        for name in names:
            runs[name][...] = CONSTANT[case]
        runs["mls"][3] = CONSTANT[case]
    frame = spread(runs, names)
    fig = drawn(frame, titles(names))
    fig.draw_without_rendering()
    axes = fig.axes
    if case == "NaN":
        assert not any(runs_of(ax) for ax in axes)
    if case in ("NaN", "infinite"):
        assert all(any(t.get_text() == "no values" for t in ax.texts) for ax in axes)


ALONG = {"along": {"batch_size": "size"}, "line": "lr"}


@pytest.mark.parametrize(
    ("template", "asked", "sentence"),
    [
        (plan.Curves, {"quantities": ["msl"]}, "msl; did you mean 'mls'?"),
        (plan.Curves, {"samples": ["tset"]}, "tset samples"),
        (plan.Curves, {"where": {"batchsize": 20}}, "batchsize; did you mean 'batch_size'?"),
        (plan.Matrix, {"quantities": ["mls", "msl"]}, "msl; did you mean 'mls'?"),
        (plan.Sweep, {**ALONG, "quantities": ["msl"]}, "msl; did you mean 'mls'?"),
        (plan.Sweep, {**ALONG, "line": "lrr"}, "lrr; did you mean 'lr'?"),
        (plan.Sweep, {**ALONG, "along": {"size": "x"}}, "size"),
    ],
)
def test_what_a_table_does_not_have_is_one_sentence(template, asked, sentence):
    more = ALONG if template is plan.Sweep else {}
    figure = template("vgg-grid", quantities=("mls",), title="", caption="", **more).resolved()
    message = refusal(PlanError, frame_of, {**figure, **asked}, {"vgg-grid": table(seeds=1)})
    assert message.startswith(f"vgg-grid has no {sentence}")


def test_a_label_is_that_of_the_definition_unless_a_figure_has_its_own():
    """Planning reads it from the syntax of the file that measuring imports."""
    families = (imported("families", key) for key in keys_of("families"))
    defined = {n: q.label for family in families for n, q in family.QUANTITIES.items() if q.label}
    assert labels_of([*defined, "none"]) == defined
    assert labels_of(["weight_norm[fc1]", "mls[conv1]"]) == {"mls[conv1]": "MLS"}
    own = plan.Curves("a-grid", quantities=("mls", "g"), labels={"g": "g²"}, title="", caption="")
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
def test_a_long_label_has_several_lines(label, lines):
    assert labels.in_lines(label) == lines


def test_labels_of_matrices_fit_their_panels():
    """A word that is wider than a panel would run into the next one."""
    shown = [f.settings for f in plan.figures() if f.settings["drawn_by"].endswith(".matrix")]
    assert shown
    for settings in shown:
        for name in settings["quantities"]:
            text = re.sub(r"\$.*?\$", "x", labels.label_of(settings, name))
            assert max(map(len, text.split())) <= 11, name


# Every figure that is drawn of grids


@pytest.mark.every(8)
@pytest.mark.parametrize("figure", plan.figures(), ids=lambda figure: figure.target)
def test_every_figure_is_made_and_its_csv_holds_its_frame(figure, tables, monkeypatch):
    """And as a picture, twice the same bytes, where a figure's code is not another's."""
    if any(key not in tables for key in figure.experiments):
        pytest.skip("of an experiment that these tests have no table of")
    settings = figure.settings
    if settings["drawn_by"].endswith("matrix"):
        shown = ["root_sharpness", *(y for _, y in settings["pairs"])]  # nine by nine take long
        settings["quantities"] = shown if settings["pairs"] else settings["quantities"][:3]
    given = settings, {key: tables[key] for key in figure.experiments}
    thorough = figure.target in THOROUGH
    with monkeypatch.context() as only:
        only.setattr(render, "FORMATS", ("svg",) if thorough else ())
        if not thorough:
            only.setattr("matplotlib.layout_engine.do_constrained_layout", lambda *_, **__: None)
        files = plotting.make(*given)
        assert set(files) == {"csv", "txt", *render.FORMATS}
        if thorough:
            assert plotting.make(*given) == files
    back = pd.read_csv(io.BytesIO(files["csv"]), keep_default_na=False, na_values=[""])
    frame = frame_of(*given).replace("", np.nan)
    pd.testing.assert_frame_equal(back, frame, check_dtype=False)


def test_figures_of_all_grids_show_each_of_them(tables):
    """Sensitivity against its bounds: the points and correlations of the tables."""
    settings = declared("chen2026_fig4")
    frame = frame_of(settings, tables)
    fig = Figure(figsize=(11, 7), layout="constrained")
    pairs.draw(fig, frame, settings)
    axes = np.reshape(fig.axes, (2, 3))
    for column, runs in enumerate(tables.values()):
        end = end_of_training(runs)
        for row, (x, y) in enumerate(settings["pairs"]):
            *lines, equality = axes[row, column].lines
            assert np.array_equal(equality.get_xdata(), equality.get_ydata())
            points = np.concatenate([line.get_xydata() for line in lines])
            expected = zip(end[x].values, end[y].values, strict=True)
            assert sorted(map(tuple, points)) == sorted(expected)
            rho = np.corrcoef(end[x], end[y])[0, 1]
            text = axes[row, column].get_title(loc="left")
            assert rf"$\rho$ = {rho:.2f}".replace("-", "−") in text


def test_the_stability_of_a_layer_is_its_sensitivity_over_its_bound(tables):
    runs = tables["vgg-grid"]
    frame = frame_of(declared("beyond_fig1"), {"vgg-grid": runs})
    networks = Networks.of("vgg-grid", runs).where(lr=0.2)
    one = networks.curves.runs.sel(samples="train", layer="conv2")
    ratio = (one["mls_per_layer"] / one["layer_bound"]).median("run")[1:]
    rows = frame[(frame["layer"] == "conv2") & (frame["row"] == "curve")]
    rows = rows[rows["setting"] == "learning rate 0.2, batch size 20"]
    np.testing.assert_allclose(rows["median"], ratio)
    violated = frame[frame["row"] == "violated"].set_index("layer")["mean"]
    assert violated["conv1"] == pytest.approx(0.2)
    assert violated["fc1"] == 0
    fig, curves = (Figure(figsize=(11, 7), layout="constrained") for _ in range(2))
    fig1.draw(fig, frame, {})
    assert [bar.get_height() for bar in fig.axes[0].patches[:7]] == list(100 * violated)
    fig1.draw_curves(curves, frame, {})
    titles = [ax.get_title(loc="left") for ax in curves.axes]
    assert titles[0].endswith("  conv1, weights shared")
    assert titles[6].endswith("  fc2, the theory applies")


def test_a_panel_is_titled_with_the_architecture_and_without_its_options():
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


def test_conventions_are_correlations_of_the_end_of_training(tables):
    settings = declared("beyond_fig2")
    frame = frame_of(settings, tables).set_index(["experiment", "kind", "x", "y"])
    titles = labels.headings(tables)
    for grid, runs in tables.items():
        about = titles[grid]
        end = end_of_training(runs)
        pair = [end[name] for name in ("root_sharpness", "mls")]
        for kind in ("pooled", "within"):
            row = frame.loc[(about, kind, "root_sharpness", "mls")]
            assert row["rho"] == pytest.approx(np.corrcoef(*pair)[0, 1])
            assert row["runs"] == end.sizes["run"]
            pair = [each.groupby("setting") - each.groupby("setting").mean() for each in pair]
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


def test_correlations_through_training_are_those_of_each_checkpoint(tables):
    grids = {grid: tables[grid] for grid in ("mlp-grid", "vgg-grid")}
    frame = frame_of(declared("beyond_fig3"), grids)
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
