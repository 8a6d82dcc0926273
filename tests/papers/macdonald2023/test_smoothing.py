"""The claims about smoothed labels on synthetic curves."""

from typing import Any

import numpy as np
import pytest
import xarray as xr

from flatlab.claims import Evidence, verify
from flatlab.papers.macdonald2023.claims import CLAIMS
from flatlab.papers.macdonald2023.claims_smoothing import FULL_BATCH, FULL_BATCH_FIGURES, SGD

J, SHARPNESS, OUTPUTS = "softmax_jacobian_norm", "hessian_lambda_max", "output_norm"
SMOOTHINGS, SEEDS = (0.0, 0.5, 0.75), 5
STEPS = np.arange(0, 101, 10)
STOPPED = 60
"""The step at which the networks with unsmoothed labels stop."""

TIME = np.linspace(0, 1, 91)
LEVELS: dict[str, tuple[float, float, float]] = {J: (9, 6, 3), SHARPNESS: (30, 20, 10)}
"""The largest value of a quantity by smoothing, with which the claims hold."""

OTHERWISE = {"fails": (1.0, 2.0, 3.0), "undecided": (2.0, 2.0, 2.0)}


def table(grid: str, variables: dict[str, Any], **coordinates: Any) -> xr.Dataset:
    dims = ("run", "checkpoint", "samples")
    runs = len(coordinates["seed"])
    shape = next(iter(variables.values())).shape
    variables = {"hessian_converged": np.ones(shape), **variables}
    return xr.Dataset(
        {name: (dims, values[..., None]) for name, values in variables.items()},
        {
            "samples": ["train"],
            "run": [f"r{n}" for n in range(runs)],
            "checkpoint": STEPS if shape[1] == len(STEPS) else np.arange(shape[1]) * 10,
            **{name: ("run", values) for name, values in coordinates.items()},
            "diverged": ("run", np.zeros(runs, bool)),
        },
        {
            **{"experiment": grid, "evidence": "own", "differs": []},
            "hyperparameters": [n for n in coordinates if n not in ("seed", "steps", "ended")],
        },
    )


def full_batch(
    levels: dict[str, tuple[float, ...]] | None = None, start: float = 2.0
) -> xr.Dataset:
    """All quantities rise to their levels until the unsmoothed networks stop, and on from there."""
    settings = [
        (architecture, lr, smoothing, seed)
        for architecture in ("vgg", "resnet")
        for lr in (0.08, 0.04, 0.02)
        for smoothing in SMOOTHINGS
        for seed in range(SEEDS)
    ]
    architecture, lr, smoothing, seed = map(np.array, zip(*settings, strict=True))
    place = np.searchsorted(SMOOTHINGS, smoothing)
    values = {}
    for name, of_name in (LEVELS | (levels or {})).items():
        level = np.array(of_name)[place] * (1 + 0.02 * (seed - 2))
        rise = np.minimum(STEPS / STOPPED, 1)
        curve = start + (level[:, None] - start) * rise
        # smoothed networks are trained on, which no claim looks at
        values[name] = np.where((STEPS > STOPPED) & (smoothing > 0)[:, None], 1e3, curve)
    shape = values[J].shape
    bound = {"pairs_below": np.zeros(shape), "segments_below": np.zeros(shape)}
    coordinates = {"architecture": architecture, "lr": lr, "label_smoothing": smoothing}
    steps = np.where(smoothing == 0, STOPPED, STEPS[-1])
    coordinates["ended"] = np.where((smoothing == 0) & (seed > 0), "stopped", "finished")
    return table(FULL_BATCH, {**values, **bound}, **coordinates, seed=seed, steps=steps)


def sgd(levels: dict[str, tuple[float, ...]] | None = None, **ends: Any) -> xr.Dataset:
    """Curves that reach their level in the first epoch.  ends: by quantity, for each smoothing."""
    ends = {SHARPNESS: (0.001, 0.5, 0.5), J: (0.01, 0.5, 0.5), OUTPUTS: (9.0, 2.0, 1.5)} | ends
    levels = {**LEVELS, OUTPUTS: (1.0, 1.0, 1.0)} | (levels or {})
    smoothing, seed = np.repeat(SMOOTHINGS, SEEDS), np.tile(np.arange(SEEDS), 3)
    place = np.searchsorted(SMOOTHINGS, smoothing)
    noise = 1 + 0.02 * (seed - 2)
    values = {}
    for name, of_name in levels.items():
        level = np.array(of_name)[place] * noise
        share = np.array(ends[name])[place] * noise
        way = TIME if name == OUTPUTS else np.minimum(TIME / 0.9, 1)
        values[name] = level[:, None] * (1 + (share[:, None] - 1) * way)
    return table(SGD, values, label_smoothing=smoothing, seed=seed, steps=np.full(len(seed), 900))


def outcome(figure: str, key: str, made: xr.Dataset) -> str:
    return CLAIMS[figure][key].judge(Evidence({made.attrs["experiment"]: made})).outcome


@pytest.mark.parametrize("figure", ["fig1", *FULL_BATCH_FIGURES])
def test_the_largest_values_fall_with_the_smoothing_as_long_as_all_are_trained(figure: str) -> None:
    for key, name in (("c1", J), ("c2", SHARPNESS)):
        assert outcome(figure, key, full_batch()) == "holds"
        for verdict, levels in OTHERWISE.items():
            assert outcome(figure, key, full_batch({name: levels}, start=0.1)) == verdict


def test_each_figure_has_its_own_networks() -> None:
    made = full_batch()
    for figure, (architecture, lr) in FULL_BATCH_FIGURES.items():
        there = (made["architecture"] == architecture) & (made["lr"] == lr)
        without = made.sel(run=~there.values)
        claims = {other: outcome(other, "c1", without) for other in FULL_BATCH_FIGURES}
        assert claims == dict.fromkeys(FULL_BATCH_FIGURES, "holds") | {figure: "not run"}


def test_networks_that_did_not_reach_the_accuracy_are_counted() -> None:
    claim = verify("macdonald2023_fig9", {FULL_BATCH: full_batch()})["claims"][0]
    counted = claim["evidence"][-1]
    assert (counted["value"], counted["n"]) == (0.8, 5)
    assert "99 % accuracy" in counted["quantity"]


def test_sharpness_grows_progressively() -> None:
    assert outcome("fig1", "c3", full_batch()) == "holds"
    assert outcome("fig1", "c3", full_batch(start=25.0)) == "fails"
    assert outcome("fig1", "c3", full_batch(start=15.0)) == "undecided"


def test_one_pair_below_its_bound_is_too_many() -> None:
    made = full_batch()
    assert outcome("fig1", "c4", made) == "holds"
    assert outcome("fig1", "c4", made.drop_vars("pairs_below")) == "not run"
    made["segments_below"][0, 0] = 1
    found = verify("macdonald2023_fig1", {FULL_BATCH: made})["claims"][3]
    assert found["verdict"] == "holds"
    assert [entry["violations"] for entry in found["evidence"]] == [0, 1]
    made["pairs_below"][4, 2] = 1
    assert outcome("fig1", "c4", made) == "fails"


@pytest.mark.parametrize(("key", "name"), [("c1", J), ("c2", SHARPNESS)])
def test_the_first_epoch_shows_the_same(key: str, name: str) -> None:
    first = {J: (0.5,) * 3, SHARPNESS: (0.5,) * 3}
    assert outcome("fig28", key, sgd(**first)) == "holds"
    for verdict, levels in OTHERWISE.items():
        assert outcome("fig28", key, sgd({name: levels}, **first)) == verdict


def test_what_comes_after_the_first_epoch_does_not_count() -> None:
    made = sgd()
    made[SHARPNESS][-SEEDS:, 2:] = 1e4
    assert outcome("fig28", "c2", made) == "holds"


CASES: dict[str, dict[str, dict[str, tuple[float, float, float]]]] = {
    "c1": {"fails": {SHARPNESS: (0.5, 0.5, 0.5)}, "undecided": {SHARPNESS: (0.01, 0.5, 0.5)}},
    "c2": {"fails": {OUTPUTS: (0.5, 2.0, 1.5)}, "undecided": {OUTPUTS: (2.0, 2.0, 1.5)}},
    "c3": {"fails": {J: (0.5, 0.5, 0.5)}, "undecided": {J: (0.1, 0.5, 0.5)}},
}


@pytest.mark.parametrize("key", CASES)
def test_sharpness_collapses_without_smoothing_as_outputs_grow(key: str) -> None:
    assert outcome("fig29", key, sgd()) == "holds"
    for verdict, ends in CASES[key].items():
        assert outcome("fig29", key, sgd(**ends)) == verdict


def test_smoothed_networks_keep_their_sharpness() -> None:
    assert outcome("fig29", "c1", sgd(**{SHARPNESS: (0.001, 0.5, 0.02)})) == "fails"


@pytest.mark.parametrize(("figure", "key"), [("fig1", "c2"), ("fig1", "c3"), ("fig29", "c1")])
def test_sharpness_that_did_not_converge_decides_nothing(figure: str, key: str) -> None:
    made = full_batch() if figure == "fig1" else sgd()
    made["hessian_converged"][:, 3] = 0
    claim = CLAIMS[figure][key].entry("name", Evidence({made.attrs["experiment"]: made}))
    assert claim["verdict"] == "not run"
    assert "of the eigenvalues (hessian)" in claim["reason"]
    assert outcome("fig1", "c1", full_batch()) == "holds"


@pytest.mark.parametrize("figure", ["fig1", "fig6", "fig11", "fig28", "fig29"])
def test_four_networks_are_too_few(figure: str) -> None:
    for key in (key for key in CLAIMS[figure] if key != "c4"):
        made = full_batch() if figure not in ("fig28", "fig29") else sgd()
        few = made.sel(run=made["seed"].values < 4)
        assert outcome(figure, key, few) == "not run"
