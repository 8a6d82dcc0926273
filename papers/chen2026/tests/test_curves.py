"""Claims about training curves: tables as the paper says, against it, and undecided."""

from itertools import pairwise

import numpy as np
import pytest

from flatlab.lab.claims import verify
from flatlab.lab.tables.networks import Networks
from flatlab.papers.chen2026._curves import monotonic
from papers.chen2026.tests.cases import CLAIMS, OF_CURVES
from tests.synthetic.claim_tables import (
    AS_PUBLISHED,
    GRIDS,
    LOSS,
    MLS,
    STEPS,
    VOLUME,
    S,
    judged,
    outcomes,
    trends,
)


def grids(changes=None):
    return [trends(grid, changes) for grid in GRIDS]


@pytest.mark.parametrize(("figure", "key"), OF_CURVES)
def test_a_claim_holds_fails_or_is_undecided_as_the_curves_say(figure, key):
    against, between = OF_CURVES[figure, key]
    cases = ({}, against) if between is None else ({}, against, between)
    expected = ["holds", "fails", "undecided"][: len(cases)]
    assert outcomes(CLAIMS[f"chen{figure}"][key], grids, cases) == expected


def test_every_claim_about_curves_is_tested():
    """Those of pair plots, pretrained networks and of the text have tests of their own."""
    of_text = ("fig2/c9", "figI11/c6", "figJ12/c6")
    pairs = {f"chen{figure}" for figure in ("2026_fig4", "2026_fig5", "2024_figD5", "2024_figD6")}
    pairs |= {f"chen2026_figH{number}" for number in (7, 8, 9)}
    every = {(f, key) for f, claims in CLAIMS.items() if f not in pairs for key in claims}
    every = {(f, k) for f, k in every if f"{f[9:]}/{k.partition('-')[0]}" not in of_text}
    assert every == {(f"chen{f}", key) for f, key in OF_CURVES if f"chen{f}" not in pairs}


PLATEAUS = [("chen2026_figI10", "c2"), ("chen2026_figI11", "c2")]
PLATEAUS += [("chen2024_figE7", "c3"), ("chen2024_figE8", "c3")]


@pytest.mark.parametrize(("figure", "key"), PLATEAUS)
def test_without_a_plateau_of_sharpness_nothing_is_said_about_one(figure, key):
    """Volume may even rise: the numbers are reported."""
    verdict = judged(
        CLAIMS[figure][key], trends("mlp-grid", {S: {"ramp": -9}, VOLUME: {"ramp": 2}})
    )
    assert verdict.outcome == "not run"
    assert "no plateau of sharpness is seen in mlp-grid, lr " in verdict.reason
    assert {entry["claim"] for entry in verdict.evidence} == {"reported, not judged"}
    assert any(entry["quantity"].startswith("trend(log_volume") for entry in verdict.evidence)


def test_halves_of_interpolation_are_of_the_same_runs():
    """One that interpolates so late that a half of it has two checkpoints is in neither."""
    whole = trends("mlp-grid", seeds=7)
    late = (whole["seed"] == 0) & (whole["checkpoint"] < STEPS[-5])
    table = whole.assign({LOSS: whole[LOSS].where(~late, 1.0)})
    verdict = judged(CLAIMS["chen2026_figI10"]["c2"], table)
    assert verdict.outcome == "holds"
    assert {entry["n"] for entry in verdict.evidence} == {6}


@pytest.mark.parametrize(
    ("figure", "key"),
    [(figure, "c1-interpolation") for figure in ("chen2026_figJ12", "chen2024_fig3")],
)
def test_a_rise_from_initialization_is_not_one_in_interpolation(figure, key):
    flat = {(S, "test"): {"ramp": 0, "first": -8, "noise": 0.1}}
    changed = trends("vgg-grid", flat)
    verdict = judged(CLAIMS[figure][key], changed)
    assert verdict.outcome == "undecided"
    assert judged(CLAIMS[figure][key.removesuffix("-interpolation")], changed).outcome == "holds"


def test_runs_of_other_seeds_change_nothing():
    """They have values at the end alone."""
    whole = trends("vgg-grid", seeds=7)
    whole = whole.map(
        lambda array: array.where(
            (whole["checkpoint"] == whole["checkpoint"].max()) | (whole["seed"] < 5)
        )
    )
    five = whole.sel(run=whole["seed"].values < 5)
    for target in ("chen2026_fig3", "chen2026_figJ12"):
        before, after = (verify(target, {"vgg-grid": grid})["claims"] for grid in (five, whole))
        of_curves = [n for n, claim in enumerate(before) if "at the end" not in claim["text"]]
        assert [before[n] for n in of_curves] == [after[n] for n in of_curves]


def at_the_end(t):
    return t.isel(checkpoint=[-1])


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("figure", "key", "change", "reason"),
    [
        ("fig2", "c1", lambda t: t.sel(run=t["lr"] != 0.2), "batch size 20 has no networks"),
        ("fig2", "c3", at_the_end, "has 0 networks with root_sharpness at 3 checkpoints (I)"),
        ("fig2", "c5", at_the_end, "no checkpoint at iteration 0"),
        ("figH7", "c16", at_the_end, "no checkpoint at iteration 0"),
        ("figI10", "c2", lambda t: t.assign({LOSS: t[LOSS] + 1}), "0 networks that interpolate"),
        ("fig3", "c4", at_the_end, "no checkpoint near iteration 50,000"),
        ("fig2", "c3", lambda t: t.drop_vars(MLS), "vgg-grid has no mls"),
        ("figJ12", "c1", lambda t: t.sel(samples=["train"]), "no test samples"),
    ],
)
def test_what_was_not_computed_is_not_run_and_says_why(figure, key, change, reason):
    tables = [change(trends(grid)) for grid in AS_PUBLISHED]
    verdict = judged(CLAIMS[f"chen2026_{figure}"][key], *tables)
    assert verdict.outcome == "not run"
    assert reason in verdict.reason


def test_checkpoints_at_which_nothing_is_misclassified_are_left_out():
    changed = trends("vgg-grid", seeds=5)
    central = np.flatnonzero((changed["lr"] == 0.1) & (changed["batch_size"] == 20))
    changed[S].loc[{"samples": "misclassified"}][central, 5:20] = np.nan
    verdict = judged(CLAIMS["chen2026_figJ12"]["c2"], changed)
    assert (verdict.outcome, verdict.evidence[0]["n"]) == ("holds", 5)
    changed[S].loc[{"samples": "misclassified"}][central[:1]] = np.nan
    verdict = judged(CLAIMS["chen2026_figJ12"]["c2"], changed)
    assert verdict.outcome == "not run"
    assert "has 4 networks with root_sharpness, a mean needs 5" in verdict.reason


def test_interpolation_begins_for_each_run_on_its_own():
    """Before, the curve rises; the seeds that begin late leave that out of theirs alone."""
    changed = trends("vgg-grid")
    changed[S][:, :10] = np.arange(10.0)[:, None]
    changed[LOSS][:, :10] = 1.0
    assert judged(CLAIMS["chen2026_fig2"]["c3"], changed).outcome == "holds"
    changed[LOSS][changed["seed"].values == 0, 1:10] = 0.0
    trend = judged(CLAIMS["chen2026_fig2"]["c3"], changed).evidence[0]
    assert trend["high"] > -0.8


def test_a_sweep_may_be_of_any_hyper_parameter():
    grid = trends("vgg-grid").rename(lr="weight_decay")
    activation = np.where(grid["batch_size"].values == 20, "relu", "tanh")
    networks = Networks.of("some-grid", grid.assign_coords(activation=("run", activation)))
    relu = [networks.where(weight_decay=decay, activation="relu") for decay in (0.05, 0.1, 0.2)]
    verdict = monotonic([at.curves for at in relu], S, rising=False)
    assert verdict.outcome == "holds"
    assert [step["n"] for step in verdict.evidence] == [10, 10]
    assert "weight decay 0.05, activation relu" in verdict.evidence[0]["quantity"]


def test_batch_sizes_are_also_compared_after_equally_many_epochs():
    """Larger batches end higher; when all have seen as many samples they are higher by more."""
    last, noise = STEPS[-1], 0.05
    batches = judged(CLAIMS["chen2026_fig3"]["c1"], trends("vgg-grid"))
    assert batches.outcome == "holds"
    beside = [e for e in batches.evidence if "equal epochs" in e["quantity"]]
    assert {e["claim"] for e in beside} == {"reported, not judged"}
    of_sharpness = [e["value"] for e in beside if e["quantity"].startswith(S)]
    steps = [last, 45_000, 30_000]  # of batches of 8, 20 and 32
    falls = [-2 * step / last for step in steps]
    expected = [1 + after - before for before, after in pairwise(falls)]
    assert of_sharpness == pytest.approx(expected, abs=noise)
    late = trends("vgg-grid")
    late[LOSS][late["batch_size"].values == 32, :10] = 1.0  # until iteration 50,000
    batches = judged(CLAIMS["chen2026_fig3"]["c1"], late)
    assert batches.outcome == "holds"
    beside = [e for e in batches.evidence if "equal epochs" in e["quantity"]]
    assert [np.isfinite(e["value"]) for e in beside[:2]] == [True, False]
