"""The claims of macdonald2023 on synthetic tables: holding, failing, undecided."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import xarray as xr

from flatlab.claims import ResultTables
from flatlab.papers.macdonald2023.claims import CLAIMS
from flatlab.papers.macdonald2023.claims_rates import HUNDRED as RATES_100
from flatlab.papers.macdonald2023.claims_rates import TEN as RATES
from flatlab.papers.macdonald2023.claims_regularizers import HUNDRED as REGULARIZERS_100
from flatlab.papers.macdonald2023.claims_regularizers import NETWORKS
from flatlab.papers.macdonald2023.claims_regularizers import TEN as REGULARIZERS
from flatlab.papers.macdonald2023.claims_smoothing import FULL_BATCH_FIGURES
from tests.synthetic.macdonald2023 import (
    FEATURES,
    FIRST_LAYER,
    GAP,
    GAUSS_NEWTON,
    LOSS,
    OUTPUTS,
    SHARPNESS,
    SOFTMAXED,
    J,
    against,
    all_regularize,
    decays,
    full_batch,
    large,
    mixed,
    only_sam,
    points,
    random,
    rates,
    scales,
    seeds_alone,
    sgd,
    small,
    strategies,
)
from tests.synthetic.tables import Columns, judged, outcomes

Make = Callable[[Any], xr.Dataset]
LARGE = dict.fromkeys((SHARPNESS, GAP, J), large)
ALIKE = dict.fromkeys((SHARPNESS, GAP, J), seeds_alone)
TURNED, LEVEL = (1.0, 2.0, 3.0), (2.0, 2.0, 2.0)
GAUSSIAN, RELU = (partial(points, f"regression-{name}-grid") for name in ("gaussian", "relu"))
low_start = partial(full_batch, start=0.1)
first_epoch = partial(sgd, ends={SOFTMAXED: (0.5,) * 3, SHARPNESS: (0.5,) * 3})


def ends(shares: Any) -> xr.Dataset:
    return sgd(ends=shares)


def one_pair(of: Any) -> xr.Dataset:
    made = full_batch()
    if of:
        made[of][4, 2] = 1
    return made


def rises(c: Columns) -> np.ndarray:
    return 1 + 1e3 * c["weight_decay"] + c["noise"]


def falls(c: Columns) -> np.ndarray:
    return 20 - 1e4 * c["weight_decay"] + c["noise"]


def near_limit(c: Columns) -> np.ndarray:
    return 0.01 + 0.1 * c["noise"]


def one_sharper(c: Columns) -> np.ndarray:
    return only_sam(c) * np.where((c["seed"] == 4) & (c["lr"] == 0.1), 2, 1)


CASES: dict[str, tuple[Make, Any, Any, Any]] = {
    # rates: how a claim holds, fails and is undecided
    "fig3/c1": (rates, {}, LARGE, ALIKE),
    "fig3/c2": (rates, {}, {J: large}, {J: mixed}),
    "fig3/c3": (rates, {}, {J: large}, {J: seeds_alone}),
    "fig4/c1": (rates, {}, LARGE, {J: mixed}),
    "fig4/c2": (rates, {}, {J: small}, {J: mixed}),
    **{
        f"fig{number}/{key}": (partial(rates, grid=(RATES, RATES_100)[number % 2]), {}, *others)
        for number in range(12, 20)
        for key, *others in (("c1", LARGE, {GAP: mixed}), ("c2", {J: large}, {J: mixed}))
    },
    "fig17/c3": (partial(rates, grid=RATES_100), {}, {J: small}, {J: mixed}),
    "fig18/c3": (rates, {}, {J: large}, {J: mixed}),
    "fig19/c3": (partial(rates, grid=RATES_100), {}, {J: large}, {J: mixed}),
    # weight decay
    "fig2/c1": (decays, {}, {GAP: rises}, {GAP: seeds_alone}),
    "fig2/c2": (decays, {}, {SHARPNESS: falls}, {SHARPNESS: seeds_alone}),
    "fig2/c3": (decays, {}, {J: rises}, {J: seeds_alone}),
    "fig2/c4": (decays, {}, {GAP: rises}, {GAP: seeds_alone}),
    "fig2/c5": (decays, {}, {LOSS: lambda c: 0.1 + c["noise"]}, {LOSS: near_limit}),
    # regularizers; two random orders are not the same one
    "fig5/c1": (
        strategies,
        {},
        {J: against, SHARPNESS: all_regularize},
        {J: random, SHARPNESS: random},
    ),
    "fig5/c2": (strategies, {}, {J: against}, {J: random}),
    "fig5/c3": (strategies, {}, {SHARPNESS: against}, {SHARPNESS: random}),
    "fig5/c4": (strategies, {}, {SHARPNESS: all_regularize}, {SHARPNESS: random}),
    **{
        f"{figure}/{key}": (partial(strategies, grid=grid), {}, *others)
        for figure, (grid, _) in NETWORKS.items()
        for key, *others in (
            ("c1", {J: against}, {J: random}),
            ("c2", {J: against, SHARPNESS: all_regularize}, {SHARPNESS: all_regularize}),
            ("c3", {GAUSS_NEWTON: lambda c: 1.2 * only_sam(c)}, {GAUSS_NEWTON: one_sharper}),
            ("c4", {SHARPNESS: against}, {SHARPNESS: random}),
            ("c5", {J: against}, {J: random}),
        )
    },
    # smoothed labels
    **{
        f"{figure}/{key}": (low_start, {}, {name: TURNED}, {name: LEVEL})
        for figure in ("fig1", *FULL_BATCH_FIGURES)
        for key, name in (("c1", SOFTMAXED), ("c2", SHARPNESS))
    },
    "fig1/c3": (lambda start: full_batch(start=start), 2.0, 25.0, 15.0),
    "fig1/c4": (one_pair, "", "pairs_below", None),
    "fig28/c1": (first_epoch, {}, {SOFTMAXED: TURNED}, {SOFTMAXED: LEVEL}),
    "fig28/c2": (first_epoch, {}, {SHARPNESS: TURNED}, {SHARPNESS: LEVEL}),
    "fig29/c1": (ends, {}, {SHARPNESS: (0.5, 0.5, 0.5)}, {SHARPNESS: (0.01, 0.5, 0.5)}),
    "fig29/c2": (ends, {}, {OUTPUTS: (0.5, 2.0, 1.5)}, {OUTPUTS: (2.0, 2.0, 1.5)}),
    "fig29/c3": (ends, {}, {SOFTMAXED: (0.5, 0.5, 0.5)}, {SOFTMAXED: (0.1, 0.5, 0.5)}),
    # scales of the inputs
    **{
        f"{figure}/{key}": (scales, {}, {name: fails}, {name: undecided})
        for figure in ("fig30", "fig31")
        for key, name, fails, undecided in (
            ("c1", SOFTMAXED, (3, 6, 9), (6, 6, 3)),
            ("c2", SHARPNESS, (2, 4, 3), (2, 2, 4)),
            ("c3", FEATURES, (30, 20, 40), (20, 30, 30)),
        )
    },
    # eight points: means of networks of high and of low frequency
    **dict.fromkeys(("fig32/c1", "table1/c1"), (GAUSSIAN, {}, {J: (10, 20)}, {J: (10, 10)})),
    **dict.fromkeys(("fig32/c2", "table2/c1"), (RELU, {}, {J: (10, 20)}, {J: (10, 10)})),
    "table1/c2": (GAUSSIAN, {}, {SHARPNESS: (20, 10)}, {SHARPNESS: (10, 10)}),
    "table1/c3": (GAUSSIAN, {}, {FIRST_LAYER: (9, 3)}, {FIRST_LAYER: (10, 1)}),
    "table2/c2": (RELU, {}, {SHARPNESS: (10, 20)}, {SHARPNESS: (10, 10)}),
    "table2/c3": (RELU, {}, {FIRST_LAYER: (10, 13)}, {FIRST_LAYER: (10, 11)}),
}
"""Each claim with what makes a table, and its arguments: holds, fails, undecided."""


def claim_of(name: str) -> Any:
    figure, key = name.split("/")
    return CLAIMS[figure][key]


@pytest.mark.parametrize("name", CASES)
def test_a_claim_holds_fails_or_is_undecided(name: str) -> None:
    make, *cases = CASES[name]
    tables = [make(case) for case in cases if case is not None]
    assert outcomes(claim_of(name), *tables) == ["holds", "fails", "undecided"][: len(tables)]


def test_every_claim_is_tested() -> None:
    assert {*CASES} == {f"{figure}/{key}" for figure, keys in CLAIMS.items() for key in keys}


@pytest.mark.parametrize("name", CASES)
def test_four_networks_are_too_few_and_a_stand_in_for_cifar100_decides_nothing(name: str) -> None:
    make, holds, *_ = CASES[name]
    made, claim = make(holds), claim_of(name)
    few = judged(claim, made.sel(run=made["seed"].values < 4))
    if not any(word in claim.text for word in ("tau", "rho", "of the networks", "all pairs")):
        assert few.outcome == "not run"
    made.attrs["evidence"] = "stand-in"
    verdict = judged(claim, made)
    if made.attrs["experiment"] in (RATES_100, REGULARIZERS_100):
        assert verdict.outcome == "not run"
        assert "the evidence is stand-in" in verdict.reason
        assert verdict.evidence  # its numbers are reported all the same
    else:
        assert verdict.outcome == "holds"


@pytest.mark.parametrize("name", CASES)
def test_without_a_quantity_or_with_eigenvalues_that_did_not_converge_a_claim_is_not_run(
    name: str,
) -> None:
    make, holds, *_ = CASES[name]
    made, claim = make(holds), claim_of(name)
    unconverged = made.copy(deep=True)
    unconverged["hessian_converged"][::20] = 0
    about_sharpness = "lambda_max" in claim.text or "sharpness" in claim.text
    verdict = judged(claim, unconverged)
    assert (verdict.outcome == "not run") is about_sharpness
    if about_sharpness:
        assert "of the eigenvalues (hessian) of" in verdict.reason
    bare = judged(claim, made[["hessian_converged"]])
    assert bare.outcome == "not run"
    assert f"{made.attrs['experiment']} has no " in bare.reason


def test_what_is_typical_may_be_otherwise_at_one_batch_size_and_not_at_two() -> None:
    def other_at(*sizes: int) -> xr.Dataset:
        return rates(
            {SHARPNESS: lambda c: np.where(np.isin(c["batch_size"], sizes), large(c), small(c))}
        )

    assert outcomes(CLAIMS["fig3"]["c1"], other_at(64), other_at(64, 128)) == ["holds", "fails"]


def test_four_of_five_batch_sizes_need_no_correction_for_all_choices_of_four() -> None:
    """Two times the fourth p-value: each of four alone is enough, not five times."""
    noise = np.random.default_rng(3).normal(size=5)

    def rule(c: Columns) -> np.ndarray:
        return np.where(c["batch_size"] == 64, large(c), small(c) + 0.3 * noise[c["seed"]])

    verdict = judged(CLAIMS["fig3"]["c3"], rates({J: rule}))
    assert verdict.outcome == "holds"
    assert len(verdict.evidence) == 5 * 2  # each step of the rate once


def test_settings_are_fixed_and_seeds_alone_vary_by_chance() -> None:
    """A rank correlation over settings that differ, with little noise, has a narrow interval."""
    made = rates({J: lambda c: small(c) + 3 * c["noise"] * np.cos(np.arange(len(c["lr"])))})
    resnets = ResultTables({RATES: made})[RATES].where(architecture="resnet")
    tau, pool = resnets.tau("lr", J), resnets.tau("lr", J, among="pool")
    (low, high), (least, most) = tau.interval(), pool.interval()
    assert high - low < 0.05
    assert most - least > 4 * (high - low)
    lr, jacobian = resnets.column("lr"), resnets.column(J)
    signs = np.sign(np.subtract.outer(lr, lr) * np.subtract.outer(jacobian, jacobian))
    # on Fisher's z tau is shrunk by one pair
    pairs = len(lr) * (len(lr) - 1) / 2
    assert tau.value == pytest.approx(signs.sum() / 2 / (pairs + 1))
    assert pool.value == tau.value


def test_regularizers_without_effect_on_sharpness_do_not_regularize_it() -> None:
    """No correlation at all counts as none, although an interval around it contains zero."""
    made = strategies({SHARPNESS: lambda c: 5 - 10 * c["lr"] + c["noise"] - c["sam_radius"]})
    for name in ("fig5/c4", "fig23/c5"):
        assert outcomes(claim_of(name), made) == ["holds"]


@pytest.mark.parametrize("figure", NETWORKS)
def test_each_figure_is_about_its_own_networks(figure: str) -> None:
    grid, network = NETWORKS[figure]
    made = strategies(grid=grid)
    others = np.any([made[name].values != value for name, value in network.items()], axis=0)
    made[J].values[others] = np.nan
    alone = made.sel(run=others)
    assert outcomes(CLAIMS[figure]["c1"], made, alone) == ["holds", "not run"]


def test_a_rank_correlation_needs_25_networks_and_compares_the_same_ones() -> None:
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
    assert taus[0].value == pytest.approx(np.sum(signs) / (len(pairs) + 1))


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
    assert outcomes(claim, RELU({FIRST_LAYER: (10, 7)})) == ["fails"]
    near = RELU({FIRST_LAYER: (10, 8.5)})
    entry = claim.entry("c3", ResultTables({near.attrs["experiment"]: near}))
    thresholds = [(t["threshold"], t["verdict"]) for t in entry["thresholds"]]
    assert thresholds == [(0.05, "fails"), (0.2, "holds")]


def test_repetitions_say_the_same_and_name_the_first() -> None:
    pairs = {"table1/c1": "fig32/c1", "table2/c1": "fig32/c2", "fig6/c2": "fig1/c2"}
    for name, repeated in pairs.items():
        assert claim_of(name).repeats == f"macdonald2023_{repeated}"
        assert claim_of(name).text == claim_of(repeated).text
