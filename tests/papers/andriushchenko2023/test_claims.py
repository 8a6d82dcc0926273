"""The claims about linear models on synthetic tables, and the figures that are drawn of them."""

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure
from scipy.stats import kendalltau

from flatlab import plan, plotting
from flatlab.claims import Evidence, verify
from flatlab.papers.andriushchenko2023 import fig1, fig7
from flatlab.papers.andriushchenko2023._networks import NETWORKS, fitted, not_fitted
from flatlab.papers.andriushchenko2023.claims import CLAIMS
from flatlab.plotting import lines, points

SCALES = ["none", "balanced", "printed", "elementwise"]
ABOUT = {
    "scale": "paper",
    "name": "some-grid",
    "extent": "so many",
    "network": "some",
    "data": "made-up",
    "length": "a while",
    "stands_in_for": "",
    "evidence": "own",
    "differs": [],
    "left_out": 0,
    "hyperparameters": ["initialization"],
}
GRIDS = {"fig1": "linear-grid", "fig7": "dln-grid"}


def outcome(figure: str, key: str, table: xr.Dataset | None) -> str:
    claim = CLAIMS[figure][key]
    return claim.judge(Evidence({GRIDS[figure]: table} if table is not None else {})).outcome


def diagonal(
    runs: int = 80,
    error: float = 0.02,
    rescaled: float = 0.33,
    plain: float = 2.0,
    eigenvalue: float = -2.0,
    stopped: int | None = None,
) -> xr.Dataset:
    """Networks whose trace is twice their norm up to an error. The noise of their logarithms is
    `rescaled` around the test loss, `plain` in the trace as it is; the largest eigenvalue goes as
    the trace to that power, with noise as large. Both scales alike.
    """
    generator = np.random.default_rng(1)
    test, a, b, c = generator.normal(size=(4, runs))
    trace = np.exp(test + rescaled * a)
    largest = np.exp(eigenvalue * np.log(trace) + c)
    end = np.stack([np.exp(test + plain * b), trace, trace, trace], axis=1)
    both = np.stack([np.ones((runs, 4)), end], axis=1)
    eigenvalues = np.repeat(largest[:, None, None], 4, axis=2).repeat(2, axis=1)
    norm = trace / 2 / (1 + error * generator.choice([0.9, 1.1], size=runs))
    shape = ("run", "checkpoint", "samples")
    start = np.exp(generator.normal(size=runs))
    both[:, 0, 0] = start
    variables: dict[str, Any] = {
        "rescaled_trace": ((*shape, "scales"), both[:, :, None]),
        "rescaled_lambda_max": ((*shape, "scales"), eigenvalues[:, :, None]),
        "coefficients_norm_1": (shape, np.stack([norm, norm], axis=1)[:, :, None]),
        "test_loss": (("run", "checkpoint"), np.exp(np.stack([test, test], axis=1))),
    }
    ended = np.where(
        np.arange(runs) < (runs if stopped is None else stopped), "stopped", "finished"
    )
    coordinates = {
        "run": [f"s{n}" for n in range(runs)],
        "seed": ("run", np.arange(runs)),
        "setting": ("run", ["framework"] * runs),
        "initialization": ("run", ["framework"] * runs),
        "lr": ("run", np.exp(generator.normal(size=runs))),
        "ended": ("run", ended),
        "diverged": ("run", np.zeros(runs, dtype=bool)),
        "checkpoint": [0, 100],
        "samples": ["train"],
        "scales": SCALES,
    }
    return xr.Dataset(variables, coords=coordinates, attrs={**ABOUT, "experiment": "dln-grid"})


LARGE_ERROR, ERROR_AT_THE_LIMIT = diagonal(error=0.3), diagonal(runs=26, error=0.1)
CASES_7 = {
    "c1": (diagonal(), LARGE_ERROR, ERROR_AT_THE_LIMIT),
    "c2": (diagonal(), diagonal(rescaled=2, plain=0.5), diagonal(runs=27, rescaled=1, plain=1)),
    "c3": (diagonal(), diagonal(eigenvalue=2), diagonal(eigenvalue=0)),
    "c4": (diagonal(), diagonal(rescaled=3), diagonal(runs=27, rescaled=0.5)),
}
"""Tables in which a claim of Figure 7 holds, fails and is undecided."""


@pytest.mark.parametrize("ending", ["", "-printed"])
@pytest.mark.parametrize("key", CASES_7)
def test_a_claim_of_figure_7_holds_fails_or_is_undecided(key: str, ending: str) -> None:
    found = [outcome("fig7", f"{key}{ending}", table) for table in CASES_7[key]]
    assert found == ["holds", "fails", "undecided"]


@pytest.mark.parametrize("ending", ["", "-printed"])
def test_each_variant_is_judged_by_its_own_scales(ending: str) -> None:
    """The other one says the opposite."""
    own = "printed" if ending else "balanced"
    mixed, opposite = diagonal(), diagonal(rescaled=3, error=0.3, eigenvalue=2)
    for name in ("rescaled_trace", "rescaled_lambda_max"):
        mixed[name] = mixed[name].where(mixed["scales"].isin([own, "none"]), opposite[name])
    for key in CASES_7:
        assert outcome("fig7", f"{key}{ending}", mixed) == "holds", key


def test_a_test_loss_that_the_trace_tells_too_well_is_not_what_the_paper_says() -> None:
    assert outcome("fig7", "c4", diagonal(rescaled=0.05)) == "fails"


def test_what_is_printed_is_not_compared_with_other_networks_and_data() -> None:
    claim = CLAIMS["fig7"]["c4"]
    for kind, expected in (("own", "holds"), ("reduced", "holds"), ("stand-in", "not run")):
        table = diagonal().assign_attrs(evidence=kind)
        assert claim.judge(Evidence({"dln-grid": table})).outcome == expected


def test_the_verdict_on_about_0_8_depends_on_what_is_about() -> None:
    entry = CLAIMS["fig7"]["c4"].entry("c4", Evidence({"dln-grid": diagonal(runs=200)}))
    assert entry["verdict"] == "holds"
    assert [t["threshold"] for t in entry["thresholds"]] == [0.05, 0.2]
    assert entry["thresholds"][1]["verdict"] == "holds"


def test_one_of_seven_groups_that_is_hardly_reverse_is_not_enough() -> None:
    """Its own interval lies below zero, but it is the best of seven."""
    table = diagonal(eigenvalue=-0.2, runs=78)
    verdict = CLAIMS["fig7"]["c3"].judge(Evidence({"dln-grid": table}))
    groups = [entry for entry in verdict.evidence if entry["claim"] == "< 0"]
    assert len(groups) == 7
    assert any(entry["high"] < 0 for entry in groups)
    assert verdict.outcome == "undecided"


def test_a_third_of_the_networks_may_be_reverse() -> None:
    """By learning rate: the eigenvalue falls with the trace for the smallest rates alone."""
    table = diagonal(eigenvalue=2)
    smallest = table["lr"] <= np.quantile(table["lr"], 1 / 3)
    falling = 1 / table["rescaled_trace"]
    table["rescaled_lambda_max"] = table["rescaled_lambda_max"].where(~smallest, falling)
    table["rescaled_lambda_max"] = table["rescaled_lambda_max"].transpose(*falling.dims)
    assert outcome("fig7", "c3", table) == "holds"


def test_networks_that_do_not_fit_are_left_out_counted_and_too_few_are_not_judged() -> None:
    table = diagonal(runs=90, stopped=70)
    assert len(fitted(table)) == 70
    assert not_fitted(table) == 20
    claims = verify("andriushchenko2023_fig7", {"dln-grid": table})["claims"]
    counts = [entry for entry in claims[0]["evidence"] if "did not reach" in entry["quantity"]]
    assert [(entry["value"], entry["n"]) for entry in counts] == [(20, 70)]
    (claim, *_) = verify("andriushchenko2023_fig7", {"dln-grid": diagonal(stopped=5)})["claims"]
    assert claim["verdict"] == "not run"
    assert "5 networks that fit" in claim["reason"]


def test_of_many_networks_the_first_two_hundred_are_taken() -> None:
    table = diagonal(runs=NETWORKS + 30)
    shuffled = table.isel(run=np.random.default_rng(0).permutation(NETWORKS + 30))
    networks = fitted(shuffled)
    assert networks["seed"].tolist() == list(range(NETWORKS))
    at = table.isel(run=7, checkpoint=-1, samples=0)
    row = networks.iloc[7]
    assert row["trace_printed"] == float(at["rescaled_trace"].sel(scales="printed"))
    assert row["test_loss"] == float(at["test_loss"])
    assert row["initial_trace"] == float(table["rescaled_trace"][7, 0, 0, 0])


def test_what_is_not_finite_is_left_out_of_its_correlation_alone() -> None:
    table = diagonal(runs=150)
    table["rescaled_trace"][3:6, 1, 0, 2] = np.inf
    frame = fig7.frame({}, {"dln-grid": table}, {}).set_index("panel")
    taus = frame[frame["row"] == "tau"]
    assert taus["networks"].to_dict() == {
        panel: 147 if panel == "printed" else 150 for panel in fig7.PANELS
    }
    assert outcome("fig7", "c4-printed", table) == "holds"


def linear(
    peak: float = 1.0,
    floor: float = 0.0,
    tail: float = 0.0,
    normalized: float = 0.0,
    error: float = 0.0,
    rise: float = 0.0,
    noise: float = 0.0,
) -> xr.Dataset:
    """Five classifiers: sharpness is a bump over the factors, on a floor, with a value at the end;
    through training it falls, but for a rise at the end.
    """
    generator = np.random.default_rng(0)
    factors = np.logspace(-10, 10, 30, base=2)
    curve = floor + peak * np.exp(-((np.log2(factors) + 2) ** 2) / 4)
    curve[-1] += tail
    runs, steps = 5, [0, 1, 10, 100]
    around = 1 + noise * generator.normal(size=(runs, 1, 1, 1))
    plain = curve * around * np.array([1.0, 2.0, 3.0])[:, None] * np.ones((runs, 3, 1, 1))
    other = np.full_like(plain, 0.5)
    other[..., -1] += normalized
    scaled = np.stack([plain, other], axis=2)  # run, neighbourhood, logits, radius, factor
    training = np.array([0.1, 1.0, 0.5, 0.2])
    last = rise * (1 + noise * generator.normal(size=runs))
    falling = np.tile(training, (runs, 1))
    falling[:, -1] += last
    errors = np.zeros((runs, 4))
    errors[:, 0], errors[:, -1] = 80.0, error
    shape = ("run", "checkpoint", "samples")
    dims = (*shape, "neighbourhood", "logits", "radius")
    whole = falling[:, :, None, None, None, None] * np.ones((3, 2, 3))
    variables: dict[str, Any] = {
        "worst_sharpness": (dims, whole),
        "scaled_worst_sharpness": ((*dims, "factor"), np.stack([scaled] * 4, axis=1)[:, :, None]),
        "weight_factor": ((*shape, "factor"), np.tile(factors, (runs, 4, 1, 1))),
        "classification_error": (shape, errors[..., None]),
        "train_loss": (("run", "checkpoint"), falling),
    }
    coordinates = {
        "run": [f"s{n}" for n in range(runs)],
        "seed": ("run", np.arange(runs)),
        "setting": ("run", ["framework"] * runs),
        "initialization": ("run", ["framework"] * runs),
        "diverged": ("run", np.zeros(runs, dtype=bool)),
        "checkpoint": steps,
        "samples": ["train"],
        "neighbourhood": ["ball", "adaptive-l2", "adaptive-linf"],
        "logits": ["plain", "normalized"],
        "radius": ["0.1", "0.25", "0.5"],
    }
    return xr.Dataset(variables, coords=coordinates, attrs={**ABOUT, "experiment": "linear-grid"})


def some_floor() -> xr.Dataset:
    """Runs that disagree on whether sharpness varies by ten."""
    return xr.concat(
        [linear().isel(run=[0, 1]), linear(floor=0.12).isel(run=[2, 3, 4])], "run", join="exact"
    )


def some_tail() -> xr.Dataset:
    """One run of five whose sharpness does not vanish."""
    parts = [linear().isel(run=[0, 1, 2, 3]), linear(tail=0.5).isel(run=[4])]
    return xr.concat(parts, "run", join="exact")


def some_rise() -> xr.Dataset:
    return xr.concat(
        [linear().isel(run=[0, 1]), linear(rise=0.9).isel(run=[2, 3, 4])], "run", join="exact"
    )


CASES_1: dict[str, tuple[xr.Dataset, xr.Dataset, xr.Dataset | None]] = {
    "c1": (linear(), linear(error=2.0), None),
    "c2": (linear(), linear(floor=0.3), some_floor()),
    "c3": (linear(), linear(tail=0.5), some_tail()),
    "c4": (linear(), linear(normalized=0.1), None),
    "c5": (linear(), linear(rise=0.5), some_rise()),
}
"""Theorems are never undecided: one value that violates them is enough."""


@pytest.mark.parametrize("key", CASES_1)
def test_a_claim_of_figure_1_holds_fails_or_is_undecided(key: str) -> None:
    for table, expected in zip(CASES_1[key], ("holds", "fails", "undecided"), strict=True):
        if table is not None:
            assert outcome("fig1", key, table) == expected


def test_the_values_of_the_notebook_stand_beside_ours() -> None:
    table = linear()
    claims = verify("andriushchenko2023_fig1", {"linear-grid": table})["claims"]
    told = [entry for entry in claims[1]["evidence"] if "notebook" in entry["quantity"]]
    assert [entry["quantity"].split("notebook: ")[1] for entry in told] == ["0.1379", "0.0208"]
    curve = table["scaled_worst_sharpness"].sel(neighbourhood="ball", logits="plain", radius="0.5")
    expected = curve.isel(run=0, checkpoint=-1, samples=0, factor=[10, 15]).values
    assert [entry["value"] for entry in told] == pytest.approx(expected.tolist())


@pytest.mark.parametrize("figure", GRIDS)
def test_without_its_table_no_claim_is_run(figure: str) -> None:
    for claim in verify(f"andriushchenko2023_{figure}", {})["claims"]:
        assert claim["verdict"] == "not run"
        assert "not among the tables" in claim["reason"]


def test_every_claim_is_tested() -> None:
    assert {*CLAIMS["fig1"]} == {*CASES_1}
    of_diagonal = {f"{key}{ending}" for key in CASES_7 for ending in ("", "-printed")}
    assert {*CLAIMS["fig7"]} == of_diagonal


def declared(key: str) -> dict[str, Any]:
    target = f"andriushchenko2023_{key}"
    return next(figure.settings for figure in plan.figures() if figure.target == target)


def test_the_panels_of_figure_7_show_the_networks_and_taus_of_the_csv() -> None:
    frame = fig7.frame({}, {"dln-grid": diagonal(stopped=60)}, {})
    fig = Figure(figsize=(11, 7), layout="constrained")
    points.draw(fig, frame, declared("fig7"))
    for ax, panel in zip(fig.axes, fig7.PANELS, strict=False):
        runs = frame[(frame["panel"] == panel) & (frame["row"] == "run")]
        row = frame[(frame["panel"] == panel) & (frame["row"] == "tau")].iloc[0]
        np.testing.assert_array_equal(ax.collections[0].get_offsets(), runs[["x", "y"]])
        pairs = 60 * 59 / 2  # and one that counts zero
        tau = kendalltau(runs["x"], runs["y"]).statistic * pairs / (pairs + 1)
        assert row["tau"] == pytest.approx(tau)
        if panel != "norm":  # a correlation of 1 lies at the end of what it can be
            assert row["low"] < row["tau"] < row["high"]
        assert f"= {row['tau']:.2f}".replace("-", "−") in ax.get_title(loc="left")
    label = fig.axes[-1].get_ylabel()
    assert "60 networks; 20 more did not reach the training loss" in label


def test_the_lines_of_figure_1_are_means_of_the_runs_that_did_not_diverge() -> None:
    table = linear(noise=0.3)
    table["diverged"][2] = True
    frame = fig1.frame({}, {"linear-grid": table}, {})
    assert (frame["networks"] == 4).all()
    kept = table.isel(run=[0, 1, 3, 4], samples=0)
    line = frame[(frame["panel"] == "adaptive-l2") & (frame["line"] == "0.25")]
    values = (
        kept["scaled_worst_sharpness"]
        .isel(checkpoint=-1)
        .sel(neighbourhood="adaptive-l2", logits="plain", radius="0.25")
    )
    np.testing.assert_allclose(line["mean"], values.mean("run"))
    np.testing.assert_array_equal(line["least"], values.min("run"))
    np.testing.assert_array_equal(line["largest"], values.max("run"))
    training = frame[(frame["panel"] == "training") & (frame["line"] == "loss")]
    np.testing.assert_allclose(training["mean"], kept["train_loss"].mean("run"))
    fig = Figure(figsize=(11, 7), layout="constrained")
    lines.draw(fig, frame, declared("fig1"))
    for ax, (_, panel) in zip(fig.axes, frame.groupby("panel", sort=False), strict=True):
        drawn = [line.get_xydata() for line in ax.lines if len(line.get_xdata()) > 2]
        rows = [part[part["x"] > 0][["x", "mean"]] for _, part in panel.groupby("line")]
        assert len(drawn) == len(rows)
        for row in rows:
            assert any(np.array_equal(row, line) for line in drawn)


@pytest.mark.parametrize(("figure", "make"), [("fig1", linear), ("fig7", diagonal)])
def test_each_figure_is_made_and_also_of_no_network_at_all(figure: str, make: Any) -> None:
    table = make()
    grid = GRIDS[figure]
    settings = declared(figure)
    files = plotting.make(settings, {grid: table}, {})
    assert set(files) == {"csv", "pdf", "svg", "png"}
    assert len(pd.read_csv(io.BytesIO(files["csv"]))) > 100
    none = table.assign_coords(diverged=table["diverged"] | True)
    if "ended" in none.coords:
        none["ended"] = none["ended"].copy(data=np.full(none.sizes["run"], "diverged"))
    template = lines if figure == "fig1" else points
    fig = Figure(figsize=(11, 7), layout="constrained")
    template.draw(fig, plotting.frame_of(settings, {grid: none}, {}), settings)
    fig.draw_without_rendering()
