"""What decides the claims of macdonald2023, figure by figure."""

import itertools
from functools import partial

import numpy as np
import pytest

from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.macdonald2023.claims import CLAIMS, NETWORKS, RATES, REGULARIZERS
from flatlab.papers.macdonald2023.claims_training import FULL_BATCH_FIGURES
from papers.macdonald2023.tests.tables import (
    FIRST_LAYER,
    GAP,
    SHARPNESS,
    SOFTMAXED,
    J,
    claim_of,
    ends,
    full_batch,
    large,
    one_pair,
    points,
    rates,
    scales,
    sgd,
    small,
    strategies,
)
from tests.synthetic.tables import judged, outcomes


def test_what_is_typical_may_be_otherwise_at_one_batch_size_and_not_at_two():
    def other_at(*sizes):
        return rates(
            {SHARPNESS: lambda c: np.where(np.isin(c["batch_size"], sizes), large(c), small(c))}
        )

    assert outcomes(CLAIMS["fig3"]["c1"], other_at(64), other_at(64, 128)) == ["holds", "fails"]


def test_four_of_five_batch_sizes_need_no_correction_for_all_choices_of_four():
    """Two times the fourth p-value: each of four alone is enough, not five times."""
    noise = np.random.default_rng(3).normal(size=5)

    def rule(c):
        return np.where(c["batch_size"] == 64, large(c), small(c) + 0.3 * noise[c["seed"]])

    verdict = judged(CLAIMS["fig3"]["c3"], rates({J: rule}))
    assert verdict.outcome == "holds"
    assert len(verdict.evidence) == 5 * 2  # each step of the rate once


def test_settings_are_fixed_and_seeds_alone_vary_by_chance():
    """A rank correlation over settings that differ, with little noise, has a narrow interval."""
    made = rates({J: lambda c: small(c) + 3 * c["noise"] * np.cos(np.arange(len(c["lr"])))})
    resnets = ResultTables({RATES: made})[RATES].where(architecture="resnet")
    tau, pool = resnets.tau("lr", J), resnets.tau("lr", J, among="pool")
    (low, high), (least, most) = tau.interval(), pool.interval()
    assert high - low < 0.05
    assert most - least > 4 * (high - low)
    lr, jacobian = resnets.column("lr"), resnets.column(J)
    signs = np.sign(np.subtract.outer(lr, lr) * np.subtract.outer(jacobian, jacobian))
    assert tau.value == pytest.approx(signs.sum() / (len(lr) * (len(lr) - 1)))
    assert pool.value == tau.value


def test_regularizers_without_effect_on_sharpness_do_not_regularize_it():
    """No correlation at all counts as none, although an interval around it contains zero."""
    made = strategies({SHARPNESS: lambda c: 5 - 10 * c["lr"] + c["noise"] - c["sam_radius"]})
    for name in ("fig5/c4", "fig23/c5"):
        assert outcomes(claim_of(name), made) == ["holds"]


@pytest.mark.parametrize("figure", NETWORKS)
def test_each_figure_is_about_its_own_networks(figure):
    grid, network = NETWORKS[figure]
    made = strategies(grid=grid)
    others = np.any([made[name].values != value for name, value in network.items()], axis=0)
    made[J].values[others] = np.nan
    alone = made.sel(run=others)
    assert outcomes(CLAIMS[figure]["c1"], made, alone) == ["holds", "not run"]


def test_a_rank_correlation_needs_25_networks_and_compares_the_same_ones():
    made = strategies()
    where = {"architecture": "vgg", "normalization": "none", "lr": 0.1}
    few = ResultTables({REGULARIZERS: made.sel(run=made["seed"].values < 1)})[REGULARIZERS]
    assert "13 networks" in few.where(**where).tau(J, GAP).reason
    made[SHARPNESS][3] = np.nan
    networks = ResultTables({REGULARIZERS: made})[REGULARIZERS].where(**where)
    taus = networks.taus((J, GAP), (SHARPNESS, GAP))
    assert [tau.n for tau in taus] == [64, 64]
    values = np.delete(np.column_stack([networks.column(name) for name in (J, GAP)]), 3, axis=0)
    pairs = list(itertools.combinations(values, 2))
    signs = [np.sign(b[0] - a[0]) * np.sign(b[1] - a[1]) for a, b in pairs]
    assert taus[0].value == pytest.approx(np.mean(signs))


points_of_relu = partial(points, "regression-relu-grid")


def test_each_figure_of_full_batches_has_its_own_networks():
    made = full_batch()
    for figure, (architecture, lr) in FULL_BATCH_FIGURES.items():
        there = (made["architecture"] == architecture) & (made["lr"] == lr)
        without = made.sel(run=~there.values)
        for other in FULL_BATCH_FIGURES:
            expected = "not run" if other == figure else "holds"
            assert outcomes(CLAIMS[other]["c1"], without) == [expected]


def test_networks_that_did_not_reach_the_accuracy_are_counted():
    counted = judged(CLAIMS["fig9"]["c1"], full_batch()).evidence[-1]
    assert (counted["value"], counted["n"]) == (0.8, 5)
    assert "99 % accuracy" in counted["quantity"]


def test_segments_below_a_bound_are_counted_and_not_judged():
    verdict = judged(CLAIMS["fig1"]["c4"], one_pair("segments_below"))
    assert verdict.outcome == "holds"
    assert [entry["violations"] for entry in verdict.evidence] == [0, 1]


def test_what_comes_after_the_first_epoch_does_not_count():
    made = sgd()
    made[SHARPNESS][-5:, 2:] = 1e4
    assert outcomes(CLAIMS["fig28"]["c2"], made) == ["holds"]


def test_smoothed_networks_keep_their_sharpness():
    assert outcomes(CLAIMS["fig29"]["c1"], ends({SHARPNESS: (0.001, 0.5, 0.02)})) == ["fails"]


def test_growth_of_both_is_relative_to_the_start():
    """Sharpness that rises to larger values does not grow more, if it starts from larger ones."""
    jacobian, sharpness, _ = CLAIMS["fig30"].values()
    starts = (0.2, 1, 2)
    lower = scales({SHARPNESS: (4, 3, 2)}, start={SHARPNESS: (2, 1, 0.5)})
    higher = scales({SHARPNESS: (2, 3, 4)}, start={SHARPNESS: starts})
    assert outcomes(sharpness, lower, higher) == ["holds", "fails"]
    turned = scales({SOFTMAXED: (2, 3, 4)}, start={SOFTMAXED: starts})
    assert outcomes(jacobian, turned) == ["holds"]


def test_increases_and_largest_values_are_reported_and_not_judged():
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


def test_each_figure_of_scales_is_about_its_activation_and_runs_that_did_not_diverge():
    for claim in CLAIMS["fig30"].values():
        assert outcomes(claim, scales(activations=["tanh"])) == ["not run"]
    spoilt = scales()
    spoilt[SOFTMAXED][0] = np.nan
    flagged = spoilt.assign_coords(diverged=("run", np.arange(spoilt.sizes["run"]) == 0))
    assert outcomes(CLAIMS["fig30"]["c1"], spoilt, flagged) == ["not run", "holds"]


def test_a_first_layer_that_is_much_smaller_is_not_alike():
    claim = CLAIMS["table2"]["c3"]
    assert outcomes(claim, points_of_relu({FIRST_LAYER: (10, 7)})) == ["fails"]
    near = points_of_relu({FIRST_LAYER: (10, 8.5)})
    entry = claim.entry("c3", ResultTables({near.attrs["experiment"]: near}))
    thresholds = [(t["threshold"], t["verdict"]) for t in entry["thresholds"]]
    assert thresholds == [(0.05, "fails"), (0.2, "holds")]
