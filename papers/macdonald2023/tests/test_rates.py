"""What decides the claims of macdonald2023 on learning rates, batch sizes and regularizers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import xarray as xr

from flatlab.lab.claims import ResultTables
from flatlab.papers.macdonald2023.claims import CLAIMS
from flatlab.papers.macdonald2023.claims_rates import TEN as RATES
from flatlab.papers.macdonald2023.claims_regularizers import NETWORKS
from flatlab.papers.macdonald2023.claims_regularizers import TEN as REGULARIZERS
from papers.macdonald2023.tests.tables import (
    GAP,
    SHARPNESS,
    J,
    claim_of,
    large,
    rates,
    small,
    strategies,
)
from tests.synthetic.tables import Columns, judged, outcomes


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
