"""Trend figures and the figures over all grids: what is drawn is what the table says.

The tables of these tests look like those of real grids: training curves, layers, sample sets.
"""

from __future__ import annotations

import io

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure

from flatlab import plan, plotting
from flatlab.papers.beyond import fig1, fig3
from flatlab.plotting import curves, forest, scatter, style, words
from flatlab.plotting.quantities import FigureError
from flatlab.plotting.spread import log_spaced, spread
from flatlab.tables.correlations import correlate
from flatlab.tables.selection import end_of_training, interpolation_begins, through_training

mpl.use("Agg")
CHEN2026 = ("test_accuracy", "nmls", "root_sharpness", "log_volume", "mls", "local_dimension")
CHEN2024 = ("train_loss", "test_accuracy", "root_sharpness", "log_volume", "g", "local_dimension")
ON_TEST = ("train_loss", "test_loss", "root_sharpness", "log_volume", "g", "local_dimension")
THOROUGH = {"chen2026_fig4", "chen2026_figJ12", "beyond_fig1", "beyond_fig2"}
"""Made twice in all formats; the others share their code."""

SETTINGS = {
    "lr0.05-b20": (0.05, 20),
    "lr0.1-b20": (0.1, 20),
    "lr0.2-b20": (0.2, 20),
    "lr0.1-b8": (0.1, 8),
    "lr0.1-b32": (0.1, 32),
}
NETWORKS = {
    "mlp-grid": ("mlp (width 64)", "digits", "mlp on fashion-mnist", 4, 0),
    "vgg-grid": ("vgg (hidden 32-32)", "digits-2", "vgg on cifar10", 7, 5),
    "lenet-grid": ("lenet5 (kernel 3)", "digits-2", "lenet5 on cifar10", 5, 2),
}
"""Network, data, what it stands in for, layers, and how many of these are convolutions."""
SAMPLES = ("train", "test", "misclassified")
NORMS = ("kernel", "operator", "frobenius")
BOUNDS = ("b", "c", "d", "nmls", "nmls-layerwise")
LOG_SPACED = (0, *np.unique(np.geomspace(1, 12_000, 40).astype(int)))
EVEN = tuple(range(0, 150_001, 5_000))


def table(
    grid: str = "vgg-grid",
    seeds: int = 6,
    checkpoints: tuple[int, ...] = LOG_SPACED,
    dense: int = 5,
    samples: tuple[str, ...] = SAMPLES,
) -> xr.Dataset:
    """Five settings; the seeds below `dense` at all checkpoints, the others at the last one."""
    generator = np.random.default_rng(0)
    network, data, stands_in_for, layers, convolutions = NETWORKS[grid]
    settings = [key for key in SETTINGS for _ in range(seeds)]
    lr, batch = (np.array([SETTINGS[s][n] for s in settings]) for n in (0, 1))
    runs, last = len(settings), checkpoints[-1]

    def noise(*shape: int, scale: float = 0.04) -> np.ndarray:
        of_run = generator.normal(0, 2 * scale, (runs, *[1] * (len(shape) + 1)))
        return np.exp(of_run + generator.normal(0, scale, (runs, len(checkpoints), *shape)))

    sets, s = np.array([1.0, 1.15, 2.2][: len(samples)]), len(samples)
    progress = lr[:, None] / np.sqrt(batch / 20)[:, None] * np.array(checkpoints) / (0.1 * last)
    loss = 0.5 / (1 + (progress * 60) ** 1.1) * noise()
    heat = (lr / batch)[:, None] * np.ones_like(progress)
    rise = (
        1 + 3 * np.tanh(progress * 12) * (1 - 0.5 * np.tanh(progress * 0.6)) * (0.005 / heat) ** 0.2
    )
    root = 2.0 * rise[..., None] * sets * noise(s)
    mls = 0.2 * rise[..., None] ** 1.2 * sets * noise(s)
    log_volume = 4 * np.log(mls) - progress[..., None] + generator.normal(0, 0.4, mls.shape)
    dimension = 1 + 1.0 / (1 + progress[..., None]) * noise(s)
    depth = np.arange(layers)
    by_layer = 0.3 * np.exp(-0.15 * depth) * rise[..., None, None] * noise(s, layers)
    by_layer[..., :convolutions] *= 4
    weights = np.exp(0.1 * depth) * (1 + progress[..., None, None] * 0.1) * noise(s, layers)
    d = mls * 5 * noise(s, scale=0.08) / heat[..., None] ** 0.3
    norms = np.array([1.0, 1.4, 3.0])[:, None] * np.array([0.5, 0.7, 1.0, 3.0, 2.0])
    one, each, per_layer = ("run", "checkpoint"), "samples", "layer"
    accuracy = 100 - 50 * np.exp(-12 * progress)
    variables = {
        "train_loss": (one, loss),
        "test_loss": (one, (loss + 0.02 + 0.01 * np.tanh(progress)) * noise()),
        "train_accuracy": (one, accuracy),
        "test_accuracy": (one, accuracy - generator.normal(4, 0.5, loss.shape)),
        "generalization_gap": (one, generator.normal(4, 0.5, loss.shape)),
        "sharpness": ((*one, each), root**2),
        "root_sharpness": ((*one, each), root),
        "mls": ((*one, each), mls),
        "nmls": ((*one, each), mls * layers * noise(s)),
        "g": ((*one, each), 1.3 * mls**2 * noise(s)),
        "log_volume": ((*one, each), log_volume),
        "log_volume_of_three": ((*one, each), log_volume / 2),
        "local_dimension": ((*one, each), dimension),
        "bound_a": ((*one, each), mls),
        "bound_b": ((*one, each), mls * 2.2),
        "bound_c": ((*one, each), mls * 2.5 * noise(s)),
        "bound_d": ((*one, each), d),
        "nmls_bound": ((*one, each), mls * layers * 9 * noise(s, scale=0.1)),
        "samples_measured": ((*one, each), np.full(root.shape, 100.0)),
        "mls_per_layer": ((*one, each, per_layer), by_layer),
        "layer_bound": ((*one, each, per_layer), weights),
        "relative_flatness": ((*one, each, per_layer), weights * root[..., None]),
        "shared": ((*one, each, per_layer), (depth < convolutions) * np.ones_like(weights)),
        "violations": (
            (*one, each, "norm", per_layer),
            (depth < convolutions) * 20.0 * np.ones((runs, len(checkpoints), s, 3, 1)),
        ),
        "bound_by_norm": (
            (*one, each, "norm", "bound"),
            d[..., None, None] * norms * noise(s, 3, 5, scale=0.05),
        ),
    }
    seed = np.tile(np.arange(seeds), len(SETTINGS))
    coordinates = {
        "run": [f"{s}-s{n}" for s, n in zip(settings, seed, strict=True)],
        "setting": ("run", settings),
        "seed": ("run", seed),
        "lr": ("run", lr),
        "batch_size": ("run", batch),
        "diverged": ("run", np.zeros(runs, dtype=bool)),
        "checkpoint": list(checkpoints),
        "samples": list(samples),
        "layer": [
            f"conv{n + 1}" if n < convolutions else f"fc{n + 1 - convolutions}" for n in depth
        ],
        "norm": list(NORMS),
        "bound": list(BOUNDS),
    }
    about = {
        "scale": "demo",
        "experiment": grid,
        "name": grid,
        "extent": f"{runs} {network} networks on {data}",
        "network": network,
        "data": data,
        "length": f"{last:,} iterations",
        "stands_in_for": stands_in_for,
        "evidence": "reduced",
        "left_out": 0,
        "hyperparameters": ["lr", "batch_size"],
    }
    made = xr.Dataset(variables, coords=coordinates, attrs=about)
    made["relative_flatness"] = made["relative_flatness"].where(made["shared"] == 0)
    if "misclassified" in samples:
        wrong = np.ones((runs, len(checkpoints)), dtype=bool)
        late = np.array(checkpoints) > 0.3 * last
        wrong[:, late] = generator.random((runs, late.sum())) < 0.7
        wrong[:, -3:-2] = False  # a checkpoint where no network gets anything wrong
        there = xr.DataArray(wrong, dims=one) | (made["samples"] != "misclassified")
        for name, array in made.data_vars.items():
            if each in array.dims:
                made[name] = array.where(there)
    kept = (made["seed"] < dense) | (made["checkpoint"] == last)
    return made.where(kept).assign_coords(diverged=made["diverged"])


@pytest.fixture(scope="module")
def tables() -> dict[str, xr.Dataset]:
    made = {grid: table(grid) for grid in NETWORKS}
    made["vgg-grid"]["diverged"][1] = True
    made["vgg-grid"]["bound_by_norm"].loc[{"norm": "operator"}] = np.nan  # costly: nobody asked
    return made


@pytest.fixture(scope="module")
def correlations(tables: dict[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    return {grid: correlate(table) for grid, table in tables.items()}


def drawn(frame: pd.DataFrame, panels: dict[str, str], **options: str) -> Figure:
    fig = Figure(figsize=(11, 7), layout="constrained")
    curves.draw_panels(fig, frame, panels, **options)
    fig.draw_without_rendering()
    return fig


def titles(names: tuple[str, ...]) -> dict[str, str]:
    """Panels of one quantity each."""
    return {name: words.title_of(name) for name in names}


def declared(target: str) -> dict:
    """What a figure's template is given."""
    return next(figure.settings for figure in plan.figures() if figure.target == target)


def curves_of(ax) -> list:
    """The lines that show rows of the frame, without the vertical marks."""
    return [line for line in ax.lines if line.get_marker() != "None"]


def runs_of(ax) -> list:
    """The thin lines, one per run."""
    return [line for line in ax.lines if line.get_marker() == "None" and line.get_lw() < 0.5]


# Selections


def test_all_runs_end_alike_where_only_some_were_kept_densely() -> None:
    runs = table(checkpoints=EVEN)
    expected = runs["mls"].sel(samples="train").isel(checkpoint=-1)
    np.testing.assert_array_equal(end_of_training(runs)["mls"], expected)


def test_the_end_is_the_last_twentieth_of_the_iterations_however_checkpoints_are_spaced() -> None:
    steps = (0, 500, 900, 949, 960, 1000)
    runs = table(checkpoints=steps, dense=6)
    expected = runs["mls"].sel(samples="train", checkpoint=[960, 1000]).mean("checkpoint")
    np.testing.assert_allclose(end_of_training(runs)["mls"], expected)


def test_a_run_that_was_trained_for_less_ends_at_its_own_last_checkpoint() -> None:
    runs = table(checkpoints=(0, 500, 1000), dense=6)
    short = runs["lr"] == 0.05
    runs = runs.where(~short | (runs["checkpoint"] <= 500)).assign_coords(diverged=runs["diverged"])
    end, train = end_of_training(runs)["mls"], runs["mls"].sel(samples="train")
    np.testing.assert_array_equal(end[short.values], train.sel(checkpoint=500)[short.values])
    np.testing.assert_array_equal(end[~short.values], train.sel(checkpoint=1000)[~short.values])


def test_a_table_without_a_run_that_did_not_diverge_has_an_empty_end() -> None:
    runs = table(seeds=2, checkpoints=(0, 10))
    assert end_of_training(runs.assign_coords(diverged=~runs["diverged"])).sizes["run"] == 0


def test_trends_are_of_the_first_five_seeds_that_did_not_diverge(tables) -> None:
    chosen = through_training(tables["vgg-grid"], {"batch_size": 20, "lr": 0.05})
    assert list(chosen["seed"].values) == [0, 2, 3, 4]
    assert set(chosen["setting"].values) == {"lr0.05-b20"}


def test_interpolation_begins_where_the_mean_loss_over_the_seeds_is_below_a_hundredth() -> None:
    loss = xr.DataArray(
        [[0.5, 0.011, 0.005, 0.02], [0.5, 0.005, 0.014, 0.001]],
        dims=("run", "checkpoint"),
        coords={"checkpoint": [0, 10, 20, 30]},
    )
    assert interpolation_begins(loss) == 10
    assert interpolation_begins(loss[1:]) == 10
    assert interpolation_begins(loss[:1]) == 20
    assert np.isnan(interpolation_begins(loss + 1))


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


# What a trend figure shows


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


# What must not stop a drawing


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


# The figures of the package


def test_every_quantity_of_a_figure_has_a_name_to_print() -> None:
    shown = {"curves": words.TITLES, "pairs": words.LABELS, "scatter": words.TITLES}
    for settings in (figure.settings for figure in plan.figures()):
        names = {
            *settings.get("quantities", ()),
            *(name for pair in settings.get("pairs", []) for name in pair),
        }
        if settings.get("line") == "quantity":
            assert names <= {*style.BOUNDS}
        elif settings["template"] in shown:
            assert names <= {*shown[settings["template"]], *settings.get("titles", ())}
    assert {*style.SAMPLES, *style.BOUNDS} == {*words.NAMES}


@pytest.mark.parametrize("figure", plan.figures(), ids=lambda figure: figure.target)
def test_every_figure_is_made_and_its_csv_holds_its_frame(
    figure, tables, correlations, monkeypatch
) -> None:
    """In every format, and again to the same bytes, where a figure's code is not another's."""
    if any(key not in tables for key in figure.experiments):
        pytest.skip("of an experiment that these tests have no table of")
    settings = figure.settings
    if settings["template"] == "pairs":
        settings["quantities"] = settings["quantities"][:3]  # nine by nine take long
    shown = {key: tables[key] for key in figure.experiments}
    given = [settings, shown, {key: correlations[key] for key in figure.correlated}]
    thorough = figure.target in THOROUGH
    with monkeypatch.context() as only:
        only.setattr(plotting, "FORMATS", plotting.FORMATS if thorough else ("svg",))
        files = plotting.make(*given)
        assert set(files) == {"csv", *plotting.FORMATS}
        if thorough:
            assert plotting.make(*given) == files
    back = pd.read_csv(io.BytesIO(files["csv"]), keep_default_na=False, na_values=[""])
    frame = plotting.template_of(settings).frame(*given).replace("", np.nan)
    pd.testing.assert_frame_equal(back, frame, check_dtype=False)


def test_figures_of_all_grids_show_each_of_them(tables, correlations) -> None:
    """Sensitivity against its bounds: the points and correlations of the tables."""
    settings = declared("chen2026_fig4")
    frame = scatter.frame(settings, tables, correlations)
    fig = Figure(figsize=(11, 7), layout="constrained")
    scatter.draw(fig, frame, settings)
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
    assert words.headings({**tables, "d": xr.Dataset(attrs=about)}) == {
        "a": "perceptron and LeNet-5 on images of digits",
        "b": "VGG on images of digits (b)",
        "c": "VGG on images of digits (c)",
        "d": "sweep on images of digits",
    }


def test_conventions_are_correlations_of_the_end_of_training(tables, correlations) -> None:
    settings = declared("beyond_fig2")
    frame = forest.frame(settings, tables, {}).set_index(["experiment", "kind", "x", "y"])
    titles = words.headings(tables)
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
    forest.draw(fig, frame.reset_index(), settings)
    assert [text.get_text() for text in fig.axes[1].texts] == ["undefined"]
    dots = [
        x for line in fig.axes[0].lines if line.get_marker() != "None" for x in line.get_xdata()
    ]
    values = frame.loc[titles["mlp-grid"]]["rho"]
    assert sorted(dots) == pytest.approx(sorted(values))


def test_correlations_through_training_are_those_of_each_checkpoint(tables) -> None:
    grids = {grid: tables[grid] for grid in ("mlp-grid", "vgg-grid")}
    frame = fig3.frame({}, grids, {})
    for grid, runs in grids.items():
        chosen = through_training(runs).sel(samples="train")
        about = words.headings(grids)[grid]
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
    assert words.networks_of(keys) == "VGG and ResNet on CIFAR-10"
