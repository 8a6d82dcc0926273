"""Claims about training curves on synthetic tables: as the paper says, against it, undecided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import xarray as xr

from flatlab.claims import Claim, Evidence, verify
from flatlab.claims.curves import monotonic
from flatlab.papers.chen2026.claims import CLAIMS
from flatlab.stats import Verdict

S, MLS, NMLS, VOLUME, G = "root_sharpness", "mls", "nmls", "log_volume", "g"
DIMENSION, ACCURACY, LOSS = "local_dimension", "test_accuracy", "train_loss"
SETTINGS = [(0.05, 20), (0.1, 20), (0.2, 20), (0.1, 8), (0.1, 32)]
SAMPLES = ["train", "test", "misclassified"]
STEPS = np.arange(24) * 5_000
TIME = STEPS / STEPS[-1]
INTERPOLATES = 4  # from the checkpoint of this number on
SPREAD = np.linspace(-1, 1, 5)  # of the seeds, whose mean it does not move


@dataclass(frozen=True)
class Curve:
    """level + lr, batch (per step of the setting) + offset, mixed, ... (times the seed's spread).

    Of time in [0, 1]: ramp t, wave sin(10 pi t), decay exp(-4 t); mixed spreads the ramp, blurred
    the wave; first is added at iteration 0, and first_mixed spreads it.
    """

    level: float = 20.0
    lr: float = 0.0
    batch: float = 0.0
    offset: float = 0.0
    ramp: float = 0.0
    mixed: float = 0.0
    wave: float = 0.0
    blurred: float = 0.0
    decay: float = 0.0
    first: float = 0.0
    first_mixed: float = 0.0

    def values(self, lr: float, batch_size: int, noise: np.random.Generator) -> np.ndarray:
        """(seeds, checkpoints)."""
        d = SPREAD[:, None]
        level = self.level + self.lr * np.log2(lr / 0.1) + self.offset * d
        level = level + self.batch * {8: -1, 20: 0, 32: 1}[batch_size]
        curves = level + (self.ramp + self.mixed * d) * TIME + self.decay * np.exp(-4 * TIME)
        curves = curves + (self.wave + self.blurred * d) * np.sin(10 * np.pi * TIME)
        curves[:, 0] += self.first + self.first_mixed * SPREAD
        return curves + 1e-3 * noise.normal(size=curves.shape)


FALLS = Curve(lr=-1, batch=1, ramp=-2)
PLATEAU = Curve(lr=-1, batch=1, decay=3, wave=0.6)
RISES = Curve(ramp=2)
BOUNDS = {
    f"bound_{letter}": Curve(level=level)
    for letter, level in zip("abcd", (1, 2, 3, 9), strict=True)
}
COMMON = {
    DIMENSION: Curve(wave=1, first=5),
    ACCURACY: Curve(level=90, lr=-1, batch=1),
    LOSS: Curve(level=0.005),  # and 1 before interpolation
    **BOUNDS,
    **{(name, "test"): RISES for name in (S, MLS, NMLS, G)},
    **{(name, "misclassified"): replace(RISES, level=25) for name in (S, MLS, NMLS, G)},
    (VOLUME, "test"): Curve(ramp=-2),
    (VOLUME, "misclassified"): Curve(level=25, ramp=-2),
}
AS_PUBLISHED: dict[str, dict[Any, Curve]] = {
    "vgg-grid": {
        **dict.fromkeys((S, MLS, NMLS, G), FALLS),
        VOLUME: replace(FALLS, wave=0.3),
        **COMMON,
    },
    "mlp-grid": {
        **dict.fromkeys((S, MLS, NMLS, G), PLATEAU),
        VOLUME: replace(PLATEAU, wave=0),
        **COMMON,
    },
}


def table(grid: str, changes: Mapping[Any, Mapping[str, float]] | None = None) -> xr.Dataset:
    """Five settings with five seeds; changes: quantity, or (quantity, samples) -> of its curve."""
    noise = np.random.default_rng(0)
    curves = dict(AS_PUBLISHED[grid])
    for name, change in (changes or {}).items():
        curves[name] = replace(curves[name], **change)
    variables = {}
    for name in sorted({key if isinstance(key, str) else key[0] for key in curves}):

        def of(curve: Curve) -> np.ndarray:
            return np.concatenate([curve.values(*setting, noise) for setting in SETTINGS])

        if name in (ACCURACY, LOSS):
            variables[name] = (("run", "checkpoint"), of(curves[name]))
        else:
            stack = [of(curves.get((name, samples), curves[name])) for samples in SAMPLES]
            variables[name] = (("run", "checkpoint", "samples"), np.stack(stack, axis=2))
    variables[LOSS][1][:, :INTERPOLATES] = 1.0
    lr, batch_size = (np.repeat(column, 5) for column in zip(*SETTINGS, strict=True))
    names = [f"lr{a:g}-b{b}" for a, b in zip(lr, batch_size, strict=True)]
    coordinates = {
        "run": [f"{name}-s{n % 5}" for n, name in enumerate(names)],
        "setting": ("run", names),
        "seed": ("run", np.tile(np.arange(5), 5)),
        "lr": ("run", lr),
        "batch_size": ("run", batch_size),
        "diverged": ("run", np.zeros(25, dtype=bool)),
        "checkpoint": STEPS,
        "samples": SAMPLES,
    }
    return xr.Dataset(variables, coords=coordinates, attrs={"scale": "demo"})


def judged(figure: str, key: str, tables: Mapping[str, xr.Dataset]) -> Verdict:
    """The verdict on one claim of chen2026."""
    return CLAIMS[figure][key].judge(Evidence(tables))


def outcomes(claim: Claim, cases: tuple) -> list[str]:
    """The verdicts on one claim, of tables with these changes."""
    grids = [{grid: table(grid, changes) for grid in AS_PUBLISHED} for changes in cases]
    return [claim.judge(Evidence(tables)).outcome for tables in grids]


# (figure, claim) -> changes for which it fails, and those for which it is undecided; None where it
# cannot be. Without changes it holds.
SPREAD_OUT, TURNED, MIXED = {"offset": 10}, {"lr": 1, "batch": -1}, {"ramp": 0.1, "mixed": 5}
BLURRED = {"wave": 0.3, "blurred": 2}
CASES: dict[tuple[str, str], tuple[dict, dict | None]] = {
    ("fig2", "c1"): ({S: TURNED}, {S: SPREAD_OUT}),
    ("fig2", "c2"): ({VOLUME: TURNED}, {NMLS: SPREAD_OUT}),
    ("fig2", "c3"): ({VOLUME: {"ramp": 2}}, {MLS: MIXED}),
    ("fig2", "c4"): ({MLS: {"wave": 3}, VOLUME: {"wave": 0}}, {MLS: BLURRED}),
    ("fig2", "c5"): ({DIMENSION: {"first": -5}}, {DIMENSION: {"first": 0, "first_mixed": 5}}),
    ("fig2", "c6"): (
        {DIMENSION: {"ramp": -2, "wave": 0}, MLS: {"wave": 3}},
        {DIMENSION: {"ramp": -2, "wave": 0.3}, MLS: BLURRED},
    ),
    ("fig2", "c7"): ({ACCURACY: TURNED}, {ACCURACY: SPREAD_OUT}),
    ("fig3", "c1"): ({S: TURNED}, {S: SPREAD_OUT}),
    ("fig3", "c2"): ({MLS: TURNED}, {VOLUME: SPREAD_OUT}),
    ("fig3", "c3"): ({S: {"ramp": 2}}, {NMLS: MIXED}),
    ("fig3", "c4"): ({S: {"level": 5}}, {VOLUME: MIXED}),
    ("figH6", "c1"): ({"bound_c": {"level": 1.5}}, None),  # a theorem
    ("figH6", "c2"): ({"bound_c": {"level": 8.5}}, {"bound_d": SPREAD_OUT}),
    ("figI10", "c1"): ({MLS: {"decay": -3, "wave": -0.6}}, {NMLS: MIXED}),
    ("figI10", "c2"): ({S: {"wave": 0}}, {VOLUME: MIXED}),
    ("figI10", "c3"): ({S: TURNED}, {S: SPREAD_OUT}),
    ("figI10", "c4"): ({ACCURACY: TURNED}, {ACCURACY: SPREAD_OUT}),
    ("figI11", "c1"): ({NMLS: {"decay": -3, "wave": -0.6}}, {MLS: MIXED}),
    ("figI11", "c2"): ({VOLUME: {"ramp": 2}}, {VOLUME: MIXED}),
    ("figI11", "c3"): ({S: TURNED}, {S: SPREAD_OUT}),
    ("figI11", "c4"): ({ACCURACY: TURNED}, {ACCURACY: SPREAD_OUT}),
    ("figJ12", "c1"): ({(S, "test"): {"ramp": -2}}, {(S, "test"): MIXED}),
    ("figJ12", "c2"): ({(S, "misclassified"): {"level": 15}}, {(S, "misclassified"): SPREAD_OUT}),
    ("figJ12", "c3"): ({(MLS, "test"): {"ramp": -2}}, {(MLS, "test"): MIXED}),
    ("figJ12", "c4"): ({(VOLUME, "test"): {"ramp": 2}}, {(VOLUME, "test"): MIXED}),
    ("figJ12", "c5"): (
        {(VOLUME, "misclassified"): {"level": 15}},
        {(VOLUME, "misclassified"): SPREAD_OUT},
    ),
}


@pytest.mark.parametrize(("figure", "key"), CASES)
def test_a_claim_holds_fails_or_is_undecided_as_the_curves_say(figure: str, key: str) -> None:
    against, between = CASES[figure, key]
    cases = ({}, against) if between is None else ({}, against, between)
    expected = ["holds", "fails", "undecided"][: len(cases)]
    assert outcomes(CLAIMS[figure][key], cases) == expected


def test_every_claim_about_curves_is_tested() -> None:
    figures = ("fig2", "fig3", "figH6", "figI10", "figI11", "figJ12")
    assert {(figure, key) for figure in figures for key in CLAIMS[figure]} == {*CASES}


def test_evidence_says_what_was_compared_and_of_how_many_runs() -> None:
    result = verify("chen2026_fig2", {grid: table(grid) for grid in AS_PUBLISHED})
    for claim in result["claims"]:
        for entry in claim["evidence"]:
            assert {"quantity", "claim", "value", "low", "high", "n"} == {*entry}
            assert entry["n"] in (5, 10, 15)  # a line, two of them, all


def test_runs_of_other_seeds_change_nothing() -> None:
    """They have values at the end alone."""
    whole = table("vgg-grid")
    others = whole.copy(deep=True).assign_coords(
        seed=("run", whole["seed"].values + 5), run=[f"{run}-more" for run in whole["run"].values]
    )
    for name in others:
        others[name][:, :-1] = np.nan
    both = xr.concat([whole, others], "run")
    for target in ("chen2026_fig3", "chen2026_figJ12"):
        before, after = (verify(target, {"vgg-grid": grid})["claims"] for grid in (whole, both))
        assert before == after


def _without_a_setting(t: xr.Dataset) -> xr.Dataset:
    return t.sel(run=t["lr"].values != 0.2)


def _one_seed(t: xr.Dataset) -> xr.Dataset:
    return t.sel(run=t["seed"].values == 0)


def _only_the_end(t: xr.Dataset) -> xr.Dataset:
    return t.isel(checkpoint=[-1])


def _never_interpolating(t: xr.Dataset) -> xr.Dataset:
    return t.assign({LOSS: t[LOSS] + 1})


@pytest.mark.parametrize(
    ("figure", "key", "change", "reason"),
    [
        ("fig2", "c1", _without_a_setting, "lr 0.2, batch size 20 has no runs"),
        ("fig2", "c1", _one_seed, "1 runs with root_sharpness, an interval needs 2"),
        ("fig2", "c3", _one_seed, "an interval needs 2"),
        ("fig2", "c3", _never_interpolating, "0 runs (of 5) with a training loss below"),
        ("fig2", "c3", _only_the_end, "1 checkpoints (I), a trend needs"),
        ("fig2", "c5", _only_the_end, "no checkpoint at iteration 0"),
        ("fig3", "c4", _only_the_end, "no checkpoint near iteration 50,000"),
        ("fig2", "c3", lambda t: t.drop_vars(MLS), "vgg-grid has no mls"),
        ("figJ12", "c1", lambda t: t.sel(samples=["train"]), "no test samples"),
    ],
)
def test_what_was_not_computed_is_not_run_and_says_why(
    figure: str, key: str, change: Any, reason: str
) -> None:
    verdict = judged(figure, key, {"vgg-grid": change(table("vgg-grid"))})
    assert verdict.outcome == "not run"
    assert reason in verdict.reason


@pytest.mark.parametrize("figure", ["fig2", "fig4", "figH6", "figI10", "figJ12"])
def test_without_its_tables_no_claim_of_a_figure_is_run(figure: str) -> None:
    for claim in verify(f"chen2026_{figure}", {})["claims"]:
        assert claim["verdict"] == "not run"
        assert "grid is not among the tables" in claim["reason"]


def test_a_part_that_fails_decides_although_another_is_not_run() -> None:
    changed = table("vgg-grid", {VOLUME: {"ramp": 2}}).drop_vars(MLS)
    assert judged("fig2", "c3", {"vgg-grid": changed}).outcome == "fails"


def test_diverged_runs_are_left_out_and_runs_that_never_interpolate_of_i() -> None:
    changed = table("vgg-grid")
    changed["diverged"][0] = True
    changed[S][0] = np.nan
    changed[LOSS][1] = 1.0
    verdict = judged("fig2", "c3", {"vgg-grid": changed})
    assert verdict.outcome == "holds"
    assert {entry["n"] for entry in verdict.evidence} == {3, 5}
    first = judged("fig2", "c1", {"vgg-grid": changed}).evidence[0]
    assert first["n"] == 9  # diverged: out; not interpolating: at the end, too


def test_checkpoints_at_which_nothing_is_misclassified_are_left_out() -> None:
    changed = table("vgg-grid")
    changed[S].loc[{"samples": "misclassified"}][6:9, 3:20] = np.nan
    verdict = judged("figJ12", "c2", {"vgg-grid": changed})
    assert (verdict.outcome, verdict.evidence[0]["n"]) == ("holds", 5)
    changed[S].loc[{"samples": "misclassified"}][6:9] = np.nan
    verdict = judged("figJ12", "c2", {"vgg-grid": changed})
    assert (verdict.outcome, verdict.evidence[0]["n"]) == ("holds", 2)


def test_i_begins_when_the_last_run_interpolates() -> None:
    """Before, the curve rises; a run that begins late keeps that out for all."""
    changed = table("vgg-grid")
    changed[S][:, :10] = np.arange(10.0)[:, None]
    changed[LOSS][::5, :10] = 1.0  # one seed of each setting
    assert judged("fig2", "c3", {"vgg-grid": changed}).outcome == "holds"
    changed[LOSS][::5, 1:10] = 0.0
    trend = judged("fig2", "c3", {"vgg-grid": changed}).evidence[0]
    assert trend["value"] > -1


def test_a_sweep_may_be_of_any_hyper_parameter() -> None:
    grid = table("vgg-grid").rename(lr="weight_decay")
    activation = np.where(grid["batch_size"].values == 20, "relu", "tanh")
    evidence = Evidence({"some-grid": grid.assign_coords(activation=("run", activation))})
    sweep = [{"weight_decay": decay, "activation": "relu"} for decay in (0.05, 0.1, 0.2)]
    verdict = monotonic(evidence, "some-grid", sweep, S, rising=False)
    assert verdict.outcome == "holds"
    *steps, tau = verdict.evidence
    assert tau["quantity"] == f"tau-a(weight decay, {S}); some-grid"
    assert (tau["n"], [step["n"] for step in steps]) == (15, [10, 10])
    assert "weight decay 0.05, activation relu" in steps[0]["quantity"]
