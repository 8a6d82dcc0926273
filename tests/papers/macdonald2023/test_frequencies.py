"""The claims about eight points on synthetic tables, and the figures that are drawn of them."""

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure

from flatlab import plan, plotting
from flatlab.claims import Evidence, verify
from flatlab.papers.macdonald2023 import fig32
from flatlab.papers.macdonald2023._frequencies import (
    FIRST_LAYER,
    FREQUENCIES,
    GAUSSIAN,
    JACOBIAN,
    RELU,
    SHARPNESS,
)
from flatlab.papers.macdonald2023.claims import CLAIMS
from flatlab.plotting import table as typeset
from flatlab.plotting.quantities import FigureError

SEEDS = 10
TABLES = {GAUSSIAN: "table1", RELU: "table2"}
LIKE_THE_PAPER = {
    GAUSSIAN: {
        JACOBIAN: {"high": 327, "low": 84},
        SHARPNESS: {"high": 13500, "low": 18400},
        FIRST_LAYER: {"high": 9.1, "low": 0.56},
    },
    RELU: {
        JACOBIAN: {"high": 122, "low": 43},
        SHARPNESS: {"high": 14200, "low": 9900},
        FIRST_LAYER: {"high": 9.6, "low": 9.5},
    },
}
TURNED = {"high": 10.0, "low": 20.0}
ALIKE = {"high": 10.0, "low": 10.0}
FIGURES = ("fig32", "table1", "table2")
CASES: dict[tuple[str, str], tuple[str, str, dict[str, float], dict[str, float]]] = {
    ("fig32", "c1"): (GAUSSIAN, JACOBIAN, TURNED, ALIKE),
    ("fig32", "c2"): (RELU, JACOBIAN, TURNED, ALIKE),
    ("table1", "c1"): (GAUSSIAN, JACOBIAN, TURNED, ALIKE),
    ("table1", "c2"): (GAUSSIAN, SHARPNESS, {"high": 20, "low": 10}, ALIKE),
    ("table1", "c3"): (GAUSSIAN, FIRST_LAYER, {"high": 9, "low": 3}, {"high": 10, "low": 1}),
    ("table2", "c1"): (RELU, JACOBIAN, TURNED, ALIKE),
    ("table2", "c2"): (RELU, SHARPNESS, TURNED, ALIKE),
    ("table2", "c3"): (RELU, FIRST_LAYER, {"high": 10, "low": 13}, {"high": 10, "low": 11}),
}
"""What to put in place of a quantity for a claim to fail, and to be undecided."""


def table(grid: str, rows: dict[str, dict[str, float]], diverged: int | None = None) -> xr.Dataset:
    """Ten networks from each initialization, whose quantities are 5 % around their means."""
    frequencies = [f for f in FREQUENCIES[grid].values() for _ in range(SEEDS)]
    names = [name for name in FREQUENCIES[grid] for _ in range(SEEDS)]
    around = 1 + 0.05 * np.tile(np.linspace(-1, 1, SEEDS), 2)
    shape = ("run", "checkpoint", "samples")
    values = {
        name: np.array([means[f] for f in frequencies]) * around for name, means in rows.items()
    }
    layers = np.stack([values.pop(FIRST_LAYER), np.full(2 * SEEDS, 7.0)], axis=1)
    variables: dict[str, Any] = {n: (shape, v[:, None, None]) for n, v in values.items()}
    variables["weight_norm"] = ((*shape, "layer"), layers[:, None, None])
    line, points = np.linspace(-1, 1, 5), np.linspace(-1, 1, 3)
    for name, x in {"curve_input": line, "curve_output": line**2}.items():
        variables[name] = (("run", "checkpoint", "place"), np.tile(x, (2 * SEEDS, 1, 1)))
    for name, x in {"fitted_input": points, "fitted_target": points**2}.items():
        variables[name] = (("run", "checkpoint", "point"), np.tile(x, (2 * SEEDS, 1, 1)))
    runs = [f"{name}-s{n % SEEDS}" for n, name in enumerate(names)]
    coordinates = {
        "run": runs,
        "initialization": ("run", names),
        "setting": ("run", names),
        "seed": ("run", np.tile(np.arange(SEEDS), 2)),
        "diverged": ("run", np.arange(2 * SEEDS) == diverged),
        "checkpoint": [100],
        "samples": ["train"],
        "layer": ["fc1", "fc2"],
    }
    about: dict[str, Any] = dict.fromkeys(("experiment", "name", "extent", "network", "data"), grid)
    about |= {"scale": "paper", "stands_in_for": "", "left_out": 0}
    about |= {"evidence": "own", "differs": [], "length": "10,000 epochs"}
    about |= {"hyperparameters": ["initialization"]}
    return xr.Dataset(variables, coords=coordinates, attrs=about)


def tables(changes: dict[tuple[str, str], dict[str, float]] | None = None) -> dict[str, xr.Dataset]:
    rows = {grid: dict(quantities) for grid, quantities in LIKE_THE_PAPER.items()}
    for (grid, name), means in (changes or {}).items():
        rows[grid][name] = means
    return {grid: table(grid, quantities) for grid, quantities in rows.items()}


@pytest.mark.parametrize(("figure", "key"), CASES)
def test_a_claim_holds_fails_or_is_undecided_as_the_table_says(figure: str, key: str) -> None:
    grid, name, against, between = CASES[figure, key]
    changes = ({}, {(grid, name): against}, {(grid, name): between})
    claim = CLAIMS[figure][key]
    found = [claim.judge(Evidence(tables(change))).outcome for change in changes]
    assert found == ["holds", "fails", "undecided"]


def test_a_first_layer_that_is_much_smaller_is_not_alike() -> None:
    claim = CLAIMS["table2"]["c3"]
    changed = tables({(RELU, FIRST_LAYER): {"high": 10, "low": 7}})
    assert claim.judge(Evidence(changed)).outcome == "fails"
    entry = claim.entry("c3", Evidence(tables({(RELU, FIRST_LAYER): {"high": 10, "low": 8.5}})))
    assert [(t["threshold"], t["verdict"]) for t in entry["thresholds"]] == [
        (0.05, "fails"),
        (0.2, "holds"),
    ]


def test_every_claim_is_tested() -> None:
    assert {*CASES} == {(figure, key) for figure in FIGURES for key in CLAIMS[figure]}


@pytest.mark.parametrize("figure", ["table1", "table2"])
def test_a_table_repeats_a_claim_of_the_figure(figure: str) -> None:
    repeated = CLAIMS[figure]["c1"].repeats.partition("macdonald2023_fig32/")[2]
    assert CLAIMS[figure]["c1"].text == CLAIMS["fig32"][repeated].text


@pytest.mark.parametrize("figure", FIGURES)
def test_without_its_tables_or_a_quantity_no_claim_is_run(figure: str) -> None:
    for claim in verify(f"macdonald2023_{figure}", {})["claims"]:
        assert claim["verdict"] == "not run"
        assert "not among the tables" in claim["reason"]
    without = {grid: made.drop_vars(JACOBIAN) for grid, made in tables().items()}
    claim = verify(f"macdonald2023_{figure}", without)["claims"][0]
    assert claim["verdict"] == "not run"
    assert f"has no {JACOBIAN}" in claim["reason"]


def test_four_networks_of_a_frequency_are_too_few() -> None:
    few = {grid: made.sel(run=made["seed"].values < 4) for grid, made in tables().items()}
    assert CLAIMS["fig32"]["c1"].judge(Evidence(few)).outcome == "not run"


@pytest.mark.parametrize("grid", [GAUSSIAN, RELU])
def test_the_rows_of_a_table_are_means_and_deviations_of_the_networks_that_did_not_diverge(
    grid: str,
) -> None:
    made = table(grid, LIKE_THE_PAPER[grid], diverged=3)
    settings = settings_of(TABLES[grid])
    frame = typeset.frame(settings, {grid: made}, {}).set_index(["quantity", "initialization"])
    for name in (JACOBIAN, SHARPNESS):
        runs = made.sel(run=~made["diverged"].values)
        for start, frequency in FREQUENCIES[grid].items():
            values = runs[name].values[runs["initialization"].values == start].ravel()
            row = frame.loc[name, start]
            assert row["networks"] == len(values) == (9 if frequency == "high" else 10)
            assert row["mean"] == pytest.approx(values.mean(), rel=1e-12)
            assert row["sd"] == pytest.approx(values.std(ddof=1), rel=1e-12)
            assert values.min() < row["low"] < row["mean"] < row["high"] < values.max()


def settings_of(figure: str) -> dict[str, Any]:
    return next(f.settings for f in plan.figures() if f.target == f"macdonald2023_{figure}")


def texts(fig: Figure) -> list[str]:
    return [text.get_text() for ax in fig.axes for text in ax.texts]


def test_the_table_shows_the_numbers_of_the_csv_beside_those_of_the_paper() -> None:
    fig = Figure(figsize=(9, 3))
    settings = settings_of("table1")
    typeset.draw(fig, typeset.frame(settings, {GAUSSIAN: tables()[GAUSSIAN]}, {}), settings)
    shown = texts(fig)
    for text in ("327.0 ± 11.", "326.8 ± 182.5", "13,518 ± 3,872", "0.56 ± 0.02", "10 networks"):
        assert any(text in other for other in shown), text


def test_what_is_not_there_is_not_shown_as_a_number() -> None:
    fig = Figure(figsize=(9, 3))
    made = tables()[RELU]
    made[SHARPNESS] = made[SHARPNESS] * np.nan
    settings = settings_of("table2")
    typeset.draw(fig, typeset.frame(settings, {RELU: made}, {}), settings)
    assert texts(fig).count("not measured") == 2
    assert not any("nan" in text for text in texts(fig))


def test_a_row_of_a_quantity_that_no_table_has_is_refused_in_one_sentence() -> None:
    made = {RELU: tables()[RELU].drop_vars(SHARPNESS)}
    with pytest.raises(FigureError, match=f"^{RELU} has no quantity '{SHARPNESS}'; "):
        typeset.frame(settings_of("table2"), made, {})
    settings = settings_of("table2") | {"parts": {FIRST_LAYER: {"of": "weight_norm", "lyer": "x"}}}
    with pytest.raises(FigureError, match=r"no dimension 'lyer'; did you mean 'layer'\?"):
        typeset.frame(settings, {RELU: tables()[RELU]}, {})


def test_the_curves_are_of_the_first_networks_that_did_not_diverge() -> None:
    made = {GAUSSIAN: table(GAUSSIAN, LIKE_THE_PAPER[GAUSSIAN], diverged=0), RELU: tables()[RELU]}
    frame = fig32.frame({}, made, {})
    runs = list(dict.fromkeys(frame["run"]))
    assert runs == ["framework-s1", "low-frequency-s0", "high-frequency-s0", "framework-s0"]
    assert frame.groupby("row").size().to_dict() == {"curve": 20, "norm": 4, "point": 12}
    curves = frame[frame["row"] != "norm"]
    assert np.array_equal(curves["y"], curves["x"] ** 2)


def test_the_panels_show_the_rows_of_the_csv() -> None:
    fig, frame = Figure(figsize=(9, 6)), fig32.frame({}, tables(), {})
    fig32.draw(fig, frame, {})
    for number, ax in enumerate(fig.axes):
        curve, points = ax.lines
        head = frame["activation"] == ("Gaussian", "ReLU")[number // 2]
        head &= frame["frequency"] == ("high", "low")[number % 2]
        for line, row in ((curve, "curve"), (points, "point")):
            expected = frame[head & (frame["row"] == row)][["x", "y"]].to_numpy()
            assert np.array_equal(line.get_xydata(), expected)


def test_a_figure_without_any_network_says_so() -> None:
    none = {g: t.assign_coords(diverged=t["diverged"] | True) for g, t in tables().items()}
    fig, frame = Figure(figsize=(9, 6)), fig32.frame({}, none, {})
    fig32.draw(fig, frame, {})
    assert frame.empty
    assert [ax.get_title(loc="right") for ax in fig.axes] == ["no network"] * 4


@pytest.mark.parametrize("figure", FIGURES)
def test_each_is_made_from_its_grids_in_every_format(figure: str) -> None:
    settings = settings_of(figure)
    files = plotting.make(settings, {key: tables()[key] for key in settings["experiments"]}, {})
    assert set(files) == {"csv", "pdf", "svg", "png"}
    assert len(pd.read_csv(io.BytesIO(files["csv"]))) > 5
