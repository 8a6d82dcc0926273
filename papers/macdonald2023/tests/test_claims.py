"""The claims of macdonald2023 on synthetic tables: holding, failing, undecided."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import xarray as xr

from flatlab.core.schema import STAND_IN
from flatlab.papers.macdonald2023.claims import CLAIMS, NETWORKS, RATES, RATES_100, REGULARIZERS_100
from flatlab.papers.macdonald2023.claims_training import FULL_BATCH_FIGURES
from papers.macdonald2023.tests.tables import (
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
    claim_of,
    decays,
    ends,
    full_batch,
    large,
    mixed,
    one_pair,
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
from tests.synthetic.tables import judged, outcomes

Make = Callable[[Any], xr.Dataset]
LARGE = dict.fromkeys((SHARPNESS, GAP, J), large)
ALIKE = dict.fromkeys((SHARPNESS, GAP, J), seeds_alone)
OTHERWISE = {J: against, SHARPNESS: all_regularize}
TURNED, LEVEL = (1.0, 2.0, 3.0), (2.0, 2.0, 2.0)
GAUSSIAN, RELU = (partial(points, f"regression-{name}-grid") for name in ("gaussian", "relu"))
low_start = partial(full_batch, start=0.1)
SMOOTHED = [figure for figure in FULL_BATCH_FIGURES if figure != "fig6"]
first_epoch = partial(sgd, ends={SOFTMAXED: (0.5,) * 3, SHARPNESS: (0.5,) * 3})


def wave(made):
    """The table with a wave of sharpness of its own for each seed."""
    phase = np.arange(made.sizes["checkpoint"]) + 2 * made["seed"].values[:, None]
    factor = xr.DataArray(1 + 0.05 * np.sin(phase), dims=("run", "checkpoint"))
    return made.assign({SHARPNESS: (made[SHARPNESS] * factor).transpose(*made[SHARPNESS].dims)})


def wobbling(levels):
    return wave(low_start(levels))


def wobbling_sgd(end):
    return wave(sgd(ends={SOFTMAXED: (0.5,) * 3, SHARPNESS: end * 3}))


def by_decay(level, slope):
    return lambda c: level + slope * c["weight_decay"] + c["noise"]


def near_limit(c):
    return 0.01 + 0.1 * c["noise"]


def one_sharper(c):
    return only_sam(c) * np.where((c["seed"] == 4) & (c["lr"] == 0.1), 2, 1)


RISES = by_decay(1, 1e3)
CASES = {
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
    "fig2/c1": (decays, {}, {GAP: RISES}, {GAP: seeds_alone}),
    "fig2/c2": (decays, {}, {SHARPNESS: by_decay(20, -1e4)}, {SHARPNESS: seeds_alone}),
    "fig2/c3": (decays, {}, {J: RISES}, {J: seeds_alone}),
    "fig2/c4": (decays, {}, {GAP: RISES}, {GAP: seeds_alone}),
    "fig2/c5": (decays, {}, {LOSS: lambda c: 0.1 + c["noise"]}, {LOSS: near_limit}),
    # regularizers; two random orders are not the same one
    "fig5/c1": (strategies, {}, OTHERWISE, dict.fromkeys((J, SHARPNESS), random)),
    "fig5/c2": (strategies, {}, {J: against}, {J: random}),
    "fig5/c3": (strategies, {}, {SHARPNESS: against}, {SHARPNESS: random}),
    "fig5/c4": (strategies, {}, {SHARPNESS: all_regularize}, {SHARPNESS: random}),
    **{
        f"{figure}/{key}": (partial(strategies, grid=grid), *others)
        for figure, (grid, _) in NETWORKS.items()
        for key, *others in (
            ("c1", {}, {J: against}, {J: random}),
            ("c2", {SHARPNESS: random}, {SHARPNESS: against}, {SHARPNESS: only_sam}),
            ("c3", {}, {GAUSS_NEWTON: lambda c: 1.2 * only_sam(c)}, {GAUSS_NEWTON: one_sharper}),
            ("c4", {}, {SHARPNESS: against}, {SHARPNESS: random}),
            ("c5", {}, {J: against}, {J: random}),
        )
    },
    # smoothed labels
    **{
        f"{figure}/{key}": (low_start, {}, {name: TURNED}, {name: LEVEL})
        for figure in ("fig1", *FULL_BATCH_FIGURES)
        for key, name in (("c1", SOFTMAXED), ("c2", SHARPNESS))
    },
    **{
        f"{figure}/{key}": (wobbling, *({SHARPNESS: (end,) * 3} for end in (9, 0.05, 0.1)))
        for figure, key in (("fig1", "c5"), *((name, "c3") for name in SMOOTHED))
    },
    "fig29/c4": (wobbling_sgd, *((0.5,), (3,), (1,))),
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


@pytest.mark.every(8)
@pytest.mark.parametrize("name", CASES)
def test_a_claim_holds_fails_or_is_undecided(name):
    make, *cases = CASES[name]
    tables = [make(case) for case in cases if case is not None]
    assert outcomes(claim_of(name), *tables) == ["holds", "fails", "undecided"][: len(tables)]


def test_every_claim_is_tested():
    assert {*CASES} == {f"{figure}/{key}" for figure, keys in CLAIMS.items() for key in keys}


DISTINCT = [*{claim_of(name).text: name for name in CASES}.values()]
"""Figures of other networks have the same claims."""


@pytest.mark.every(10)
@pytest.mark.parametrize("name", DISTINCT)
def test_four_networks_are_too_few(name):
    make, holds, *_ = CASES[name]
    made, claim = make(holds), claim_of(name)
    few = judged(claim, made.sel(run=made["seed"].values < 4))
    if not any(word in claim.text for word in ("tau", "rho", "of the networks", "all pairs")):
        assert few.outcome == "not run"


def test_a_stand_in_for_cifar100_decides_nothing():
    of_100 = {f"fig{number}" for number in (13, 15, 17, 19)}
    of_100 |= {figure for figure, (grid, _) in NETWORKS.items() if grid == REGULARIZERS_100}
    strict = {name for name in CASES if STAND_IN not in claim_of(name).admits}
    assert strict == {name for name in CASES if name.split("/")[0] in of_100}


@pytest.mark.every(10)
@pytest.mark.parametrize("name", DISTINCT)
def test_without_a_quantity_or_with_eigenvalues_that_did_not_converge_a_claim_is_not_run(name):
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


def test_repetitions_say_the_same_and_name_the_first():
    pairs = {"table1/c1": "fig32/c1", "table2/c1": "fig32/c2", "fig6/c2": "fig1/c2"}
    for name, repeated in pairs.items():
        assert claim_of(name).repeats == f"macdonald2023_{repeated}"
        assert claim_of(name).text == claim_of(repeated).text
