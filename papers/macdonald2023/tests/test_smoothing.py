"""What decides the claims of macdonald2023 on smoothed labels, scales of inputs, frequencies."""

from __future__ import annotations

from functools import partial

import numpy as np

from flatlab.lab.claims import ResultTables
from flatlab.papers.macdonald2023.claims import CLAIMS
from flatlab.papers.macdonald2023.claims_smoothing import FULL_BATCH_FIGURES
from papers.macdonald2023.tests.tables import (
    FIRST_LAYER,
    SHARPNESS,
    SOFTMAXED,
    ends,
    full_batch,
    one_pair,
    points,
    scales,
    sgd,
)
from tests.synthetic.tables import judged, outcomes

points_of_relu = partial(points, "regression-relu-grid")


def test_each_figure_of_full_batches_has_its_own_networks() -> None:
    made = full_batch()
    for figure, (architecture, lr) in FULL_BATCH_FIGURES.items():
        there = (made["architecture"] == architecture) & (made["lr"] == lr)
        without = made.sel(run=~there.values)
        for other in FULL_BATCH_FIGURES:
            expected = "not run" if other == figure else "holds"
            assert outcomes(CLAIMS[other]["c1"], without) == [expected]


def test_networks_that_did_not_reach_the_accuracy_are_counted() -> None:
    counted = judged(CLAIMS["fig9"]["c1"], full_batch()).evidence[-1]
    assert (counted["value"], counted["n"]) == (0.8, 5)
    assert "99 % accuracy" in counted["quantity"]


def test_segments_below_a_bound_are_counted_and_not_judged() -> None:
    verdict = judged(CLAIMS["fig1"]["c4"], one_pair("segments_below"))
    assert verdict.outcome == "holds"
    assert [entry["violations"] for entry in verdict.evidence] == [0, 1]


def test_what_comes_after_the_first_epoch_does_not_count() -> None:
    made = sgd()
    made[SHARPNESS][-5:, 2:] = 1e4
    assert outcomes(CLAIMS["fig28"]["c2"], made) == ["holds"]


def test_smoothed_networks_keep_their_sharpness() -> None:
    assert outcomes(CLAIMS["fig29"]["c1"], ends({SHARPNESS: (0.001, 0.5, 0.02)})) == ["fails"]


def test_growth_of_both_is_relative_to_the_start() -> None:
    """Sharpness that rises to larger values does not grow more, if it starts from larger ones."""
    jacobian, sharpness, _ = CLAIMS["fig30"].values()
    starts = (0.2, 1, 2)
    lower = scales({SHARPNESS: (4, 3, 2)}, start={SHARPNESS: (2, 1, 0.5)})
    higher = scales({SHARPNESS: (2, 3, 4)}, start={SHARPNESS: starts})
    assert outcomes(sharpness, lower, higher) == ["holds", "fails"]
    turned = scales({SOFTMAXED: (2, 3, 4)}, start={SOFTMAXED: starts})
    assert outcomes(jacobian, turned) == ["holds"]


def test_increases_and_largest_values_are_reported_and_not_judged() -> None:
    """Both rise with the scale, although the growth falls."""
    made = scales({SHARPNESS: (2, 4, 6)}, start={SHARPNESS: (0.2, 1, 2)})
    made["hessian_converged"][3, 2] = 0
    verdict = judged(CLAIMS["fig30"]["c2"], made)
    assert verdict.outcome == "fails"
    names = [e["quantity"].split("(")[0] for e in verdict.evidence if e["claim"] == "> 0"]
    assert names == ["growth of lambda_max"] * 2
    *reported, converged = verdict.evidence[2:]
    assert {e["quantity"].split("(")[0] for e in reported} == {
        "increase of lambda_max",
        "max lambda_max",
    }
    assert all(entry["low"] > 0 for entry in reported)
    assert (converged["violations"], converged["of"]) == (1, 252)


def test_each_figure_of_scales_is_about_its_activation_and_runs_that_did_not_diverge() -> None:
    for claim in CLAIMS["fig30"].values():
        assert outcomes(claim, scales(activations=["tanh"])) == ["not run"]
    spoilt = scales()
    spoilt[SOFTMAXED][0] = np.nan
    flagged = spoilt.assign_coords(diverged=("run", np.arange(spoilt.sizes["run"]) == 0))
    assert outcomes(CLAIMS["fig30"]["c1"], spoilt, flagged) == ["not run", "holds"]


def test_a_first_layer_that_is_much_smaller_is_not_alike() -> None:
    claim = CLAIMS["table2"]["c3"]
    assert outcomes(claim, points_of_relu({FIRST_LAYER: (10, 7)})) == ["fails"]
    near = points_of_relu({FIRST_LAYER: (10, 8.5)})
    entry = claim.entry("c3", ResultTables({near.attrs["experiment"]: near}))
    thresholds = [(t["threshold"], t["verdict"]) for t in entry["thresholds"]]
    assert thresholds == [(0.05, "fails"), (0.2, "holds")]
